// SPDX-License-Identifier: BSD-3-Clause
#include "algorithms.hpp"

#include <cmath>

namespace polter::exports {

GoalAlgorithms::GoalAlgorithms(const replay::Learned& learned, const std::string& mpi)
    : learned_(learned), library_(replay::library_named("auto", mpi).value_or(replay::Library::unknown)) {}

const GoalAlgorithms::Choice& GoalAlgorithms::of(uint8_t operation, bool nonblocking, uint32_t members, uint64_t data) {
    const auto [at, fresh] = chosen_.try_emplace({operation, nonblocking, members, data});
    if (fresh) at->second = choose(operation, nonblocking, members, data);
    return at->second;
}

GoalAlgorithms::Choice GoalAlgorithms::choose(uint8_t operation, bool nonblocking, uint32_t members, uint64_t data) const {
    const replay::Waits waits = replay::structural_waits(operation, replay::collective_waits(operation));
    // The class of the same operation that is nearest in size, by ratio. v-forms have one for all sizes.
    const replay::Structure* nearest = nullptr;
    double least = 2;  // a factor of e² in size may change the algorithm
    for (const replay::LearnedStructure& one : learned_.structures) {
        const replay::CollectiveKind kind = replay::kind_of(one.of, waits, members);
        if (one.members != members || kind.operation != operation || kind.nonblocking != nonblocking) continue;
        const auto* found = one.structure ? &*one.structure : one.likeliest ? &*one.likeliest : nullptr;
        const double distance = kind.data == replay::CollectiveKind::unknown
                                    ? 0
                                    : std::abs(std::log((static_cast<double>(kind.data) + 1) / (static_cast<double>(data) + 1)));
        if (!found || distance >= least) continue;
        least = distance;
        nearest = found;
    }
    if (nearest) return {nearest->pattern, true};
    const auto candidates = replay::candidates({operation, waits, nonblocking, data}, members, library_);
    if (!candidates.empty()) return {candidates.front().pattern, false};
    if (waits == replay::Waits::for_nobody) return {};
    replay::Pattern pattern;
    pattern.down = replay::Shape::dissemination;
    return {pattern, false};
}

}  // namespace polter::exports
