// SPDX-License-Identifier: BSD-3-Clause
// Known noise against what the replay makes of it: estimation (the injected run without the injected noise, against quiet runs) and
// prediction (the quiet run with the injector's log, against injected runs).
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "analyzers/bench/bsp.hpp"
#include "event_cost.hpp"
#include "match.hpp"

namespace polter::validation {

// One question: this workload under this noise.
struct Case {
    std::string spec;      // of polter inject
    std::string pattern;   // its kind
    double level = 0;      // part of a CPU; 0: as the specification says
    int64_t grain_ns = 0;  // of the workload; 0: a command of the user's
    std::string workload;  // or "command"
};

struct Progress {
    std::string spec;
    size_t done_cases, cases, done_pairs, pairs;  // pairs: of a case
    double part() const { return static_cast<double>(done_cases * pairs + done_pairs) / static_cast<double>(cases * pairs); }
};

struct Options {
    std::string program;  // this executable
    std::string exporter = "auto";
    bench::Bsp bsp;                    // phases and grain are the case's
    std::vector<std::string> command;  // instead of the benchmark
    std::vector<Case> cases;
    size_t pairs = 10;
    int64_t windows_ns = 0;          // not 0: both runs of a pair are injected, in turn for so long, the one while the other is not
    int64_t run_ns = 2'000'000'000;  // of the benchmark's intervals together
    uint64_t seed = 1;
    std::string keep;                               // where the traces stay; empty: they are deleted
    std::function<void(const Progress&)> progress;  // before each pair; may be empty
};

struct Interval {
    int64_t median = 0, low = 0, high = 0;  // 95 %
    bool operator==(const Interval&) const = default;
};
constexpr double tolerance_percent = 1;  // of the median: what an answer may be off where the interval is narrower

// Of two runs, or of neighbouring pieces of two runs (Crossover). Times in nanoseconds, without MPI_Init. Those that are compared are
// without the machine's own noise but for timer interrupts, as the replay removes it: on both sides the same.
struct Pair {
    int64_t quiet = 0, injected = 0, estimated = 0, predicted = 0;
    int64_t machine_noise = 0;                          // accumulated noise of the quiet run
    int64_t measured_quiet = 0, measured_injected = 0;  // the runs as they were
    int64_t estimated_with_own = 0;                     // where only the injected noise is removed; to compare with measured_quiet
    int64_t estimated_as_recorded = 0;                  // by the records alone: what is hidden from the exporter stays in the run
    int64_t predicted_by_log = 0;                       // by the events' logged lengths alone
    int64_t estimated_by_loop = 0;                      // with what the loop hid; `estimated` where the program itself did not tell
    EventCost cost;                                     // of the program's own work; where that does not tell, of the loop
    EventCost cost_by_loop;                             // just before its runs
    double load = 0;                                    // injected time, part of the run, mean of the ranks
};

struct Answer {
    Interval time, error;  // error: of the pairs' differences from what was measured
    bool within = false;   // the other runs' interval, or 1 % of their median
};

struct CaseResult {
    Case asked;
    std::vector<Pair> pairs;
    int64_t windows_ns = 0;  // not 0: the pairs are of a Crossover
    double compared = 1;     // part of the runs that the pairs are made of
    Interval quiet, injected, effect;
    int64_t quiet_spread = 0;  // interquartile range of the quiet runs
    Interval measured_quiet, measured_injected;
    int64_t machine_noise = 0;  // median
    double load = 0;            // mean
    Answer estimation, prediction;
    Answer estimation_as_recorded, estimation_with_own, prediction_by_log, estimation_by_loop;  // for comparison
    Interval beyond, hidden, hidden_timer, hidden_by_loop;                                      // CpuCost, over the pairs
    Found found;
    std::string no_verdict;  // why an answer that ignored the injected noise would pass too; empty: it would not
    std::vector<std::string> warnings;
};

struct Validated {
    std::vector<CaseResult> cases;
    std::string exporter, host, mpi;
    size_t pairs = 0;
    uint64_t seed = 1;
    std::string verdict;
};

Validated validate(const Options&);        // throws launch::Error, inject::Error, replay::InputError
nlohmann::json to_json(const Validated&);  // schema polter.validate/1
std::string to_text(const Validated&);

nlohmann::json to_json(const Found&, const std::string& trace);  // schema polter.validate.log/1
std::string to_text(const Found&, const std::string& trace);

// Mutations, for the tests: steps that are left out.
struct PairFaults {
    bool timers_stay = false;      // timer interrupts are not removed from both sides
    bool own_noise_stays = false;  // nor is the machine's own noise
    bool log_unmoved = false;      // events keep their time since the trace's first event, however long MPI_Init took
    bool log_alone = false;        // a prediction takes events as logged
    bool records_alone = false;    // nothing is hidden from the exporter
};

// A pair from its traces; adds the events to `found`. `folder`: for a file that is deleted again. Throws inject::Error,
// replay::InputError.
Pair judge_pair(const std::string& quiet, const std::string& injected, const std::string& folder, const EventCost&, Found& found,
                const PairFaults& = {});
// From two runs, each injected in the windows in which the other was quiet: a pair for about every two windows. In each pair `quiet` is the
// length of a window, and the other times are in proportion, so that pairs of different parts of the program can be compared.
struct Crossover {
    std::vector<Pair> pairs;
    double compared = 0;  // part of the runs' time
    bool settled = true;  // events of the other run have been moved to where they hit the program; else the prediction is not known well
};
struct WindowFaults {
    bool one_way = false;      // only pieces that the second run did with noise: how fast each run was counts
    int rounds = 10;       // at most; with too few, events hit where they did not, as what they add does not move those behind them
};
// Throws inject::Error, replay::InputError.
Crossover judge_windows(const std::string& first, const std::string& second, const std::string& folder, const EventCost&, Found& found,
                        const WindowFaults& = {});
// Pairs that `keep` left, judged again; the case is known by its specification only.
Validated judge_kept(const std::string& folder, uint64_t seed);

// For the tests.
Interval median_of(const std::vector<int64_t>& values, uint64_t seed);
struct JudgeFaults {
    bool always_a_verdict = false;  // although an answer that ignored the injected noise would pass
};
void judge(CaseResult&, uint64_t seed, const JudgeFaults& = {});  // from the pairs
std::string verdict_of(const std::vector<CaseResult>&);

}  // namespace polter::validation
