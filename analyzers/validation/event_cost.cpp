// SPDX-License-Identifier: BSD-3-Clause
#include "event_cost.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "analyzers/inject/spec.hpp"
#include "self.hpp"

namespace polter::validation {

using Json = nlohmann::json;

namespace {

constexpr size_t least_samples = 20;  // with fewer, a mean says nothing
constexpr const char* injector_task = "polter-inject";

// Single events that the hypervisor stopped for milliseconds are left out.
int64_t middle_mean(std::vector<int64_t> values) {
    if (values.size() < least_samples) return 0;
    std::sort(values.begin(), values.end());
    const auto cut = static_cast<std::ptrdiff_t>(values.size() / 20);
    const int64_t sum = std::accumulate(values.begin() + cut, values.end() - cut, int64_t{0});
    return sum / static_cast<int64_t>(values.size() - 2 * static_cast<size_t>(cut));
}

struct Detour {
    int64_t begin, end, lost, unattributed;
    size_t timers, ours, others;  // events in it; others: interruptions by other tasks
    size_t events;
};

std::vector<Detour> detours_of(const Json& loop) {
    std::vector<Detour> detours;
    for (const Json& one : loop.at("detours")) {
        const auto begin = one.at("begin_ns").get<int64_t>();
        Detour detour{begin, begin + one.at("duration_ns").get<int64_t>(), one.at("lost_ns").get<int64_t>(),
                      one.at("unattributed_ns").get<int64_t>(), 0, 0, 0, one.at("events").size()};
        for (const Json& event : one.at("events")) {
            const auto source = event.at("source").get<std::string>();
            detour.timers += source == "timer";
            if (source != "preempt" && source != "runqueue") continue;
            ++(event.at("culprit") == injector_task ? detour.ours : detour.others);
        }
        detours.push_back(detour);
    }
    return detours;
}

CpuCost cost_of(const std::vector<Detour>& detours, const std::vector<inject::Injected>& events) {
    std::vector<int64_t> ticks, beyond, hidden;
    for (const Detour& detour : detours)
        if (detour.timers == 1 && detour.events == 1) ticks.push_back(detour.unattributed);
    CpuCost cost;
    cost.ticks = ticks.size();
    cost.hidden_timer = middle_mean(ticks);
    for (const inject::Injected& event : events) {
        const auto after = std::upper_bound(detours.begin(), detours.end(), event.begin_ns,
                                            [](int64_t at, const Detour& detour) { return at < detour.begin; });
        if (after == detours.begin()) continue;
        const Detour& detour = *std::prev(after);
        if (detour.end < event.begin_ns + event.duration_ns || detour.ours != 1 || detour.others > 0) continue;
        beyond.push_back(detour.lost - event.duration_ns);
        hidden.push_back(detour.unattributed);
    }
    cost.events = beyond.size();
    cost.beyond = std::max<int64_t>(0, middle_mean(beyond));
    cost.hidden = std::max<int64_t>(0, middle_mean(hidden));
    return cost;
}

std::vector<int> some_allowed_cpus() {
    constexpr size_t most_cpus = 8;  // each loop has an exporter of its own
    std::vector<int> allowed, chosen;
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set)) allowed.push_back(cpu);
    const size_t step = (allowed.size() + most_cpus - 1) / most_cpus;
    for (size_t i = 0; i < allowed.size(); i += step) chosen.push_back(allowed[i]);
    return chosen;
}

std::string spec_for(const std::string& text, const std::vector<int>& cpus) {
    constexpr double least_events_a_second = 40;
    const inject::Spec spec = inject::parse_spec(text);
    const bool drawn = spec.kind == inject::Kind::periodic || spec.kind == inject::Kind::bernoulli ||
                       spec.kind == inject::Kind::exponential || spec.kind == inject::Kind::pareto;
    const double chance = spec.kind == inject::Kind::bernoulli ? spec.probability : 1;
    const std::string there = fmt::format("cpus={},seed={}", fmt::join(cpus, "+"), spec.seed);
    if (!drawn || chance * 1e9 / static_cast<double>(spec.period_ns) < least_events_a_second)
        return "periodic,period=5ms,duration=200us," + there;
    std::string words = fmt::format("{},period={},duration={},{}", inject::name_of(spec.kind), spec.period_ns, spec.duration_ns, there);
    if (spec.kind == inject::Kind::bernoulli) words += fmt::format(",probability={}", spec.probability);
    if (spec.kind == inject::Kind::pareto) words += fmt::format(",shape={}", spec.shape);
    return words;
}

}  // namespace

