// SPDX-License-Identifier: BSD-3-Clause
#include "unreplayed.hpp"

#include <noise.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

namespace polter::cli {
namespace {

constexpr const char* service_prefix = "os-service:";
constexpr const char* property_prefix = "POLTER::";
constexpr const char* unknown = "unknown";

// The sums of one account over the ranks that told.
replay::LocalNoise local_of(const std::map<std::pair<std::string, uint32_t>, int64_t>& sums, const std::string& account, size_t ranks) {
    replay::LocalNoise out;
    double all = 0;
    for (const auto& [key, ns] : sums) {
        if (key.first != account) continue;
        all += static_cast<double>(ns);
        out.max = std::max(out.max, ns);
    }
    if (ranks > 0) out.mean = all / static_cast<double>(ranks);
    return out;
}

bool is_service(const std::string& account) {
    for (unsigned a = 0; a < POLTER_ACCOUNTS; ++a)
        if (account == polter_account_name(a)) return polter_account_is_service(a);
    return false;
}

}  // namespace

replay::Result unreplayed(const launch::Traced& traced) {
    const auto& report = traced.report;
    replay::Result out;
    out.trace = traced.experiment.string();
    out.ranks = report.size;
    out.events = static_cast<int64_t>(report.events);
    out.measured_ns = static_cast<int64_t>(report.last_ns - report.first_ns);
    for (const auto& text : report.warnings) out.warnings.push_back(replay::warning(replay::Flaw::recorder, text));
    for (const auto& [name, value] : report.properties)
        out.provenance[name.starts_with(property_prefix) ? name.substr(std::string(property_prefix).size()) : name] = value;
    size_t measured = 0;
    std::map<uint32_t, int64_t> by_rank;
    std::map<std::pair<std::string, uint32_t>, int64_t> by_account;
    for (const auto& noise : report.noise) {
        const auto ns = static_cast<int64_t>(noise.ns);
        const bool service = is_service(noise.account);
        by_account[{noise.account, noise.rank}] += ns;
        if (!service) by_rank[noise.rank] += ns;
        out.culprits.push_back({(service ? service_prefix : "") + noise.account, noise.culprit.empty() ? unknown : noise.culprit,
                                noise.rank, ns, static_cast<int64_t>(noise.events)});
    }
    std::sort(out.culprits.begin(), out.culprits.end(), [](const auto& a, const auto& b) {
        return std::tie(b.local_ns, a.source, a.culprit, a.rank) < std::tie(a.local_ns, b.source, b.culprit, b.rank);
    });
    for (const auto& [rank, exporter] : report.measured_by) {
        replay::RankResult one;
        one.rank = rank;
        one.measured_by = exporter;
        one.measured_ns = out.measured_ns;
        one.local_noise_ns = by_rank[rank];
        out.local.max = std::max(out.local.max, one.local_noise_ns);
        out.local.mean += static_cast<double>(one.local_noise_ns);
        measured += exporter != "none";
        out.per_rank.push_back(std::move(one));
    }
    if (measured > 0) out.local.mean /= static_cast<double>(measured);
    for (unsigned a = 0; a < POLTER_ACCOUNTS && measured > 0; ++a) {
        const std::string name = polter_account_name(a);
        const auto local = local_of(by_account, name, measured);
        if (polter_account_is_service(a))
            out.services.push_back({name, local, 0});
        else
            out.sources.push_back({.name = name, .local = local, .removed = false});
    }
    return out;
}

nlohmann::json unreplayed_json(const replay::Result& result) {
    const auto local_json = [](const replay::LocalNoise& local) {
        return nlohmann::json{{"mean", std::llround(local.mean)}, {"max", local.max}};
    };
    nlohmann::json texts = nlohmann::json::array();
    for (const auto& warning : result.warnings) texts.push_back(warning.text);
    nlohmann::json out{{"trace", result.trace},
                       {"ranks", result.ranks},
                       {"events", result.events},
                       {"measured_ns", result.measured_ns},
                       {"local_noise_ns", local_json(result.local)},
                       {"sources", nlohmann::json::object()},
                       {"services", nlohmann::json::object()},
                       {"per_rank", nlohmann::json::array()},
                       {"culprits", nlohmann::json::array()},
                       {"warnings", texts},
                       {"provenance", result.provenance}};
    for (const auto& source : result.sources) out["sources"][source.name] = {{"local_noise_ns", local_json(source.local)}};
    for (const auto& service : result.services) out["services"][service.name] = {{"local_ns", local_json(service.local)}};
    for (const auto& rank : result.per_rank)
        out["per_rank"].push_back({{"rank", rank.rank}, {"measured_by", rank.measured_by}, {"local_noise_ns", rank.local_noise_ns}});
    for (const auto& culprit : result.culprits)
        out["culprits"].push_back({{"source", culprit.source},
                                   {"culprit", culprit.culprit},
                                   {"rank", culprit.rank},
                                   {"local_ns", culprit.local_ns},
                                   {"events", culprit.events}});
    return out;
}

}  // namespace polter::cli
