// SPDX-License-Identifier: BSD-3-Clause
// How much the intervals of a program vary, why, and how long they will take on more ranks.
//
// Source: Dominguez-Trujillo et al., "Lightweight Measurement and Analysis of HPC Performance Variability" (2020); what differs is in the
// README. Units: nanoseconds. Errors: replay::InputError for input that cannot be used.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "projection.hpp"
#include "replay/result/result.hpp"

namespace polter::interference {
struct Analyzed;
}

namespace polter::variability {

// Intervals that should take equally long, in the order of time. Lists have the length of `work`, or are empty: not known.
struct Intervals {
    std::string what;
    std::vector<double> work;                           // of the rank that arrived last at the collective
    std::vector<double> barrier;                        // from there until all had left it
    std::vector<double> without_work, without_barrier;  // the same without OS noise
    std::vector<int32_t> slowest;                       // the rank that arrived last
    bool exchanges = false;                             // ranks communicate within the interval
};

struct Measured {
    std::string input, kind;  // kind: "bench bsp", "trace", "profile"
    int64_t ranks = 0;
    std::vector<Intervals> intervals;      // longest total first; those with enough intervals for a fit
    double left_out_ns = 0, total_ns = 0;  // of kinds with fewer; of all
    std::string noise_unknown;             // why; empty: it is known
    std::vector<std::string> warnings;
    std::map<std::string, std::string> provenance;
};

Measured from_bench(const nlohmann::json&, const std::string& name);
Measured from_run(const interference::Analyzed&);
// A result of `polter bench bsp --json`, or a trace or profile, by what the name is.
Measured read(const std::string& input, bool noise, const std::function<void(double)>& progress = {});

// Means, and parts of the variance: covariance with the length over its variance. Parts add up to 1.
struct Part {
    std::string name;  // "OS noise", "barrier", "work"
    double mean = 0, of_variance = 0;
};

struct Projection {
    int64_t ranks = 0;
    Projected typical, next;
    std::optional<Projected> typical_without;  // OS noise
    std::optional<double> mean;
    std::vector<Parametric> parametric;  // as in the paper: PWM, MOM
    samples::Interval resampled;         // as in the paper
};

struct Kind {
    Intervals intervals;
    double independent = 0;  // at the measured number of ranks
    double mean = 0, deviation = 0;
    std::vector<Part> parts;
    std::vector<Fit> fits;           // PWM, MOM
    std::vector<std::string> types;  // "Frechet", "Gumbel", "Weibull", "none": by the interval of the shape
    bool agree = false;
    std::vector<Projection> projections;  // as Options::ranks; the first is the measured number
    std::vector<std::string> warnings;
};

// Against a measured run on more ranks.
struct Check {
    std::string input;
    int64_t ranks = 0;
    double typical = 0;                  // of the measured intervals
    std::optional<bool> typical_inside;  // unset: no basis
    std::optional<double> inside;        // part of the intervals that lie within `next`; unset: no basis
    uint64_t intervals = 0;
};

struct Options {
    std::string input, check;
    std::vector<int64_t> ranks;  // to project to; empty: 2, 4, 8 and 16 times the measured
    bool noise = true;           // replay a trace
    uint64_t seed = 1;
    size_t resamples = 400;
    std::function<void(double)> progress;
};

struct Result {
    Measured measured;
    std::vector<Kind> kinds;
    std::optional<Check> check;
    uint64_t seed = 1;
    std::vector<std::string> warnings;
};

Result analyze(Measured, const Options&);
Result analyze(const Options&);
nlohmann::json to_json(const Result&);  // schema polter.variability/1, docs/variability.schema.json
std::string to_text(const Result&, const replay::TextOptions& = {});

}  // namespace polter::variability
