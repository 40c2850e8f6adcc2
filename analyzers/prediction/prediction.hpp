// SPDX-License-Identifier: BSD-3-Clause
// What OS noise would cost the program of a trace on more ranks, each with as much work as now (weak scaling).
//
// Virtual ranks are copies of the measured ones, linked as their regular neighbourhood goes on; noise is resampled by host in blocks of
// time; collectives go by their learned algorithm with as many members. Units: integer nanoseconds. Errors: replay::InputError for a trace
// that cannot be used and for numbers of ranks that do not extend it.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analyzers/samples/statistics.hpp"
#include "pattern.hpp"
#include "replay/result/result.hpp"

namespace polter::prediction {

inline constexpr double most_disagreement = 2;  // of the methods, as a factor; beyond there is no basis
// A draw ends where the run takes so many times what it takes without noise: with a heavy tail the longest of many ranks' events can bring
// more of them than they let pass, for ever.
inline constexpr int64_t most_times = 20;

struct Options {
    std::string trace;
    std::vector<int64_t> ranks;
    std::vector<int64_t> grid;  // of the virtual ranks; empty: the measured one's proportions. For one number of ranks only
    size_t draws = 40;
    bool resample = true;  // false: copies keep the noise of their rank, in its place; no interval
    uint64_t seed = 1;
    std::function<void(double)> progress;
};

// One way to predict the accumulated noise.
struct Method {
    std::string name;
    std::optional<double> ns;  // unset: it does not apply
    std::string why;           // it does not
};

struct Prediction {
    int64_t ranks = 0;
    Grid grid;
    int64_t quiet_ns = 0;  // run time without noise
    double noise_ns = 0;   // accumulated: the median of the draws
    std::optional<samples::Interval> interval;
    double local_ns = 0;               // mean of the ranks
    std::vector<double> draws;         // accumulated noise of each, in order
    size_t ended = 0;                  // of the draws: at most_times, so they say too little
    std::vector<Method> others;        // EMMA, Tsafrir
    std::vector<std::string> reasons;   // why there is no basis; empty: there is
    uint64_t most_open = 0;            // messages that were kept at once
    bool basis() const { return reasons.empty(); }
};

struct Result {
    replay::Result measured;
    Pattern pattern;
    std::vector<std::string> reasons;  // why nothing can be predicted; empty: predictions has all
    std::vector<Prediction> predictions;
    size_t draws = 0, hosts = 0, blocks = 0;
    int64_t block_ns = 0;
    uint64_t noise_events = 0, seed = 1;
    std::optional<double> tail_index;  // of the events' lengths; noise.hpp
    bool resampled = true, hosts_differ = false;
    std::vector<std::string> warnings;
};

class NoiseBlocks;

Result predict(const Options&);
std::optional<double> tail_index(const NoiseBlocks&);  // exponent with which the number of the longest events falls; none: no heavy tail, or not known
std::vector<std::string> warnings_of(const NoiseBlocks&);  // where the measured noise says little of that on more ranks
std::string without_end(const Prediction&);                // why its draws tell nothing: half of them were ended; empty: they do
std::string ended_draws(const Prediction&);                // the warning that some were; empty: none
std::string disagreement(const Prediction&);  // of its methods by more than most_disagreement, in words; empty: they agree
std::string verdict_of(const Result&, const Prediction&);
nlohmann::json to_json(const Result&);  // schema polter.predict/1, docs/predict.schema.json
std::string to_text(const Result&, const replay::TextOptions& = {});

}  // namespace polter::prediction
