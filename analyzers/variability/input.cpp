// SPDX-License-Identifier: BSD-3-Clause
// Intervals from a result of the benchmark, and from the segments of a run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "analyzers/interference/interference.hpp"
#include "mutations.hpp"
#include "replay/base/error.hpp"
#include "replay/base/json_file.hpp"
#include "variability.hpp"

namespace polter::variability {

namespace {

using nlohmann::json;

constexpr const char* wanted = "a result of polter bench bsp --json";

std::vector<double> times(const json& from, const char* key, size_t count, const std::string& name) {
    const auto values = from.at(key).get<std::vector<double>>();
    if (values.size() != count)
        throw replay::InputError(
            fmt::format("{}: {} has {} values for {} intervals; the file is damaged", name, key, values.size(), count));
    for (const double value : values)
        if (!std::isfinite(value) || value < 0)
            throw replay::InputError(fmt::format("{}: {} has a value below 0 or one that is no number; the file is damaged", name, key));
    return values;
}

}  // namespace

Measured from_bench(const json& from, const std::string& name) try {
    if (!from.is_object() || from.value("schema", "") != "polter.bench.bsp/1")
        throw replay::InputError(fmt::format("{}: is not {} (schema polter.bench.bsp/1), and no trace", name, wanted));
    Measured measured;
    measured.input = name;
    measured.kind = "bench bsp";
    measured.ranks = from.at("ranks").get<int64_t>();
    if (measured.ranks < 1) throw replay::InputError(fmt::format("{}: has {} ranks; the file is damaged", name, measured.ranks));
    const auto count = from.at("phases").get<size_t>();
    Intervals intervals;
    intervals.what = from.at("workload").get<std::string>();
    intervals.work = times(from, "slowest_work_ns", count, name);
    intervals.exchanges = from.at("halo").get<int64_t>() > 0;
    if (from.contains("shortest_wait_ns")) intervals.barrier = times(from, "shortest_wait_ns", count, name);
    if (from.contains("slowest_rank"))
        for (const double rank : times(from, "slowest_rank", count, name)) intervals.slowest.push_back(static_cast<int32_t>(rank));
    if (from.at("collective") == "none") {
        measured.warnings.push_back(
            "no collective ends the intervals (--collective none): ranks do not wait for each other, so the maxima are of no interval of "
            "the program");
        intervals.barrier.clear();
    }
    measured.noise_unknown = "a result of the benchmark has none; a trace of it has";
    for (const char* key : {"workload", "units", "collective", "halo", "grain_ns"})
        measured.provenance[key] = from.at(key).is_string() ? from.at(key).get<std::string>() : from.at(key).dump();
    measured.total_ns = std::accumulate(intervals.work.begin(), intervals.work.end(), 0.0) +
                        std::accumulate(intervals.barrier.begin(), intervals.barrier.end(), 0.0);
    measured.intervals.push_back(std::move(intervals));
    return measured;
} catch (const json::exception& error) {
    throw replay::InputError(fmt::format("{}: is not {} ({})", name, wanted, error.what()));
}

namespace {

bool exchanges(const interference::Features& features) {
    using namespace interference;
    return features[sends] + features[sends_begun] + features[receives] + features[receives_begun] > 0;
}

// Of one segment: when the last rank had done its work.
int64_t arrival(const interference::Segment& segment) {
    return segment.slowest < 0 || mutated(Mutation::barrier_is_work) ? segment.end : segment.entered;
}

}  // namespace

Measured from_run(const interference::Analyzed& analyzed) {
    const interference::Run& run = analyzed.run;
    Measured measured;
    measured.input = run.trace;
    measured.ranks = run.ranks;
    measured.warnings = run.warnings;
    measured.warnings.insert(measured.warnings.end(), analyzed.warnings.begin(), analyzed.warnings.end());
    measured.provenance = run.provenance;
    measured.noise_unknown = analyzed.noise_unknown;
    const bool arrivals = !run.segments.empty() && run.segments.front().slowest >= 0;
    measured.kind = arrivals ? "trace" : "profile";
    std::vector<interference::Group> groups = interference::group(run);
    if (mutated(Mutation::one_kind) && groups.size() > 1) {
        for (size_t i = 1; i < groups.size(); ++i)
            groups[0].members.insert(groups[0].members.end(), groups[i].members.begin(), groups[i].members.end());
        groups.resize(1);
    }
    const bool without = analyzed.without && analyzed.without->segments.size() == run.segments.size();
    if (!without && measured.noise_unknown.empty())
        measured.noise_unknown = "the timeline without noise has other segments than the measured one";
    size_t number = 0;
    for (const interference::Group& group : groups) {
        ++number;
        double total = 0;
        for (const size_t i : group.members) total += static_cast<double>(run.segments[i].duration);
        measured.total_ns += total;
        if (group.members.size() < least_maxima) {
            measured.left_out_ns += total;
            continue;
        }
        Intervals intervals;
        intervals.what = fmt::format("segments of kind {}", number);
        for (const size_t i : group.members) {
            const interference::Segment& segment = run.segments[i];
            const int64_t begin = segment.end - segment.duration, arrived = arrival(segment);
            intervals.work.push_back(static_cast<double>(arrived - begin));
            if (!arrivals) continue;
            intervals.barrier.push_back(static_cast<double>(segment.end - arrived));
            intervals.slowest.push_back(segment.slowest);
            if (!without) continue;
            const interference::Segment& quiet = analyzed.without->segments[i];
            const int64_t quiet_arrived = arrival(quiet);
            intervals.without_work.push_back(static_cast<double>(quiet_arrived - (quiet.end - quiet.duration)));
            intervals.without_barrier.push_back(static_cast<double>(quiet.end - quiet_arrived));
        }
        for (const uint32_t id : run.kinds[group.kind]) intervals.exchanges = intervals.exchanges || exchanges(run.calls[id]);
        measured.intervals.push_back(std::move(intervals));
    }
    const auto total_of = [](const Intervals& intervals) { return std::accumulate(intervals.work.begin(), intervals.work.end(), 0.0); };
    std::stable_sort(measured.intervals.begin(), measured.intervals.end(),
                     [&](const Intervals& a, const Intervals& b) { return total_of(a) > total_of(b); });
    return measured;
}

Measured read(const std::string& input, bool noise, const std::function<void(double)>& progress) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(input, ignored) && std::filesystem::path(input).extension() != ".otf2")
        return from_bench(replay::read_json(input, wanted), input);
    interference::Options options;
    options.traces = {input};
    options.noise = noise;
    options.keep_without = true;
    options.progress = progress;
    return from_run(interference::analyze(options).runs.front());
}

}  // namespace polter::variability
