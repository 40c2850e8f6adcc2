// SPDX-License-Identifier: BSD-3-Clause
#include "transfers.hpp"

namespace polter::replay {

std::vector<TransfersOfMember> awaited_transfers(const std::vector<MemberTransfer>& all, uint32_t members) {
    std::vector<std::vector<AwaitedTransfer>> out(members), in(members);
    std::vector<TransfersOfMember> of(all.empty() ? 0 : members);
    for (const MemberTransfer& one : all) {
        if (one.from >= members || one.to >= members) continue;
        out[one.from].push_back({one.begin, one.share});
        in[one.to].push_back({one.begin, one.share});
    }
    for (uint32_t member = 0; member < of.size(); ++member) {
        add_awaited(out[member], true, &of[member].awaited);
        add_awaited(in[member], false, &of[member].awaited);
        of[member].taken = static_cast<uint32_t>(in[member].size());
        for (const AwaitedTransfer& one : in[member]) of[member].taken_share += one.share;
    }
    return of;
}

}  // namespace polter::replay
