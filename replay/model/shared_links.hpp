// SPDX-License-Identifier: BSD-3-Clause
// Messages between hosts that share their hosts' links: how much later each is there than if it were alone.
//
// Each host has a link in either direction. What is under way on a link shares it max-min fairly (Bertsekas, Gallager, Data Networks, 2nd
// ed., section 6.5.2), as flows of TCP and of fair switches nearly do, and as SimGrid simulates them (Casanova, Legrand et al., 2014).
// Whether that is so, and how long a message takes alone, the measured run tells: a network is found only where it explains most of what
// messages of one size take more or less than usual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace polter::replay {

// Data that one host sends another.
struct Flow {
    uint32_t from = 0, to = 0;  // hosts, from 0 on
    int64_t begin = 0;          // ns
    int64_t alone = 0;          // ns that its data takes if nothing else is under way
};

// By transfer: ns that its end is later than if it were alone. `reverse`: what a transfer takes of the links the other way round
// (acknowledgements), as a part of what it takes of its own. None: it would take too long to find out.
std::optional<std::vector<int64_t>> later_by_sharing(const std::vector<Flow>& transfers, double reverse);

// A message of the measured run, for finding the network.
struct SeenTransfer {
    uint32_t from = 0, to = 0;
    uint64_t bytes = 0;
    int64_t begin = 0;    // ns
    int64_t took = 0;     // ns until the call that waited for it was over
    int64_t in_call = 0;  // of that within the call
    uint32_t call = 0;    // the same of messages that one call waited for, and for nothing else; 0: it tells nothing
};

class Network {
  public:
    static constexpr size_t most_seen = 4'000;  // more are not looked at
    // From messages that are sorted by `begin`. None: sharing does not explain how long they took.
    static std::optional<Network> found(const std::vector<SeenTransfer>&);

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
