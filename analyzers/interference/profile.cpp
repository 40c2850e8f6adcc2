// SPDX-License-Identifier: BSD-3-Clause
#include "profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analyzers/samples/statistics.hpp"
#include "assemble.hpp"
#include "replay/base/error.hpp"
#include "replay/base/json_file.hpp"
#include "replay/trace/conventions.hpp"

namespace polter::interference {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t program_bins = 512;  // of a metric, for all ranks; the ranks have 256 each

// The metrics of profile.c that are features, in the order of the features.
constexpr const char* metric_of[] = {"sends",
                                     "sends_begun",
                                     "receives",
                                     "receives_begun",
                                     "collectives_all",
                                     "collectives_from_one",
                                     "collectives_to_one",
                                     "collectives_other",
                                     "bytes_sent",
                                     "bytes_received",
                                     "files_opened",
                                     "file_reads",
                                     "file_writes",
                                     "functions"};
static_assert(std::size(metric_of) == features);

[[noreturn]] void fail(const std::string& file, const std::string& why) {
    throw replay::InputError(fmt::format("{}: {}; the profile is damaged, so make it again with polter run --profile", file, why));
}

// A metric's value in each segment.
std::vector<double> values_of(const json& profile, const std::string& metric, size_t segments, const std::string& file) {
    const json& from = profile.at("metrics").at(metric);
    const auto bins = from.at("bins").get<std::vector<double>>();
    const auto index = from.at("index").get<std::string>();
    if (index.size() != 2 * segments) fail(file, fmt::format("{} has {} segments instead of {}", metric, index.size() / 2, segments));
    std::vector<double> values;
    for (size_t i = 0; i < segments; ++i) {
        const std::string digits = index.substr(2 * i, 2);
        if (digits.find_first_not_of("0123456789abcdef") != std::string::npos) fail(file, metric + " has an index that is no number");
        const auto bin = std::stoul(digits, nullptr, 16);
        if (bin >= bins.size() || bins[bin] < 0) fail(file, metric + " refers to a bin that does not exist");
        values.push_back(bins[bin]);
    }
    return values;
}

// One set of bins for all ranks.
void quantise(std::vector<std::vector<double>>& by_rank) {
    std::vector<double> sorted;
    for (const auto& rank : by_rank) sorted.insert(sorted.end(), rank.begin(), rank.end());
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    const std::vector<double> becomes = merged(sorted, program_bins);
    for (auto& rank : by_rank)
        for (double& value : rank)
            value = becomes[static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin())];
}

}  // namespace

std::vector<double> merged(const std::vector<double>& sorted, size_t most) {
    if (sorted.size() <= most) return sorted;
    std::vector<std::pair<double, size_t>> gaps;  // behind which value
    for (size_t i = 0; i + 1 < sorted.size(); ++i) gaps.emplace_back(sorted[i + 1] - sorted[i], i);
    std::sort(gaps.begin(), gaps.end());
    std::vector<bool> joined(sorted.size(), false);
    for (size_t k = 0; k < sorted.size() - most; ++k) joined[gaps[k].second] = true;
    std::vector<double> becomes(sorted.size());
    for (size_t begin = 0, i = 0; i < sorted.size(); ++i) {
        if (joined[i]) continue;
        const auto first = sorted.begin() + static_cast<std::ptrdiff_t>(begin), last = sorted.begin() + static_cast<std::ptrdiff_t>(i) + 1;
        std::fill(becomes.begin() + static_cast<std::ptrdiff_t>(begin), becomes.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  samples::median(std::vector<double>(first, last)));
        begin = i + 1;
    }
    return becomes;
}

bool is_profile(const std::string& folder) {
    std::error_code error;
    return fs::exists(fs::path(folder) / "profile.0.json", error) && !fs::exists(fs::path(folder) / replay::names::anchor, error);
}

Run read_profile(const std::string& folder) {
    Run run;
    run.trace = folder;
    std::vector<std::vector<double>> times, computing;
    std::vector<std::vector<std::vector<double>>> metrics(features);  // by metric and rank
    int64_t lost = 0;
    run.ranks = 1;
    for (int64_t rank = 0; rank < run.ranks; ++rank) {
        const std::string file = (fs::path(folder) / fmt::format("profile.{}.json", rank)).string();
        const json profile = replay::read_json(file, "a rank's profile");
        try {
            if (profile.at("schema") != "polter.profile.rank/1") fail(file, "it has another schema");
            run.ranks = profile.at("ranks").get<int64_t>();
            if (profile.at("rank") != rank || run.ranks < 1 || run.ranks > 10'000'000) fail(file, "its ranks are impossible");
            const auto segments = profile.at("segments").get<size_t>();
            times.push_back(values_of(profile, "time_ns", segments, file));
            computing.push_back(values_of(profile, "computing", segments, file));
            const auto counter = profile.at("counter").get<std::string>();
            if (rank == 0) run.counter = counter;
            if (run.counter != counter) run.counter.clear();  // one of them could not count
            for (size_t m = 0; m < features; ++m) metrics[m].push_back(values_of(profile, metric_of[m], segments, file));
            lost = std::max(lost, profile.at("lost").get<int64_t>());
            run.before = std::max(run.before, profile.at("before_ns").get<int64_t>());
            run.after = std::max(run.after, profile.at("after_ns").get<int64_t>());
        } catch (const json::exception& error) {
            fail(file, error.what());
        }
    }
    if (run.ranks < 2)
        throw replay::InputError(folder + ": has one rank; interference shows where ranks wait for each other, so run two or more");
    quantise(times);
    quantise(computing);
    for (auto& metric : metrics) quantise(metric);
    size_t least = times.front().size();
    for (const auto& rank : times) least = std::min(least, rank.size());
    // The clocks of hosts are not compared: a segment's length is the median of what the ranks measured, each by its own clock.
    std::vector<int64_t> ends;
    int64_t end = run.before;
    for (size_t s = 0; s < least; ++s) {
        std::vector<double> lengths;
        for (const auto& rank : times) lengths.push_back(rank[s]);
        ends.push_back(end += static_cast<int64_t>(samples::median(std::move(lengths))));
    }
    std::map<Features, uint32_t> known;
    std::vector<RankSegments> ranks;
    const int64_t last = end + run.after;
    for (size_t rank = 0; rank < times.size(); ++rank) {
        RankSegments& of = ranks.emplace_back();
        of.first = run.before;
        of.last = last;
        of.ends = ends;
        if (run.counter.empty())
            of.computing.assign(least, 0);
        else
            of.computing.assign(computing[rank].begin(), computing[rank].begin() + static_cast<std::ptrdiff_t>(least));
        for (size_t s = 0; s < least; ++s) {
            Features own{};
            for (size_t m = 0; m < features; ++m) own[m] = static_cast<uint64_t>(metrics[m][rank][s]);
            of.calls.push_back(known.try_emplace(own, static_cast<uint32_t>(known.size())).first->second);
        }
    }
    std::vector<Features> calls(known.size());
    for (const auto& [features, id] : known) calls[id] = features;
    assemble(run, folder, ranks, std::move(calls));
    if (lost > 0)
        run.warnings.push_back(fmt::format("the profile has room for {} segments; {} that came later are not in it", least, lost));
    return run;
}

}  // namespace polter::interference
