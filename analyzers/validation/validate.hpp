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
    int64_t run_ns = 2'000'000'000;  // of the benchmark's intervals together
    uint64_t seed = 1;
    std::string keep;                               // where the traces stay; empty: they are deleted
    std::function<void(const Progress&)> progress;  // before each pair; may be empty
};

struct Interval {
    int64_t median = 0, low = 0, high = 0;  // 95 %
};

// The log of an injected run against its trace.
struct Found {
    uint64_t logged = 0, found = 0;            // events while the rank ran, and those that the trace has
    uint64_t recorded = 0, invented = 0;       // interruptions by the injector in the trace, and those that no event explains
    uint64_t blocked = 0;                      // events while the rank did not want the CPU: no noise
    uint64_t others = 0;                       // events while another task had the CPU: they preempted that
    int64_t logged_ns = 0, recorded_ns = 0;    // of the events that were found
    int64_t preempt_ns = 0, named_ns = 0;      // of what the trace has at those times: the right source; the right source and culprit
    int64_t any_ns = 0;                        // … of any source
    int64_t outside_ns = 0;                    // the injector's threads starting and ending, which are no events
    std::vector<int64_t> longer_ns;            // of each event found: recorded less injected
    std::vector<int64_t> before_ns, after_ns;  // … how much earlier the record begins, and how much later it ends
    void add(const Found&);
};

struct Pair {
    int64_t quiet = 0, injected = 0, estimated = 0, predicted = 0;  // ns, without MPI_Init
    int64_t machine_noise = 0;                                      // accumulated noise of the quiet run
};

struct Answer {
    Interval time, error;  // error: of the pairs' differences from what was measured
    bool within = false;   // the other runs' interval, or 1 % of their median
};

struct CaseResult {
    Case asked;
    std::vector<Pair> pairs;
    Interval quiet, injected, effect;
    int64_t quiet_spread = 0;   // interquartile range of the quiet runs
    int64_t machine_noise = 0;  // median
    double intrinsic_load = 0;  // injected time, part of the run, mean of the ranks
    Answer estimation, prediction;
    Found found;
    std::string no_verdict;  // why; empty: there is one
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

// The injector's log against the trace alone. Throws inject::Error, replay::InputError.
Found match_log(const std::string& log, const std::string& trace);
nlohmann::json to_json(const Found&, const std::string& trace);  // schema polter.validate.log/1
std::string to_text(const Found&, const std::string& trace);

// For the tests.
Interval median_of(const std::vector<int64_t>& values, uint64_t seed);
void judge(CaseResult&, uint64_t seed);  // from the pairs
std::string verdict_of(const std::vector<CaseResult>&);

}  // namespace polter::validation
