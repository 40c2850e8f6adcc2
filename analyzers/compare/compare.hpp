// SPDX-License-Identifier: BSD-3-Clause
// Differences between experiments: by source, culprit, rank and MPI operation, each with its uncertainty. Units: integer nanoseconds.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "replay/base/options.hpp"
#include "replay/result/result.hpp"
#include "statistics.hpp"

namespace polter::compare {

struct Options {
    std::vector<std::vector<std::string>> sides;  // two or more; of each side one run or several
    uint64_t seed = 1;
    size_t resamples = 4000;  // at least 40
    std::function<void(double)> progress;
    // Replays one run, with the attribution; unset: replay::replay.
    std::function<replay::Result(const replay::Options&)> replay;
};

// What two runs are taken to differ by where there are too few runs to tell, as part of the run time: of the run time, and of the delay by
// noise.
inline constexpr double run_chance = 0.03, noise_chance = 0.005;

struct Side {
    std::string name;  // A, B, ...
    std::vector<std::string> traces;
    std::string program, hosts, measured_by;
    int64_t ranks = 0;
    bool conditional = false;
    std::map<std::string, std::string> provenance;  // of its first run
};

struct Row {
    std::string name;
    Estimate estimate;
};

// One side against the first.
struct Comparison {
    size_t side = 1;
    std::string answer;
    Row run_time, noise, without_noise;                     // without noise: what the run would have taken
    std::vector<Row> sources, culprits, ranks, operations;  // delay; largest difference first
    bool noise_known = true;                                // false: a run without noise metrics; only run_time is set
    int64_t run_chance_ns = 0, noise_chance_ns = 0;         // by which the intervals are widened; 0: runs enough
    std::vector<std::string> warnings;
};

struct Compared {
    std::vector<Side> sides;
    std::vector<Comparison> comparisons;
    uint64_t seed = 1;
    size_t resamples = 0;
};

// What is compared of one replayed run.
struct Run {
    bool noise_known = true;
    Value run_time, noise, without_noise;
    std::map<std::string, Value> sources, culprits, ranks, operations;
};
Run run_of(const replay::Result&);  // with the attribution by origin
// `name`: as the answer calls the sides.
Comparison compare_runs(const std::vector<Run>& a, const std::vector<Run>& b, const std::string& name_a, const std::string& name_b,
                        uint64_t seed, size_t resamples);

Compared compare(const Options&);         // throws InputError
nlohmann::json to_json(const Compared&);  // schema polter.compare/1
std::string to_text(const Compared&, const replay::TextOptions& = {});

}  // namespace polter::compare
