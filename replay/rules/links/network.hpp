// SPDX-License-Identifier: BSD-3-Clause
// The network between hosts, as the measured run tells it: whether messages share links (shared_links.hpp), and how long one takes
// alone. It is found only where it explains most of what messages of one size take more or less than usual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "replay/base/bytes.hpp"

namespace polter::replay {

// Several processes look for the network together; by default one alone.
struct LinkSearch {
    size_t part = 0, parts = 1;
    std::function<std::vector<Bytes>(const Bytes&)> gather = {};  // the bytes of each process, by process

    std::vector<Bytes> of_all(const Bytes& mine) const { return gather ? gather(mine) : std::vector<Bytes>{mine}; }
};

// A message of the measured run, for finding the network.
struct SeenTransfer {
    uint32_t from = 0, to = 0;
    uint64_t bytes = 0;
    int64_t begin = 0;  // ns
};

// A call that waited for messages, and for nothing else. Both ends of a rendezvous may have waited for it.
struct SeenCall {
    int64_t enter = 0, leave = 0;    // ns
    std::vector<uint32_t> messages;  // their places among those that are seen
};

struct Seen {
    std::vector<SeenTransfer> transfers;  // sorted by `begin`
    std::vector<SeenCall> calls;
};

// Which of these messages to look at where there are many: about `most`, as many of each size, from all over the run and several that
// follow each other. Places, rising.
std::vector<size_t> some_of_each_size(const std::vector<uint64_t>& bytes, size_t most);
// Runs begin at each quarter of the messages of a size, whatever is between them.
inline constexpr size_t runs_of_each_size = 4;
size_t transfers_in_run(size_t most, size_t sizes);
uint64_t size_of_message(uint64_t bytes);  // the number of its class

class Network {
  public:
    static constexpr size_t most_seen = 4'000;  // about; more are not looked at
    // None: sharing does not explain how long messages took.
    static std::optional<Network> found(const Seen&, const LinkSearch& = {});

    int64_t alone(uint64_t bytes) const;  // ns
    double reverse() const { return reverse_; }

  private:
    struct Size {
        uint64_t bytes;
        double alone;
    };
    std::vector<Size> sizes_;  // rising; there are any
    double reverse_ = 0;
    friend class NetworkSearch;
};

}  // namespace polter::replay