CpuCost EventCost::mean() const {
    CpuCost sum;
    if (cpus.empty()) return sum;
    for (const auto& [cpu, cost] : cpus) {
        sum.beyond += cost.beyond;
        sum.hidden_timer += cost.hidden_timer;
        sum.hidden += cost.hidden;
        sum.events += cost.events;
        sum.ticks += cost.ticks;
    }
    const auto count = static_cast<int64_t>(cpus.size());
    return {sum.beyond / count, sum.hidden / count, sum.hidden_timer / count, sum.events, sum.ticks};
}

CpuCost EventCost::of(int32_t cpu) const {
    const auto found = cpus.find(cpu);
    return found == cpus.end() ? mean() : found->second;
}

EventCost event_cost(const inject::Log& log, const std::vector<Json>& loops) {
    EventCost cost;
    for (const Json& loop : loops) {
        const auto cpu = loop.at("cpu").get<int32_t>();
        cost.measured_by = loop.at("measured_by").get<std::string>();
        std::vector<inject::Injected> events;
        for (const auto& source : log.sources)
            for (const auto& event : source.events)
                if (event.cpu == cpu) events.push_back(event);
        const CpuCost one = cost_of(detours_of(loop), events);
        if (one.events >= least_samples) cost.cpus[cpu] = one;
    }
    return cost;
}

EventCost measure_event_cost(const std::string& program, const std::string& exporter, const std::string& spec, const std::string& folder) {
    const auto cpus = some_allowed_cpus();
    const std::string log = folder + "/loop-noise.json";
    SelfRun injecting(program, {"inject", "-q", "--seconds", "60", "-o", log, spec_for(spec, cpus)}, folder, "loop-inject");
    std::vector<std::unique_ptr<SelfRun>> running;
    for (const int cpu : cpus)
        running.push_back(std::make_unique<SelfRun>(program,
                                                    std::vector<std::string>{"noise", "--loop", "selfish", "--json", "-q", "--seconds", "1",
                                                                             "--cpu", std::to_string(cpu), "--exporter", exporter},
                                                    folder, fmt::format("loop-{}", cpu)));
    std::vector<Json> loops;
    for (const auto& one : running) loops.push_back(Json::parse(one->output(), nullptr, false));
    injecting.interrupt();
    injecting.output();
    for (const Json& loop : loops)
        if (!loop.is_object()) return {};
    return event_cost(inject::read_log(log), loops);
}

Json to_json(const EventCost& cost) {
    Json cpus = Json::array();
    for (const auto& [cpu, one] : cost.cpus)
        cpus.push_back({{"cpu", cpu},
                        {"beyond_ns", one.beyond},
                        {"hidden_ns", one.hidden},
                        {"hidden_timer_ns", one.hidden_timer},
                        {"events", one.events},
                        {"ticks", one.ticks}});
    return {{"measured_by", cost.measured_by}, {"cpus", std::move(cpus)}};
}

EventCost event_cost_from(const Json& json) {
    EventCost cost;
    cost.measured_by = json.value("measured_by", "");
    for (const Json& one : json.value("cpus", Json::array()))
        cost.cpus[one.at("cpu").get<int32_t>()] = {one.at("beyond_ns").get<int64_t>(), one.at("hidden_ns").get<int64_t>(),
                                                   one.at("hidden_timer_ns").get<int64_t>(), one.at("events").get<size_t>(),
                                                   one.at("ticks").get<size_t>()};
    return cost;
}

}  // namespace polter::validation
