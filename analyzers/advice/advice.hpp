// SPDX-License-Identifier: BSD-3-Clause
// What to change on the machine, and what each change would save. Each suggestion is a scenario that was replayed, with bounds of its
// own. Units: integer nanoseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "replay/what_if.hpp"

namespace polter::advice {

// One way to carry a suggestion out. What stands in <> is not in the trace; `note` says where to find it.
struct Action {
    std::string how;  // "move it to other CPUs"
    std::vector<std::string> commands;
    std::string note;
};

struct Suggestion {
    std::string kind;   // one of the table in README.md
    std::string title;  // "Keep apt-get off the CPUs of the ranks"
    replay::Scenario removed;
    replay::Scenario follows;  // goes with it, as far as is known: in the figure and the upper bound, not in the lower one
    replay::Scenario may_be;   // may go with it: in the upper bound, and by `part` in the figure
    double part = 0;           // of `may_be`
    int64_t refill_ns = 0;  // at most, what no record shows: of caches after the noise, the launcher under a quota; it is in the program's
                            // own time, and in the upper bound
    replay::Saving saves;
    int64_t events = 0;          // noise events that the scenario removes, on all ranks
    int64_t stolen_ns = 0;       // on all ranks
    std::vector<int64_t> ranks;  // that were hit, most stolen first
    std::vector<std::string> evidence;
    std::vector<Action> actions;   // any one of them is enough
    std::vector<size_t> overlaps;  // suggestions that remove some of the same noise: their savings do not add up
};

struct Options {
    std::string trace;
    double least = 0.005;  // of the run time; suggestions that save less are not made
    size_t most = 8;       // suggestions
    std::function<void(double)> progress;
};

struct Advice {
    std::string trace, program;
    int64_t measured_ns = 0, accumulated_noise_ns = 0;
    int64_t noise_low_ns = 0, noise_high_ns = 0;  // bounds of the accumulated noise
    double least = 0;
    std::vector<Suggestion> suggestions;              // most saved first
    std::optional<replay::Saving> together;           // all suggestions carried out; unset: fewer than two
    std::optional<Suggestion> largest_not_suggested;  // of the candidates that were turned down, the one that saves most
    std::string why_not;                              // it was turned down
    size_t candidates = 0;                            // scenarios replayed
    bool conditional = false;
    bool open = false;  // the trace leaves open how much the noise cost (replay's answer.open)
    std::vector<replay::Warning> warnings;
    std::map<std::string, std::string> provenance;
};

// Throws InputError for a trace that cannot be read or that has no noise metrics.
Advice advise(const Options&);
// The same while the replay of `options.trace` can still be asked; options.progress is not used.
Advice advise(const replay::Result&, replay::WhatIfs&, const Options&);
nlohmann::json to_json(const Advice&);  // schema polter.advise/1
std::string to_text(const Advice&, const replay::TextOptions& = {});

}  // namespace polter::advice
