// SPDX-License-Identifier: BSD-3-Clause
// Writes the approximated timeline as an OTF2 archive: every record of every location at the time that the replay found for it.
//
// While the replay runs, its delays are spilled; then each location is copied, one at a time. Everything is made in
// DIR.partial-XXXXXX beside DIR and becomes DIR in one step at the end: a DIR that is there is whole.
//
// Of several processes each spills what it replays, in TMPDIR; the first writes the archive.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "delay_file.hpp"
#include "remaining_noise.hpp"
#include "replay/base/mutations.hpp"
#include "replay/trace/definitions.hpp"

namespace polter::replay {

struct Thread;
class Borrowing;
class Engine;
struct Observers;
class Group;

class Approximated {
  public:
    // Throws InputError where `directory` exists or nothing can be made beside it.
    // `group`: none: the only process.
    Approximated(const std::string& directory, Group* group, Faults faults = {});
    ~Approximated();  // removes what is unfinished
    Approximated(const Approximated&) = delete;
    Approximated& operator=(const Approximated&) = delete;

    // Before the replay pass: `removed` says by account whether its noise is gone.
    void begin(const Definitions& definitions, std::vector<bool> removed);
    // Observers of that pass: each Enter, Leave and stretch of noise, and then `others`; `lane`: the scenario that is written.
    Observers following(Observers others, size_t lane);

    // After it: `anchor` is the trace's, `what` says for people what is removed.
    // Throws InputError. Appends to `warnings` what could not be kept. All processes have to call it.
    void write(const std::string& anchor, const Engine& replayed, const Definitions& definitions, const std::string& what,
               const std::function<void(double)>& progress, std::vector<Warning>& warnings);

  private:
    // Where the delays of each location are.
    struct Spilled {
        ReadAt read;
        int64_t first = -1;
    };
    std::vector<Spilled> spilled(const Engine& replayed, Borrowing* borrowing) const;

    // Of a location, since its last Enter or Leave.
    struct Open {
        int64_t since = 0, delay = 0;  // ns
        bool in_call = false;
        std::vector<ClaimedPiece> pieces;
    };
    void note(const Thread& thread, int64_t delay);  // `delay` in ns
    void note_kept(const Thread& thread, int64_t delay);

    Group* group_;
    std::string directory_, partial_;
    std::string reach_;  // a path that leads into partial_ whatever is renamed: the folder around it may be another user's
    int held_ = -1;
    Faults faults_;
    uint64_t ticks_per_second_ = 1'000'000'000, global_offset_ = 0;
    std::vector<bool> removed_;
    std::unique_ptr<DelayFile> delays_;
    std::vector<Open> open_;  // by location
};

}  // namespace polter::replay
