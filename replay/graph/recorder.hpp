// SPDX-License-Identifier: BSD-3-Clause
// Writes the event graph during the replay: the critical predecessor of each event, and the slack of its other edges.
//
// Delays are recorded in the *watched* scenarios only: `watched[0]` is the measured timeline, `watched[1]` "all", then "all but" each
// source that takes part in the shares. A node obeys the engine's equation: D(node) = min over candidates + noise removed here.
#pragma once

#include <cstdint>
#include <vector>

#include "event_graph.hpp"
#include "replay/scenario/lanes.hpp"
#include "replay/scenario/noise_placement.hpp"

namespace polter::replay {

class Bytes;
class Input;
// What the recorder needs of a thread, outside MPI calls.
struct RecordedThread {
    uint32_t index = 0;
    uint32_t region = no_region;     // innermost
    const int64_t* delay = nullptr;  // by lane
    uint64_t node = 0;               // its last node
};

// In the scenario "all": what became of a thread's local noise, and where its delay came from. Always
//     local = waiting + counted + dropped        (dropped: did not fit its interval, or hit after the last event)
//     delay at the end = counted + imported − lost
struct NoiseBalance {
    int64_t waiting = 0;   // hit in wait states, and cost nothing
    int64_t counted = 0;   // removed from computation and from the completion overhead of calls
    int64_t imported = 0;  // gained in calls that waited for delayed ranks
    int64_t lost = 0;      // lost in calls where another dependency was critical
};

class Recorder {
  public:
    // `measured_slack`: a mutation for the tests, computes slack on the measured timeline. All arguments must outlive the recorder.
    Recorder(EventGraph& graph, const Lanes& lanes, std::vector<size_t> watched, size_t threads, bool measured_slack = false);

    size_t watched() const { return watched_.size(); }
    size_t lane(size_t watched) const { return watched_[watched]; }
    bool removes(uint16_t account) const { return lanes_.masks[account][watched_[1]] != 0; }

    // ---- a node: start, then its candidates and noise, then write -----------------------------------------------------------------
    void start();
    // A candidate for D of the node: one dependency, in all lanes, or in the watched ones only. Among equal candidates the first is
    // critical.
    void candidate(uint64_t from, const int64_t* delay, int64_t residual);
    template <class Delay>
    void candidate_by(uint64_t from, Delay delay) {  // delay(lane)
        int64_t* values = add_candidate(from);
        for (size_t i = 0; i < watched_.size(); ++i) values[i] = delay(watched_[i]);
    }
    template <class Delay>
    void candidate_at(uint64_t from, Delay delay) {  // delay(index of the watched scenario)
        int64_t* values = add_candidate(from);
        for (size_t i = 0; i < watched_.size(); ++i) values[i] = delay(i);
    }
    // `counted` ns of the noise event to which this piece belongs. Pieces of one event come one after the other; their lengths add up to
    // the event's.
    void noise(uint32_t thread, const NoisePiece& piece, const Place& place, int64_t counted);
    void noise(uint32_t thread, const NoisePiece& piece, const Place& place, int64_t counted, int64_t effect);
    // `delay`: the node's in "all", equal to what candidates and noise add up to. `aside`: the node is a message's departure, which is not
    // on the thread's own path through its call; the noise counts on that path too.
    uint64_t write(uint32_t thread, const Place& place, int64_t time, int64_t delay, bool aside = false);

    // ---- a thread's own time ------------------------------------------------------------------------------------------------------
    // Each returns the thread's latest node.
    uint64_t computed(const RecordedThread& thread, int64_t upto);
    uint64_t begin_call(const RecordedThread& thread, int64_t enter);
    void end(const RecordedThread& thread, int64_t last);
    void hit(uint32_t thread, const NoisePiece& piece, uint32_t region);
    // `written`: the call's end has its node already; `pieces`: the noise inside the call.
    void end_call(uint32_t thread, bool written, int64_t leave, const int64_t* delay, const std::vector<NoisePiece>& pieces);

    struct End {
        uint64_t node = EventGraph::none;
        int64_t time = 0, delay = 0;
    };
    const std::vector<End>& ends() const { return ends_; }  // by thread
    const NoiseBalance& balance(size_t thread) const { return threads_[thread].balance; }
    bool consistent() const { return contradictions_ == 0; }
    // Whether something happens later without the noise than in the measured run: another order of tasks, locks or accesses can do that.
    bool anything_later() const { return least_delay_ < 0; }

    // Merging among processes (parallel/results.cpp): what each knows of its own threads.
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
    std::vector<int64_t> values_;  // of the candidates, concatenated
    uint32_t last_number_ = 0;
    int64_t contradictions_ = 0, least_delay_ = 0;  // least: in "all"
    bool measured_slack_;
};

}  // namespace polter::replay
