// SPDX-License-Identifier: BSD-3-Clause
// Writes the event graph while the engine replays: which constraint decided each event, and by how much the others could have been later.
//
// A delay is recorded in the *watched* scenarios only, `watched[0]` the measured timeline, `watched[1]` "all", then "all but" each
// source that shares in it. A node is described in the engine's own terms: D(node) = min over candidates + what noise was removed here.
#pragma once

#include <cstdint>
#include <vector>

#include "event_graph.hpp"
#include "replay/scenario/lanes.hpp"
#include "replay/scenario/noise_placement.hpp"

namespace polter::replay {

class Bytes;
class Input;
// A thread as far as the recorder follows it, outside of MPI calls.
struct RecordedThread {
    uint32_t index = 0;
    uint32_t region = no_region;     // innermost
    const int64_t* delay = nullptr;  // in lanes
    uint64_t node = 0;               // its last
};

// What became of the local noise of a thread and where its delay came from, in the scenario "all". By construction
//     local = waiting + counted + dropped        (dropped: did not fit its interval, or hit after the last event)
//     delay at the end = counted + imported − lost
struct NoiseBalance {
    int64_t waiting = 0;   // hit while the thread waited, and cost nothing
    int64_t counted = 0;   // removed from its computation and the completion overhead of its calls
    int64_t imported = 0;  // gained in calls: others were late
    int64_t lost = 0;      // given up in calls, where something else was later
};

class Recorder {
  public:
    // Both must outlive it. `measured_slack`: a mutation for the tests, slacks are those of the measured timeline.
    Recorder(EventGraph& graph, const Lanes& lanes, std::vector<size_t> watched, size_t threads, bool measured_slack = false);

    size_t watched() const { return watched_.size(); }
    size_t lane(size_t watched) const { return watched_[watched]; }
    bool removes(uint16_t account) const { return lanes_.masks[account][watched_[1]] != 0; }

    // ---- a node: start, then its candidates and noise, then write -----------------------------------------------------------------
    void start();
    // D of the node by this dependency, in all lanes, or lane by lane in the watched ones. The first of equal ones decides.
    void candidate(uint64_t from, const int64_t* delay, int64_t residual);
    template <class Delay>
    void candidate_by(uint64_t from, Delay delay) {  // delay(lane)
        int64_t* values = add_candidate(from);
        for (size_t i = 0; i < watched_.size(); ++i) values[i] = delay(watched_[i]);
    }
    template <class Delay>
    void candidate_at(uint64_t from, Delay delay) {  // delay(which of the watched)
        int64_t* values = add_candidate(from);
        for (size_t i = 0; i < watched_.size(); ++i) values[i] = delay(i);
    }
    // `counted` of the noise event that this piece is a part of; pieces of one event follow each other. The piece's own length counts
    // towards the event's.
    void noise(uint32_t thread, const NoisePiece& piece, const Place& place, int64_t counted);
    void noise(uint32_t thread, const NoisePiece& piece, const Place& place, int64_t counted, int64_t effect);
    // `delay`: of the node, in "all"; what candidates and noise add up to must be that. `aside`: the node is not on the thread's own way
    // through its call, and its noise counts there too: a message that left later.
    uint64_t write(uint32_t thread, const Place& place, int64_t time, int64_t delay, bool aside = false);

    // ---- a thread's own time ------------------------------------------------------------------------------------------------------
    // Each returns the thread's last node.
    uint64_t computed(const RecordedThread& thread, int64_t upto);
    uint64_t begin_call(const RecordedThread& thread, int64_t enter);
    void end(const RecordedThread& thread, int64_t last);
    void hit(uint32_t thread, const NoisePiece& piece, uint32_t region);
    // `written`: the call's end has a node; `pieces`: of the noise inside the call.
    void end_call(uint32_t thread, bool written, int64_t leave, const int64_t* delay, const std::vector<NoisePiece>& pieces);

    struct End {
        uint64_t node = EventGraph::none;
        int64_t time = 0, delay = 0;
    };
    const std::vector<End>& ends() const { return ends_; }  // by thread
    const NoiseBalance& balance(size_t thread) const { return threads_[thread].balance; }
    bool consistent() const { return contradictions_ == 0; }

    // Of several processes (parallel/results.cpp): what each knows of its own threads.
    void write_results(Bytes&, const std::vector<bool>& own) const;
    void merge_results(Input&);

  private:
    int64_t* add_candidate(uint64_t from);
    void add_noise(GraphNode& node, uint32_t* last_number, uint32_t thread, const NoisePiece& piece, const Place& place, int64_t counted,
                   int64_t effect) const;
    uint64_t follow(const RecordedThread& thread, int64_t time);

    struct OfThread {
        GraphNode next;  // what the thread computed since its last node
        int64_t computed_upto = 0, delay = 0, in_call = 0;
        uint32_t last_number = 0;
        bool begun = false;
        NoiseBalance balance;
    };
    EventGraph& graph_;
    const Lanes& lanes_;
    std::vector<size_t> watched_;
    std::vector<OfThread> threads_;
    std::vector<End> ends_;
    GraphNode node_;
    std::vector<int64_t> values_;  // of the candidates, one after the other
    uint32_t last_number_ = 0;
    int64_t contradictions_ = 0;
    bool measured_slack_;
};

}  // namespace polter::replay
