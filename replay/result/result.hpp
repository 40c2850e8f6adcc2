// SPDX-License-Identifier: BSD-3-Clause
// The result of a replay, and how it is shown. Units: integer nanoseconds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "replay/attribution/attribution.hpp"
#include "replay/attribution/event_costs.hpp"
#include "replay/base/flaws.hpp"
#include "replay/model/model.hpp"
#include "replay/timeline/timeline.hpp"
#include "replay/trace/call_sites.hpp"

namespace polter::replay {

struct Definitions;

struct LocalNoise {
    double mean = 0;  // over all measured ranks
    int64_t max = 0;
};

struct SourceResult {
    std::string name;  // without "os:"
    LocalNoise local;
    bool removed = true;  // false: no share, nothing added as the last one
    int64_t alone_ns = 0, without_ns = 0, share_ns = 0;
    std::optional<double> amplification;  // unset where there was no local noise
};

struct ServiceResult {
    std::string name;  // without "os-service:"
    LocalNoise local;
    int64_t alone_ns = 0;
};

struct RankSource {
    int64_t local_ns = 0, alone_ns = 0, share_ns = 0;
};

// A rank's further threads that the replay follows (members of teams).
struct ThreadsResult {
    int64_t count = 0, local_noise_ns = 0;  // the sum
};

struct RankResult {
    int64_t rank = 0;
    std::string measured_by;  // the exporter; "none": its noise is unknown, not 0; empty: the trace does not say
    int64_t measured_ns = 0, approximated_ns = 0, accumulated_noise_ns = 0, local_noise_ns = 0;
    std::map<std::string, RankSource> sources;
    std::map<std::string, int64_t> services;  // local
    ThreadsResult threads;
};

struct CulpritResult {
    std::string source, culprit;
    int64_t rank = 0;  // where its noise hit
    int64_t local_ns = 0, events = 0;
};

// The run with injected noise besides its own.
struct Injected {
    std::string file;
    int64_t predicted_ns = 0, bounds_low_ns = 0, bounds_high_ns = 0;
    int64_t added_ns = 0;  // predicted minus measured; the sources' shares add up to it
    std::optional<double> amplification;
    std::vector<SourceResult> sources;
    struct Rank {
        int64_t rank = 0, predicted_ns = 0, added_ns = 0, local_noise_ns = 0;
    };
    std::vector<Rank> per_rank;
    bool conditional = false;       // as the measured run is, or because collectives were replayed through their likeliest algorithm only
    std::vector<Warning> warnings;  // beside the result's
};

struct HostResult {
    std::string name;
    std::vector<int64_t> ranks;
};

struct CallSiteResult {
    std::string operation;
    CallSite site;
    CallSiteSums sums;
};

struct Result {
    std::string trace;
    int64_t ranks = 0, events = 0;
    int64_t measured_ns = 0, approximated_ns = 0;
    int64_t bounds_low_ns = 0, bounds_high_ns = 0;
    int64_t accumulated_noise_ns = 0;
    LocalNoise local, removed_local;  // removed: noise of the removed sources only; the amplification refers to it
    std::optional<double> amplification;
    std::vector<SourceResult> sources;
    std::vector<ServiceResult> services;
    std::vector<RankResult> per_rank;
    std::vector<HostResult> hosts;  // in the order of their lowest rank
    Attribution attribution;
    std::optional<CostReport> costs;         // Options::attribution
    std::vector<CallSiteResult> call_sites;  // most delay first; empty where the trace has none
    std::vector<CulpritResult> culprits;     // most local noise first
    int64_t init_ns = 0, finalize_ns = 0;
    bool conditional = false;
    std::vector<Warning> warnings;
    std::map<std::string, std::string> provenance;   // the archive's POLTER:: properties, without the prefix
    std::optional<Injected> injected;                // where it was asked for
    Learned model;                                   // what communication costs here
    std::optional<Timeline> timeline;                // Options::timeline
    std::shared_ptr<const Definitions> definitions;  // … with the names of what is in it
};

ThreadsResult all_threads(const Result&);  // of all ranks
std::string not_measured(const Result&);   // why the trace says nothing about noise, so 0 would be wrong; empty: it does
nlohmann::json to_json(const Result&);     // schema polter.replay/1

struct TextOptions {
    bool all = false;      // also small values, all ranks and processes, and the detailed tables
    bool costs = false;    // the tables of --attribution
    bool verbose = false;  // with explanations of the warnings
    size_t columns = 80;   // of the terminal
    bool unicode = false;  // the terminal shows UTF-8
};
// The first screen and the sections that follow it in `polter replay`.
std::string to_text(const Result&, const TextOptions& = {});
nlohmann::json injected_to_json(const Injected&);
std::string injected_to_text(const Injected&, const TextOptions& = {});
nlohmann::json model_to_json(const Learned&);
std::string model_to_text(const Learned&, const TextOptions& = {});
std::string to_short_text(const Result&, const TextOptions& = {});  // what `polter run` ends with: the first screen and the first warnings
// The same of a result that has what is known without a replay: run time, local noise, culprits. `why` there was none.
std::string to_unreplayed_text(const Result&, const std::string& why, const TextOptions& = {});

}  // namespace polter::replay
