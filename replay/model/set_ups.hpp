// SPDX-License-Identifier: BSD-3-Clause
// Collectives that set something up before they do what the others of their class do: which they are, and by what messages they do it.
#pragma once

#include <optional>
#include <vector>

#include "collective_algorithm.hpp"

namespace polter::replay {

// A first call may set up what the later ones use: one that took much longer than the others, and longer than noise explains, is taken out
// of the samples. `firsts`: first calls on their communicators, which may be others; those of them that set up are taken, too.
std::vector<InstanceSample> take_set_ups(std::vector<InstanceSample>* samples, std::vector<InstanceSample> firsts);

// Of so few calls that they do not show what is usual: those that took as long as setting up by messages takes that are `way` ns under way.
std::vector<InstanceSample> may_set_up(const std::vector<InstanceSample>& samples, int64_t way);

// How calls that set up do it: by the messages of SMPI, with costs near known ones. Then as `usual`, if that is known, or by the library's
// rules. None: that does not explain what they took.
std::optional<Structure> explain_set_ups(const std::vector<InstanceSample>& set_ups, const CollectiveKind& kind, Library library,
                                         bool noise_known, const std::vector<Reference>& known, const std::optional<Structure>& usual);

}  // namespace polter::replay
