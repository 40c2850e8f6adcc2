// SPDX-License-Identifier: BSD-3-Clause
// A replay with the seams that the tests need. Everybody else calls replay() of replay.hpp.
#pragma once

#include <functional>

#include "replay.hpp"
#include "replay/engine/engine.hpp"
#include "replay/engine/reading/decoder.hpp"
#include "replay/scenario/scenario.hpp"
#include "what_if.hpp"

namespace polter::replay {

struct Hooks {
    Faults faults;
    // At each Enter and Leave of the replay pass: `delay` is in the lanes of `scenarios`.
    std::function<void(const Scenarios& scenarios, const Thread&, int64_t time, const int64_t* delay)> observer;
    std::function<void(uint64_t node, int64_t slack)> slack;  // with Options::attribution: of each node of the event graph
    bool reverse_order = false;                               // begin with the last location: what is found must not depend on it
    DecodingSteps decoding;                                   // with Options::decode_ahead
    size_t most_in_flight = 0;                                // see Engine; 0: its default
    size_t* most_matches = nullptr;                           // out: message records that were ever alive at once, rounded up to a slab
};

// `ask`: see what_if.hpp.
Result replay_with(const Options&, const Hooks&, const std::function<void(const Result&, WhatIfs&)>& ask = {});

}  // namespace polter::replay
