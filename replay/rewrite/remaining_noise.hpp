// SPDX-License-Identifier: BSD-3-Clause
// Where the noise that stays lies in the approximated timeline.
//
// In words: in computation, a time keeps its distance from the last Enter or Leave, less the noise removed between them. In a call, the
// wait state is elastic and the completion overhead is not. A time in the completion overhead keeps its distance from the Leave, less the
// noise removed after it (in a collective replayed through its messages: its full distance). A time in the wait state keeps its distance
// from the Enter, but is at most the end of the wait state. Noise that stays keeps its length within its part of the call. What does not
// fit, because the part is shorter, hit while the thread waited for something that now comes earlier: it is cut off.
#pragma once

#include <cstdint>
#include <vector>

namespace polter::replay {

// What one noise record claims of an interval, or a piece of that.
struct ClaimedPiece {
    int64_t begin = 0, end = 0;  // measured ns
    int64_t recorded = 0;        // time of the record
    uint16_t account = 0;
    bool stays = false;
};

// From one Enter or Leave to the next, outside MPI calls; a call is one interval.
struct ApproximatedInterval {
    int64_t begin = 0, end = 0;  // measured ns
    int64_t begin_delay = 0, end_delay = 0;
    bool in_call = false;
    // Of a call: end of the wait state, measured and approximated.
    int64_t waited_until = 0, approximated_until = 0;
    bool stepwise = false;  // several wait states: noise removed in its completion overhead may have been in one
};

// From here on, the delay changes linearly to that of the next turn.
struct DelayTurn {
    int64_t time = 0, delay = 0;
    bool operator==(const DelayTurn&) const = default;
};

// So much of the noise recorded at this time does not fit any more.
struct NoiseCut {
    int64_t recorded = 0, ns = 0;
    uint16_t account = 0;
    bool operator==(const NoiseCut&) const = default;
};

struct KeptNoise {
    std::vector<DelayTurn> turns;  // between the interval's ends, by time; with equal times the first ends what was before
    std::vector<NoiseCut> cuts;
};

// Without noise that stays there are no turns. `pieces` are sorted.
KeptNoise place_kept_noise(const ApproximatedInterval&, std::vector<ClaimedPiece>& pieces, bool keep_absorbed = false);

}  // namespace polter::replay
