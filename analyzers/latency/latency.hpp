// SPDX-License-Identifier: BSD-3-Clause
// The latency between ranks as distributions: the benchmark as a command, what it measured, and what follows from that.
//
// Source: Settlemyer, Hodson, Kuehn, Poole, "Confidence: Analyzing Performance with Empirical Probabilities" (2010) and "Diagnosing
// Anomalous Network Performance with Confidence" (2011). Units: nanoseconds. Errors: samples::Error for a result that cannot be used,
// launch::Error where the benchmark cannot run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analyzers/samples/bins.hpp"

namespace polter::latency {

struct Bench {
    int64_t bytes = 8, trials = 10'000, warmups = 1'000, cycles = 10;
    samples::Bins bins;
    uint64_t shuffle = 0;  // seed of the order in which partners are met; 0: ascending
    int ranks = 2;
    std::string mpi;                    // "openmpi" or "mpich"; empty: of the launcher, else the first that is installed
    std::vector<std::string> launcher;  // empty: mpirun of that MPI, ranks bound to cores
    std::string exporter = "none";      // marks the samples that noise hit
};

// Runs it and returns its raw JSON as text. `why`: what was said of the exporter.
std::string run(const Bench&, std::string& why);

// A pair's exchanges of one cycle; the figures are those of the pairwise latency.
struct Block {
    int32_t a = 0, b = 0;  // ranks, a < b
    int64_t cycle = 0, hit = 0;
    double begin_ns = 0, ns = 0, least = 0, p25 = 0, median = 0, p75 = 0, p99 = 0, most = 0;
    double stolen_ns = 0;                             // from rank a
    std::vector<std::pair<uint32_t, uint64_t>> bins;  // empty where there are too many pairs to keep them
};

enum Place { on_node, off_node, places };
enum Kind { one_sided, one_sided_minima, pairwise, pairwise_minima, one_sided_hit, pairwise_hit, kinds };
extern const std::array<const char*, places> place_names;
extern const std::array<const char*, kinds> kind_names;

struct Clock {
    std::string name;
    double ticks_per_ns = 0, drift = 0, least_ns = 0, mean_ns = 0, own_ns = 0;
};

struct Measurement {
    int64_t ranks = 0, bytes = 0, trials = 0, warmups = 0, cycles = 0;
    std::vector<int32_t> stages;  // in their order
    std::vector<std::string> hosts;
    std::vector<Clock> clocks;
    samples::Bins bins;
    std::vector<samples::Histogram> timer;                   // one: of all ranks
    std::array<std::vector<samples::Histogram>, places> of;  // by Kind
    std::vector<Block> blocks;                               // by cycle, then pair
    bool marked = false;                                     // the ranks saw their noise
    std::map<std::string, double> stolen_ns;                 // by source, from all ranks
};

Measurement parse(const nlohmann::json& raw);  // throws samples::Error
// Of the same benchmark, each of some ranks, in any order.
Measurement parse_parts(const std::vector<nlohmann::json>& parts);

struct PairShare {
    int32_t a = 0, b = 0;
    double share = 0;  // of the pair's samples in the mode
};
struct Mode {
    Place place = on_node;
    samples::Peak peak;
    std::vector<PairShare> pairs;  // of which at least a half of the samples lie in it
    std::vector<int32_t> ranks;    // with at least a half of their pairs in it
};

// From which peer on a rank's partners are slower, in the order in which it meets them.
struct Onset {
    int64_t from = 0;                    // 17: the first 16 are faster
    double before_ns = 0, after_ns = 0;  // medians of the least latencies
};

// Disturbances of a tail that are about equally long: a peak of its time over the logarithm of the length.
struct TailMode {
    double length_ns = 0, share_of_time = 0;  // as those of the tail
    uint64_t samples = 0;
};

// What is far above the median (ten times): disturbances, not the network's usual latency.
struct Tail {
    double threshold_ns = 0;
    uint64_t samples = 0;
    double share_of_samples = 0, share_of_time = 0;  // time: of the excess over the median
    double length_ns = 0;                            // of an excess, the median by time
    std::vector<TailMode> modes;                     // of at least 2 % of the tail's time, shortest first
};

struct Analysis {
    Measurement measured;
    std::vector<Mode> modes;
    std::vector<std::vector<double>> minima;  // by rank and rank; 0: none
    std::optional<Onset> onset;
    std::array<std::optional<Tail>, places> tails;  // of one-sided latencies
    double timer_share = 0;                         // of the pairs of readings within the first bin
    std::vector<std::string> warnings;
    std::string exporter_why;
};

Analysis analyze(Measurement);
std::optional<Onset> onset_of(const std::vector<double>& least_by_peer);
Tail tail_of(const samples::Histogram&);

nlohmann::json to_json(const Analysis&);  // schema polter.latency/1, docs/latency.schema.json
std::string to_text(const Analysis&, size_t columns);

struct QuantileDifference {
    double p = 0, a_ns = 0, b_ns = 0;
    samples::Interval interval;  // of b - a, 95 %, blocks resampled
    bool certain() const { return interval.low > 0 || interval.high < 0; }
};
struct PlaceComparison {
    Place place = on_node;
    uint64_t samples_a = 0, samples_b = 0, blocks_a = 0, blocks_b = 0;
    double band_a = 0, band_b = 0;              // DKW, as if each block were one sample, since samples of a block are not independent
    double distance = 0, critical = 0;          // of Kolmogorov and Smirnov; critical: likewise
    double peakedness_a = 0, peakedness_b = 0;  // interquartile range / median: less is more repeatable
    std::vector<QuantileDifference> quantiles;
    bool differ() const { return distance > critical; }
};
struct Comparison {
    std::string a, b;
    std::vector<PlaceComparison> at;
    std::vector<std::string> warnings;
};
// Of two results of schema polter.latency/1. Throws samples::Error.
Comparison compare(const nlohmann::json& a, const nlohmann::json& b, uint64_t seed);
nlohmann::json to_json(const Comparison&);  // schema polter.latency.compare/1
std::string to_text(const Comparison&, size_t columns);

}  // namespace polter::latency
