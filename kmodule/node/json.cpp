// SPDX-License-Identifier: BSD-3-Clause
#include "json.hpp"

#include <sys/utsname.h>

#include <nlohmann/json.hpp>

#include "noise.h"
#include "summary.hpp"

namespace polter::node {

using nlohmann::json;

json stats_to_json(const Stats& s, bool with_histogram) {
    json out{{"count", s.count},
             {"total_ns", s.total_ns},
             {"mean_ns", s.mean_ns()},
             {"p50_ns", s.percentile_ns(0.5)},
             {"p99_ns", s.percentile_ns(0.99)},
             {"max_ns", s.max_ns}};
    if (!with_histogram) return out;
    auto& histogram = out["histogram"] = json::array();
    for (polter_u32 i = 0; i < POLTER_BINS; i++)
        if (s.bin[i]) histogram.push_back({polter_bin_lower(i), s.bin[i]});
    return out;
}

json machine_to_json() {
    utsname name{};
    uname(&name);
    return {{"host", name.nodename}, {"kernel", name.release}, {"machine", name.machine}};
}

namespace {

const char* kind_name(Kind kind) {
    switch (kind) {
        case Kind::interruption:
            return "interruption";
        case Kind::wait:
            return "wait";
        case Kind::counted:
            return "counted";
        case Kind::task:
            break;
    }
    return "task";
}

json source_to_json(const Source& source, bool with_histogram) {
    json out = stats_to_json(source.all, with_histogram);
    out["kind"] = kind_name(kind_of(source.account));
    if (source.account != ran) out["service"] = polter_account_is_service(source.account) != 0;
    if (kind_of(source.account) == Kind::interruption) out["idle"] = {{"count", source.idle.count}, {"total_ns", source.idle.total_ns}};
    auto& culprits = out["culprits"] = json::array();
    for (const auto& culprit : source.culprits) {
        json one = stats_to_json(culprit.stats, with_histogram);
        one["name"] = culprit.name;
        culprits.push_back(std::move(one));
    }
    return out;
}

json all_sources(const Observation& o, std::optional<unsigned> cpu, bool with_histogram) {
    json sources = json::object();
    for (const auto& source : sources_of(o, cpu))
        if (source.account != ran) sources[name_of(source.account)] = source_to_json(source, with_histogram);
    return sources;
}

json who_ran(const Observation& o, std::optional<unsigned> cpu, bool with_histogram) {
    for (const auto& source : sources_of(o, cpu))
        if (source.account == ran) return source_to_json(source, with_histogram);
    return source_to_json({ran, {}, {}, {}}, with_histogram);
}

}  // namespace

json to_json(const Observation& o, const char* measured_by) {
    json out{{"schema", "polter.noise/1"}, {"machine", machine_to_json()}, {"measured_by", measured_by}};
    const auto times = times_of(o);
    out["cpus"] = o.cpus.size();
    out["wall_ns"] = times.wall_ns;
    out["idle_ns"] = times.idle_ns;
    out["steal_ns"] = times.steal_ns;
    out["percentile_error"] = 0.125;
    out["sources"] = all_sources(o, {}, true);
    out["ran"] = who_ran(o, {}, true);
    auto& cpus = out["per_cpu"] = json::array();
    for (const auto& c : o.cpus) {
        const auto of_cpu = times_of(o, c.cpu);
        cpus.push_back({{"cpu", c.cpu},
                        {"begin_ns", c.begin_ns},
                        {"wall_ns", of_cpu.wall_ns},
                        {"idle_ns", of_cpu.idle_ns},
                        {"steal_ns", of_cpu.steal_ns},
                        {"sources", all_sources(o, c.cpu, false)},
                        {"ran", who_ran(o, c.cpu, false)}});
    }
    auto& unseen = out["not_seen"] = json::array();
    for (unsigned account = 0; account < POLTER_ACCOUNTS; account++)
        if (!(o.accounts_seen >> account & 1)) unseen.push_back(polter_account_name(account));
    out["warnings"] = warnings_of(o);
    return out;
}

}  // namespace polter::node
