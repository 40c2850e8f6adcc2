// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <nlohmann/json.hpp>

#include "attribution_output.hpp"
#include "call_sites_output.hpp"
#include "costs_output.hpp"
#include "report_output.hpp"
#include "result.hpp"

namespace polter::replay {

namespace {

using Json = nlohmann::ordered_json;

Json local_json(const LocalNoise& local) {
    return {{"mean", std::llround(local.mean)}, {"max", local.max}};
}

Json optional_json(const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
}

// What makes the result conditional, or would if it could change more.
nlohmann::json open_questions_json(const Result& result) {
    nlohmann::json questions = nlohmann::json::array();
    for (const Warning& warning : result.warnings) {
        const FlawKind& kind = kind_of(warning.flaw);
        if (kind.effect != Effect::conditional) continue;
        nlohmann::json question{
            {"name", kind.name}, {"conditional", !warning.negligible}, {"concerned_ns", nullptr}, {"change_ns", nullptr}};
        if (warning.extent) {
            question["concerned_ns"] = warning.extent->concerned_ns;
            question["change_ns"] = warning.extent->change_ns;
        }
        questions.push_back(std::move(question));
    }
    return questions;
}

nlohmann::json plain_json(const Result& result) {
    nlohmann::json sources = nlohmann::json::object(), services = nlohmann::json::object(), ranks = nlohmann::json::array(),
                   culprits = nlohmann::json::array(), removed = nlohmann::json::array();
    for (const SourceResult& source : result.sources) {
        if (source.removed) removed.push_back(source.name);
        sources[source.name] = {{"local_noise_ns", local_json(source.local)},
                                {"alone_ns", source.alone_ns},
                                {"without_ns", source.without_ns},
                                {"share_ns", source.share_ns},
                                {"amplification", optional_json(source.amplification)}};
    }
    for (const ServiceResult& service : result.services)
        services[service.name] = {{"local_ns", local_json(service.local)}, {"alone_ns", service.alone_ns}};
    for (const RankResult& rank : result.per_rank) {
        nlohmann::json by_source = nlohmann::json::object();
        for (const auto& [name, source] : rank.sources)
            by_source[name] = {{"local_noise_ns", source.local_ns}, {"alone_ns", source.alone_ns}, {"share_ns", source.share_ns}};
        ranks.push_back({{"rank", rank.rank},
                         {"measured_ns", rank.measured_ns},
                         {"approximated_ns", rank.approximated_ns},
                         {"accumulated_noise_ns", rank.accumulated_noise_ns},
                         {"measured_by", rank.measured_by.empty() ? nlohmann::json() : nlohmann::json(rank.measured_by)},
                         {"local_noise_ns", rank.measured_by == "none" ? nlohmann::json() : nlohmann::json(rank.local_noise_ns)},
                         {"sources", by_source},
                         {"services", rank.services}});
        if (rank.threads.count > 0)
            ranks.back()["threads"] = {{"count", rank.threads.count}, {"local_noise_ns", rank.threads.local_noise_ns}};
    }
    std::map<int64_t, std::string> host_of;
    for (const HostResult& host : result.hosts)
        for (const int64_t rank : host.ranks) host_of[rank] = host.name;
    for (const CulpritResult& culprit : result.culprits)
        culprits.push_back({{"source", culprit.source},
                            {"host", host_of[culprit.rank]},
                            {"culprit", culprit.culprit},
                            {"rank", culprit.rank},
                            {"local_ns", culprit.local_ns},
                            {"events", culprit.events}});
    nlohmann::json texts = nlohmann::json::array();
    for (const Warning& warning : result.warnings) texts.push_back(warning.text);
    return {{"schema", "polter.replay/1"},
            {"trace", result.trace},
            {"ranks", result.ranks},
            {"events", result.events},
            {"removed", removed},
            {"measured_ns", result.measured_ns},
            {"approximated_ns", result.approximated_ns},
            {"approximated_bounds_ns", {result.bounds_low_ns, result.bounds_high_ns}},
            {"accumulated_noise_ns", result.accumulated_noise_ns},
            {"local_noise_ns", local_json(result.local)},
            {"amplification", optional_json(result.amplification)},
            {"sources", sources},
            {"services", services},
            {"per_rank", ranks},
            {"attribution", attribution_json(result.attribution)},
            {"call_sites", call_sites_json(result.call_sites)},
            {"culprits", culprits},
            {"init_ns", result.init_ns},
            {"finalize_ns", result.finalize_ns},
            {"conditional", result.conditional},
            {"open_questions", open_questions_json(result)},
            {"warnings", texts},
            {"provenance", result.provenance}};
}

}  // namespace

nlohmann::json to_json(const Result& result) {
    nlohmann::json json = plain_json(result);
    if (const std::string why = not_measured(result); !why.empty()) json["noise_not_measured"] = why;
    if (result.costs) add_costs_json(json, *result.costs);
    add_report_json(json, result);
    return json;
}

}  // namespace polter::replay
