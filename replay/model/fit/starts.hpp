// SPDX-License-Identifier: BSD-3-Clause
// Costs from which an algorithm's fit to the leave times starts.
#pragma once

#include <vector>

#include "collective_fit.hpp"

namespace polter::replay {

Structure scaled(Structure structure, double own, double hop);

// Costs from which an algorithm is fitted: as much as the calls took, spread over the longest way through its messages.
std::vector<Structure> starts(const Structure& plain, const std::vector<InstanceSample>& samples, bool few);

// Costs with flights that recur.
std::vector<Structure> with_flights(const Structure& plain, const std::vector<InstanceSample>& samples);

// Of two members: as if the message of the one that came first were all that the other waited for. Who always comes just before a message
// that takes long seems to wait for next to nothing.
Structure from_first(const Structure& plain, const std::vector<InstanceSample>& samples);

// Of a fence whose members wait for transfers: costs with several times that these may take; none would never decide.
std::vector<Structure> with_transfers(const std::vector<Structure>& list, const std::vector<InstanceSample>& samples);

}  // namespace polter::replay
