// SPDX-License-Identifier: BSD-3-Clause
// What is known of a job without a replay: the ranks' own sums of their local noise.
#pragma once

#include "../tracer/launch/launch.hpp"
#include "replay/replay.hpp"

namespace polter::cli {

// A result in which everything that only a replay can tell is unset.
replay::Result unreplayed(const launch::Traced&);
// Of the keys of `polter replay --json` those that are known, under the same names.
nlohmann::json unreplayed_json(const replay::Result&);

}  // namespace polter::cli
