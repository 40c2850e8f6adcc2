// SPDX-License-Identifier: BSD-3-Clause
// Where the noise that stays lies in the approximated timeline.
//
// In words: while a thread computes, a moment is as long after the last Enter or Leave as it was, less the noise between them that was
// removed. In a call, what waits is elastic and the tail is not: of the tail as much is left behind a moment as there was, less the noise
// that was removed there (in a collective that is followed through its messages, as much as there was); a moment of the wait state is as
// long after the Enter as it was, or sooner where the waiting ends sooner. Noise that stays keeps its length, in its own part of the call.
// Where that is too short for all of it, the rest hit while the thread waited for what has come sooner: it is cut off.
#pragma once

#include <cstdint>
#include <vector>

namespace polter::replay {

// What one noise record claimed of an interval, or a part of that.
struct ClaimedPiece {
    int64_t begin = 0, end = 0;  // measured ns
    int64_t recorded = 0;        // when the record says that it ended
    uint16_t account = 0;
    bool stays = false;
};

// From one Enter or Leave to the next, but for those inside MPI calls.
struct ApproximatedInterval {
    int64_t begin = 0, end = 0;  // measured ns
    int64_t begin_delay = 0, end_delay = 0;
    bool in_call = false;
    // Of a call: where its waiting ended, and where it does in the approximated timeline.
    int64_t waited_until = 0, approximated_until = 0;
    bool stepwise = false;  // it waits more than once: removed noise in its tail may have been waiting
};

// From this moment on the delay goes evenly to that of the next one.
struct DelayTurn {
    int64_t time = 0, delay = 0;
    bool operator==(const DelayTurn&) const = default;
};

// So much of what was recorded at this time has no place any more.
struct NoiseCut {
    int64_t recorded = 0, ns = 0;
    uint16_t account = 0;
    bool operator==(const NoiseCut&) const = default;
};

struct KeptNoise {
    std::vector<DelayTurn> turns;  // between the interval's ends, by time; of equal ones the first reaches it
    std::vector<NoiseCut> cuts;
};

// Where nothing stays there are no turns: nothing has to have room. `pieces` are sorted.
KeptNoise place_kept_noise(const ApproximatedInterval&, std::vector<ClaimedPiece>& pieces, bool keep_absorbed = false);

}  // namespace polter::replay
