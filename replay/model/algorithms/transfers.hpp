// SPDX-License-Identifier: BSD-3-Clause
// What a fence waits for beside the messages of its own: the puts, gets and accumulates that its members have begun.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace polter::replay {

// One of them. `share`: its data in BlockSizes::unit.
struct MemberTransfer {
    uint32_t from = 0, to = 0;  // members
    int64_t begin = 0;          // it is under way from then on
    double share = 0;
};

// "Not over before so much data has come through a link since then." However those that are under way on a link at once share it, the last
// of them is over when it would be one after another: a link at work does not rest.
struct AwaitedTransfer {
    int64_t begin = 0;
    double share = 0;
    double length = 0;    // of the one that began then, as `share`
    bool leaves = false;  // from here; else it comes
};

// Adds what a link says whose transfers these are, in one direction; sorts them by their beginning.
inline void add_awaited(std::vector<AwaitedTransfer>& of_link, bool leave, std::vector<AwaitedTransfer>* to) {
    std::stable_sort(of_link.begin(), of_link.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    double behind = 0;
    for (size_t i = of_link.size(); i-- > 0;) {
        behind += of_link[i].share;
        to->push_back({of_link[i].begin, behind, of_link[i].share, leave});
    }
}

// What a member waits for: of both directions of its link. It takes those that come one by one, as messages.
struct TransfersOfMember {
    std::vector<AwaitedTransfer> awaited;
    uint32_t taken = 0;
    double taken_share = 0;  // their data, of all of them
};

// By member. None where there are no transfers.
std::vector<TransfersOfMember> awaited_transfers(const std::vector<MemberTransfer>& all, uint32_t members);

}  // namespace polter::replay
