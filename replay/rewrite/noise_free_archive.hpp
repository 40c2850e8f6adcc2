// SPDX-License-Identifier: BSD-3-Clause
// Writes the approximated timeline as an OTF2 archive: every record of every location at the time that the replay found for it.
//
// The delays are spilled during the replay; then the locations are copied, one at a time. Everything is written to DIR.partial-XXXXXX
// beside DIR, which is renamed to DIR at the end: so an existing DIR is complete.
//
// Of several processes, each spills its delays in TMPDIR, and the first writes the archive.
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
    // Throws InputError if `directory` exists or nothing can be created beside it.
    // `group`: null: the only process.
    Approximated(const std::string& directory, Group* group, Faults faults = {});
    ~Approximated();  // removes an unfinished archive
    Approximated(const Approximated&) = delete;
    Approximated& operator=(const Approximated&) = delete;

    // Before the replay pass. `removed`: by account, whether its noise is removed.
    void begin(const Definitions& definitions, std::vector<bool> removed);
    // Observers of that pass, which also call `others`. `lane`: the scenario to write.
    Observers following(Observers others, size_t lane);

    // After the pass. `anchor`: the trace's anchor file; `what`: a text for what is removed.
    // Throws InputError. Appends to `warnings` what could not be kept. Collective: all processes call it.
    void write(const std::string& anchor, const Engine& replayed, const Definitions& definitions, const std::string& what,
               const std::function<void(double)>& progress, std::vector<Warning>& warnings);

  private:
    // The positions of each location's delays in the spill file.
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
    std::string reach_;  // a path into partial_ that stays valid if a parent folder is renamed, which may be another user's
    int held_ = -1;
    bool inside_another_ = false;
    Faults faults_;
    uint64_t ticks_per_second_ = 1'000'000'000, global_offset_ = 0;
    std::vector<bool> removed_;
    std::unique_ptr<DelayFile> delays_;
    std::vector<Open> open_;  // by location
};

}  // namespace polter::replay
