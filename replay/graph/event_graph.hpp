// SPDX-License-Identifier: BSD-3-Clause
// The event graph of a replay: written while the replay runs, then read backward by graph/slack_pass.hpp.
//
// A node is an event whose approximated time was computed: the begin or end of an MPI call, a step inside a collective, the last arrival of
// its members. It is written after the nodes that it depends on, so reading backward meets a node after all nodes that depend on it. Nodes
// take a few tens of bytes each in an unlinked temporary file in TMPDIR; one chunk is in memory.
//
// Several processes write one graph, each the nodes that it replays. A node's number is unique, and greater than those of all nodes that it
// depends on, in any process (Lamport, CACM 21(7), 1978). So all files together can be read backward by decreasing number.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "replay/base/file_bytes.hpp"
#include "replay/trace/call_path.hpp"

namespace polter::replay {

struct GraphEdge {
    uint64_t from = 0;
    int64_t slack = 0;   // in the scenario "all": by how much `from` could be later without delaying the node
    uint64_t binds = 0;  // bit set of watched scenarios in which this edge is the critical predecessor
};

// Noise removed at a node, by event.
struct GraphNoise {
    uint32_t thread = 0, culprit = 0;
    uint16_t account = 0;
    Place place;
    int64_t begin = 0, duration = 0;  // the whole event
    int64_t counted = 0;              // ns removed here because of it; the sum over all nodes is what the event counts in total
    int64_t effect = 0;               // delay of the node if only this event is put back
};

struct GraphNode {
    static constexpr uint32_t no_thread = UINT32_MAX;
    uint32_t thread = no_thread;
    Place place;
    int64_t time = 0, delay = 0;  // measured; delay in the scenario "all"
    std::vector<GraphEdge> edges;
    std::vector<GraphNoise> noise;
    std::vector<std::pair<uint32_t, int64_t>> computed;  // region, ns: computation outside MPI since the thread's last node
};

class EventGraph {
  public:
    static constexpr uint64_t none = 0;  // means: no node

    // Throws InputError. `local_numbers`: a mutation for the tests.
    explicit EventGraph(uint64_t process = 0, uint64_t processes = 1, bool local_numbers = false);
    ~EventGraph();
    EventGraph(const EventGraph&) = delete;
    EventGraph& operator=(const EventGraph&) = delete;

    // Returns its number, never `none`. Errors are kept for finish(): callbacks of a C library must not throw.
    uint64_t add(const GraphNode& node);
    void finish();  // after the last node; throws InputError
    using Visit = std::function<void(uint64_t number, const GraphNode& node)>;
    // Visits the nodes, last to first; after finish(). Throws InputError.
    void backward(const Visit& visit) const;
    // What this process wrote: the number of bytes, and a function that reads them.
    struct Part {
        int64_t bytes = 0;
        ReadAt read;
    };
    // Visits the nodes of all processes as one graph; files by process.
    static void backward(const std::vector<Part>& parts, const Visit& visit);

    int64_t bytes() const { return end_; }
    void read(void* to, size_t bytes, int64_t at) const;  // of the file; throws InputError

  private:
    void write_chunk();

    std::string directory_, chunk_;
    const uint64_t process_, processes_;
    const bool local_numbers_;
    uint64_t last_ = 0, last_of_chunk_before_ = 0, nodes_in_chunk_ = 0;  // last: a number is last · processes + process
    int fd_ = -1, error_ = 0;
    int64_t end_ = 0, time_before_ = 0;
};

}  // namespace polter::replay
