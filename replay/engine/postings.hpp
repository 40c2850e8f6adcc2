// SPDX-License-Identifier: BSD-3-Clause
// What non-blocking receives were posted for, where the trace tells that only at their completion. Learned in a first pass, so that later
// passes know the channel at the posting, on which senders may depend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/base/bytes.hpp"
#include "replay/base/flat_map.hpp"

namespace polter::replay {

// As the completion names it: source is a rank in comm.
struct PostedFor {
    uint32_t comm = 0, source = 0, tag = 0;
    bool operator==(const PostedFor&) const = default;
    uint64_t hash() const { return mix((static_cast<uint64_t>(comm) << 32 | tag) * 0x9e3779b97f4a7c15u ^ source); }
};

class Postings {
  public:
    // Of all threads together; each has the same part of it, so that the number of analysis processes changes nothing.
    static constexpr size_t most_bytes = size_t{128} << 20;

    explicit Postings(size_t threads, size_t most = most_bytes);

    // `posting`: 1-based index among those of the thread that posted it. Forgotten beyond the thread's part of the memory.
    void learn(uint32_t thread, uint64_t posting, const PostedFor& what);
    const PostedFor* find(uint32_t thread, uint64_t posting) const;  // none: not known
    bool empty() const;

    void write(Bytes&) const;
    void merge(Input&);  // of threads that others have read

  private:
    // Programs post the same few receives again and again: 4 bytes a posting.
    struct OfThread {
        std::vector<uint32_t> what;  // by posting: 1-based index into `kinds`; 0: not known
        std::vector<PostedFor> kinds;
        FlatMap<PostedFor, uint32_t> index_of;
    };
    size_t most_of_thread_;
    std::vector<OfThread> threads_;
};

}  // namespace polter::replay
