// SPDX-License-Identifier: BSD-3-Clause
#include "inject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "passes.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/base/table.hpp"
#include "replay/parallel/results.hpp"
#include "replay/result/assemble.hpp"
#include "replay/result/warnings.hpp"
#include "replay/trace/conventions.hpp"

namespace polter::replay {

namespace {

std::vector<uint64_t> sets_of(const Scenarios& scenarios) {
    std::vector<uint64_t> sets = scenarios.lane_sets();
    const Lanes& lanes = scenarios.lanes();
    sets.resize(lanes.count, sets[scenarios.all()]);  // the bounds'
    return sets;
}

LocalNoise noise_hit(const Injection& injection, const std::vector<const Thread*>& ranks, size_t lane, size_t source) {
    LocalNoise local;
    double sum = 0;
    for (const Thread* rank : ranks) {
        if (!rank) continue;
        const int64_t ns = injection.clock(rank->rank, lane).noise_ns()[source];
        sum += static_cast<double>(ns);
        local.max = std::max(local.max, ns);
    }
    if (!ranks.empty()) local.mean = sum / static_cast<double>(ranks.size());
    return local;
}

// Injected noise that hits nothing: most likely its times are meant otherwise. None: all may hit.
std::optional<Warning> missed_line(const InjectedSource& source, const LocalNoise& hit, const std::vector<const Thread*>& ranks,
                                   size_t lane, int64_t first) {
    if (source.arrival != InjectedSource::Arrival::events) {
        if (hit.max > 0) return std::nullopt;
        return warning(Flaw::injected_misses, source.name, "the run ends before it hits for the first time");
    }
    size_t all = 0, missed = 0;
    for (const auto& [number, events] : source.events) {
        const Thread* rank = ranks[static_cast<size_t>(number)];
        const int64_t begin = rank ? rank->first - first : 0, end = rank ? rank->last - rank->delay[lane] - first : 0;
        all += events.size();
        missed += static_cast<size_t>(std::count_if(events.begin(), events.end(), [&](const InjectedEvent& event) {
            return event.begin >= end || event.begin + event.duration < begin;
        }));
    }
    if (missed == 0) return std::nullopt;
    return warning(Flaw::injected_misses, source.name,
                   fmt::format("{} of {} injected events lie behind the end of the run of their rank, or before its beginning, and hit "
                               "nothing; \"time_ns\" counts from the trace's first event",
                               missed, all));
}

}  // namespace

Injected inject(const InjectPass& pass) {
    // The sources take the place that a trace's accounts have elsewhere: subsets of them are lanes, and they share what is added.
    std::vector<Account> players;
    for (const InjectedSource& source : pass.sources) players.push_back({std::string(names::source_prefix) + source.name, false});
    const Scenarios scenarios(players, std::nullopt, std::vector<bool>(players.size(), true), pass.faults);
    Archive archive(pass.options.trace);
    const Definitions& definitions = archive.definitions();
    Lanes lanes = scenarios.lanes();
    lanes.masks.assign(definitions.accounts.size(), std::vector<int64_t>(lanes.count, 0));
    Injection injection(pass.sources, sets_of(scenarios), definitions.ranks, pass.first);
    Engine engine(archive, lanes, pass.model, false, std::make_unique<MpiRules>(pass.rules), pass.facts, pass.faults);
    engine.inject(injection);
    std::vector<int64_t> alone(pass.sources.size());
    if (pass.at_event)
        engine.observe({.at_event =
                            [&](const Thread& thread, int64_t time, const int64_t* delay) {
                                if (!thread.carries_rank) return;
                                for (size_t i = 0; i < alone.size(); ++i) alone[i] = delay[scenarios.alone_lane(i)];
                                pass.at_event(thread.rank, time - pass.first, alone.data());
                            },
                        .at_noise = {},
                        .progress = {}});
    run_pass(archive, engine, pass.options.group);
    if (pass.options.group) gather_injected(*pass.options.group, engine, injection, scenarios.all());

    const std::vector<const Thread*> ranks = rank_threads(engine, definitions.ranks);
    std::vector<int64_t> added(lanes.count, 0);
    for (size_t lane = 0; lane < lanes.count; ++lane) {
        int64_t end = INT64_MIN;
        for (const Thread* rank : ranks)
            if (rank) end = std::max(end, rank->last - rank->delay[lane]);
        added[lane] = end - pass.last;
    }
    Injected result;
    result.file = pass.options.inject;
    result.added_ns = added[scenarios.all()];
    result.predicted_ns = pass.last - pass.first + result.added_ns;
    const int64_t measured = pass.last - pass.first;
    // Noise that is added makes nothing earlier, however little of the measured costs is certain.
    const auto by = result.added_ns == 0 ? 0 : static_cast<int64_t>(resolution * static_cast<double>(measured));
    result.bounds_low_ns = std::min(result.predicted_ns, std::max(measured, measured + added[lanes.low] - by));
    result.bounds_high_ns = std::max(result.predicted_ns, measured + added[lanes.high] + by);
    const std::vector<int64_t> shares = scenarios.shares(added);
    double local = 0;
    for (size_t i = 0; i < pass.sources.size(); ++i) {
        SourceResult source;
        source.name = pass.sources[i].name;
        source.local = noise_hit(injection, ranks, scenarios.all(), i);
        source.alone_ns = scenarios.alone(added, i);
        source.without_ns = scenarios.without(added, i);
        source.share_ns = shares[i];
        if (source.local.mean > 0) source.amplification = static_cast<double>(source.alone_ns) / source.local.mean;
        local += source.local.mean;
        if (auto missed = missed_line(pass.sources[i], source.local, ranks, scenarios.all(), pass.first))
            result.warnings.push_back(std::move(*missed));
        result.sources.push_back(source);
    }
    if (local > 0) result.amplification = static_cast<double>(result.added_ns) / local;
    for (size_t r = 0; r < ranks.size(); ++r) {
        Injected::Rank rank;
        rank.rank = static_cast<int64_t>(r);
        if (const Thread* thread = ranks[r]) {
            rank.added_ns = -thread->delay[scenarios.all()];
            rank.predicted_ns = thread->last - pass.first + rank.added_ns;
            for (const int64_t ns : injection.clock(thread->rank, scenarios.all()).noise_ns()) rank.local_noise_ns += ns;
        }
        result.per_rank.push_back(rank);
    }
    if (pass.task_farms) result.warnings.push_back(warning(Flaw::injected_work_order));
    if (!engine.likely_algorithms().empty()) {
        std::string names;
        for (const uint8_t operation : engine.likely_algorithms()) names += (names.empty() ? "" : ", ") + operation_name(operation);
        result.warnings.push_back(warning(Flaw::likely_algorithms, names));
    }
    result.conditional = any_with(Effect::prediction, result.warnings);
    return result;
}

nlohmann::json injected_to_json(const Injected& injected) {
    nlohmann::json sources = nlohmann::json::object(), ranks = nlohmann::json::array();
    const auto optional = [](const std::optional<double>& value) { return value ? nlohmann::json(*value) : nlohmann::json(); };
    for (const SourceResult& source : injected.sources)
        sources[source.name] = {{"local_noise_ns", {{"mean", static_cast<int64_t>(source.local.mean + 0.5)}, {"max", source.local.max}}},
                                {"alone_ns", source.alone_ns},
                                {"without_ns", source.without_ns},
                                {"share_ns", source.share_ns},
                                {"amplification", optional(source.amplification)}};
    for (const Injected::Rank& rank : injected.per_rank)
        ranks.push_back({{"rank", rank.rank},
                         {"predicted_ns", rank.predicted_ns},
                         {"added_ns", rank.added_ns},
                         {"local_noise_ns", rank.local_noise_ns}});
    return {{"file", injected.file},
            {"predicted_ns", injected.predicted_ns},
            {"predicted_bounds_ns", {injected.bounds_low_ns, injected.bounds_high_ns}},
            {"added_ns", injected.added_ns},
            {"amplification", optional(injected.amplification)},
            {"conditional", injected.conditional},
            {"sources", sources},
            {"per_rank", ranks}};
}

std::string injected_to_text(const Injected& injected, const TextOptions& options) {
    const auto factor = [](const std::optional<double>& value) { return value ? short_factor(*value) : std::string("-"); };
    const int64_t measured = injected.predicted_ns - injected.added_ns;
    Table figures({}, {0, 3});
    const auto bounds = [&](int64_t less) {
        return fmt::format("({} to {})", short_time(injected.bounds_low_ns - less), short_time(injected.bounds_high_ns - less));
    };
    figures.add({"Predicted run time", short_time(injected.predicted_ns), "", bounds(0)});
    figures.add({"Added delay", short_time(injected.added_ns), short_percent(injected.added_ns, measured), bounds(measured)});
    figures.add({"Amplification", factor(injected.amplification), "", ""});
    std::string out =
        "\n" + fold("Under the noise of " + printable(injected.file), 2, options.columns) + "\n" + figures.text(options.columns);
    if (injected.conditional) out += "Conditional: see Warnings.\n";
    Table table({"injected source", "mean", "max", "alone", "without", "share", "ampl."}, {0}, {0}, {6, 2});
    for (const SourceResult& source : injected.sources)
        table.add({source.name, short_time(static_cast<int64_t>(source.local.mean)), short_time(source.local.max),
                   short_time(source.alone_ns), short_time(source.without_ns), short_time(source.share_ns), factor(source.amplification)});
    return out + "\n" + table.text(options.columns);
}

}  // namespace polter::replay
