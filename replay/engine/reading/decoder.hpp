// SPDX-License-Identifier: BSD-3-Clause
// A process that decodes the event files ahead of the first pass, which meanwhile learns from what has been decoded. Where it ends too
// early, or finds what is not as it should be, the first pass goes on in the archive itself from there: so damage is met, and reported,
// as without it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "kept_events.hpp"

namespace polter::replay {

struct Thread;

struct DecodingSteps {
    uint64_t records = 2048;     // of a location at once; with more, the first pass waits for others
    uint64_t most = UINT64_MAX;  // for the tests: after so many steps the process dies
};

class Decoder {
  public:
    // `archive`: whose event files are not open yet. The events of `threads` come into what is kept of them, in memory that processes
    // share. None: no process could be started. Call it while the process has one thread.
    static std::unique_ptr<Decoder> start(Archive& archive, const std::vector<Thread*>& threads, const DecodingSteps& steps);
    ~Decoder();  // ends the process
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;

    bool lost() const { return child_ <= 0; }
    // What a location is whose end a lost process has not told.
    DecodedAhead::State end_unknown() const { return lost_is_whole_ ? DecodedAhead::State::complete : DecodedAhead::State::stopped; }
    // Pauses, after `waited` pauses without more records; then looks whether the process still comes forward.
    void wait(int waited);

  private:
    Decoder() = default;
    void end();

    Pages shared_;
    std::atomic<uint64_t>* steps_ = nullptr;  // calls of OTF2; in the shared pages
    pid_t child_ = 0;
    uint64_t steps_seen_ = 0;
    double since_s_ = 0;
    bool lost_is_whole_ = false;
};

}  // namespace polter::replay
