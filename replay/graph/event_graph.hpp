// SPDX-License-Identifier: BSD-3-Clause
// The event graph of a replay, written while it runs and read backward afterwards: what the backward pass (graph/slack_pass.hpp) works on.
//
// A node is an event whose approximated time was found: the beginning or end of an MPI call, a step inside a collective, the last coming
// of its members. It is written after those that it depends on, so reading backward meets each node after all that depend on it.
// Nodes are spilled, a few tens of bytes each, to an unlinked temporary file in TMPDIR; memory holds one chunk of it.
//
// Several processes write one graph, each the nodes of what it replays. A node's number is greater than those of all that it depends on, in
// whichever process they are (Lamport, CACM 21(7), 1978), and is taken once: so all together read backward by falling numbers.
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
    int64_t slack = 0;   // in the scenario "all": how much later `from` could be before the node is
    uint64_t binds = 0;  // bits, by watched scenario: this is the edge that decided
};

// A noise event as it counts at a node.
struct GraphNoise {
    uint32_t thread = 0, culprit = 0;
    uint16_t account = 0;
    Place place;
    int64_t begin = 0, duration = 0;  // the whole event
    int64_t counted = 0;              // what was removed here because of it; over the node's events this adds up
    int64_t effect = 0;               // how much later the node is if this event alone is put back
};

struct GraphNode {
    static constexpr uint32_t no_thread = UINT32_MAX;
    uint32_t thread = no_thread;
    Place place;
    int64_t time = 0, delay = 0;  // measured; in the scenario "all"
    std::vector<GraphEdge> edges;
    std::vector<GraphNoise> noise;
    std::vector<std::pair<uint32_t, int64_t>> computed;  // region, ns: of what a thread did since its last node outside MPI
};

class EventGraph {
  public:
    static constexpr uint64_t none = 0;  // no node

    // Throws InputError. `local_numbers`: a mutation for the tests.
    explicit EventGraph(uint64_t process = 0, uint64_t processes = 1, bool local_numbers = false);
    ~EventGraph();
    EventGraph(const EventGraph&) = delete;
    EventGraph& operator=(const EventGraph&) = delete;

    // Its number, never `none`. An error of the file is kept for finish(): callbacks of a C library cannot throw.
    uint64_t add(const GraphNode& node);
    void finish();  // after the last; throws InputError
    using Visit = std::function<void(uint64_t number, const GraphNode& node)>;
    // From the last to the first; after finish(). Throws InputError.
    void backward(const Visit& visit) const;
    // What one process wrote: how many bytes, and how to read them.
    struct Part {
        int64_t bytes = 0;
        ReadAt read;
    };
    // All processes' as one graph; by process.
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
