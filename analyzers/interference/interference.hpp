// SPDX-License-Identifier: BSD-3-Clause
// How much of a run was interference that hits some of its segments and not others: the estimate from one run, its check against several
// runs, and beside it what the replay knows of OS noise.
//
// Source: Shah, Mueller, Wolf, Euro-Par 2018, sections 2 and 3. Units: integer nanoseconds; interference in percent of the run time.
// Errors: replay::InputError for a trace that cannot be used.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analyzers/samples/statistics.hpp"
#include "grouping.hpp"
#include "replay/parallel/group.hpp"
#include "replay/result/result.hpp"

namespace polter::interference {

inline constexpr double deviations = 4;                        // MADs above the median from which a segment counts as hit
inline constexpr double low_below = 7.5, high_above = 15;      // percent
inline constexpr double steepness = 0.35, inflection = 11.25;  // of the logistic function
inline constexpr double highest_rate_hz = 100;                 // of collectives; above, the estimate is not trusted

double probability_of(double percent);                  // that a run with this interference is a highly interfered one
std::string class_of(double percent);                   // "low", "medium", "high"
double accuracy_of(double measured, double estimated);  // 1 - |difference of the probabilities|

struct GroupTimes {
    Group group;
    double median_ns = 0, mad_ns = 0, threshold_ns = 0;
    uint64_t hit = 0;
    double over_threshold_ns = 0, over_median_ns = 0;  // sums over the segments that were hit
};

// A segment that took longer than its group's threshold.
struct Hit {
    size_t segment = 0, group = 0;
    int64_t begin_ns = 0, duration_ns = 0;
    double over_threshold_ns = 0, over_median_ns = 0;
    std::optional<double> os_noise_ns;                             // of the excess over the median; unset: not known
    std::map<std::pair<std::string, std::string>, double> causes;  // of os_noise_ns, by source and culprit; they add up to it
};

struct Estimate {
    double percent = 0, percent_over_median = 0;  // the paper's, and without its bias of 4 MADs a hit segment
    samples::Interval interval;                   // of `percent`, 95 %, blocks of consecutive segments resampled
    double rate_hz = 0;                           // collectives that end segments, a second
    uint64_t unused_segments = 0;                 // of groups that are too small
    int64_t unused_ns = 0;
    std::vector<GroupTimes> groups;  // longest first
    std::vector<Hit> hits;           // in the order of time
    std::vector<std::string> warnings;
};

Estimate estimate(const Run&);

// Of one run against the fastest one: what it took longer, less what all its segments took longer.
struct Measured {
    double percent = 0;
    int64_t displacement_ns = 0;  // of the medians, over all segments: interference that is always there
    double accuracy = 0;
};
Measured measure(const Run& run, const Run& fastest, double estimated_percent);

struct Analyzed {
    Run run;
    Estimate estimate;
    std::optional<Measured> measured;  // where there are several runs
    bool noise_known = false;
    std::string noise_unknown;                                                                 // why it is not
    int64_t measured_ns = 0, accumulated_noise_ns = 0, bounds_low_ns = 0, bounds_high_ns = 0;  // of the replay; bounds: of the noise
    std::optional<Run> without;  // the same run on the replay's timeline without noise, where asked for and known
    std::vector<std::string> warnings;
};

struct Options {
    std::vector<std::string> traces;
    bool noise = true;               // replay each run
    bool keep_without = false;       // fill Analyzed::without
    replay::Group* group = nullptr;  // the processes that share the replay; the first one does the rest, and has the result
    std::function<void(double)> progress;
};

struct Result {
    std::vector<Analyzed> runs;
    std::optional<size_t> fastest;  // where there are several
    std::vector<std::string> warnings;
};

Result analyze(const Options&);
nlohmann::json to_json(const Result&);  // schema polter.interference/1, docs/interference.schema.json
std::string to_text(const Result&, const replay::TextOptions& = {});

}  // namespace polter::interference
