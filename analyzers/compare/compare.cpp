// SPDX-License-Identifier: BSD-3-Clause
#include "compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/replay.hpp"
#include "replay/result/first_screen.hpp"
#include "replay/trace/conventions.hpp"

namespace polter::compare {

namespace {

using Values = std::map<std::string, Value>;

// Which kworker or per-CPU thread it was differs from run to run.
std::string task_kind(const std::string& name) {
    for (const char* prefix : {"kworker", "ksoftirqd", "migration", "cpuhp", "rcuc", "rcuop", "rcuog"})
        if (name.starts_with(std::string(prefix) + "/")) return std::string(prefix) + "/*";
    return name;
}

std::vector<Row> rows_of(const std::vector<Run>& a, const std::vector<Run>& b, Values Run::*table, bool in_both, uint64_t seed,
                         size_t resamples, int64_t chance_ns) {
    std::set<std::string> names;
    const auto has = [&](const std::vector<Run>& side, const std::string& name) {
        return std::any_of(side.begin(), side.end(), [&](const Run& run) { return (run.*table).contains(name); });
    };
    for (const auto* side : {&a, &b})
        for (const Run& run : *side)
            for (const auto& [name, value] : run.*table) names.insert(name);
    const auto values = [&](const std::vector<Run>& side, const std::string& name) {
        std::vector<Value> list;
        for (const Run& run : side) {
            const auto found = (run.*table).find(name);
            list.push_back(found == (run.*table).end() ? Value{} : found->second);
        }
        return list;
    };
    std::vector<Row> rows;
    for (const std::string& name : names)
        if (!in_both || (has(a, name) && has(b, name)))
            rows.push_back({name, difference(values(a, name), values(b, name), seed, resamples, chance_ns)});
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& x, const Row& y) { return std::abs(x.estimate.difference_ns) > std::abs(y.estimate.difference_ns); });
    return rows;
}

std::vector<Value> values_of(const std::vector<Run>& side, Value Run::*member) {
    std::vector<Value> list;
    for (const Run& run : side) list.push_back(run.*member);
    return list;
}

std::string longer(int64_t ns) {
    return ns == 0 ? "as long as" : fmt::format("{} {} than", replay::short_time(std::abs(ns)), ns > 0 ? "longer" : "less");
}
std::string more(const Estimate& e) {
    const bool less = e.difference_ns < 0;
    const int64_t near = less ? -e.high_ns : e.low_ns, far = less ? -e.low_ns : e.high_ns;  // in the direction of the difference
    const std::string from =
        near < 0 ? fmt::format("{} {}", replay::short_time(-near), less ? "more" : "less") : replay::short_time(near);
    return fmt::format("{} {} (between {} and {}{})", replay::short_time(std::abs(e.difference_ns)), less ? "less" : "more", from,
                       replay::short_time(far), near < 0 ? less ? " less" : " more" : "");
}

std::string answer_of(const Comparison& c, const std::string& a, const std::string& b) {
    std::string text = fmt::format("{} took {} {}", b, longer(c.run_time.estimate.difference_ns), a);
    if (!c.noise_known) return text + "; how much of it is noise is not known";
    text += fmt::format(": {} by noise", more(c.noise.estimate));
    if (!c.noise.estimate.more_than_noise())
        text += ", which is within its uncertainty";
    else if (!c.culprits.empty() && (c.culprits.front().estimate.difference_ns > 0) == (c.noise.estimate.difference_ns > 0) &&
             c.culprits.front().estimate.more_than_noise())
        text += fmt::format(", {} {}",
                            2 * std::abs(c.culprits.front().estimate.difference_ns) > std::abs(c.noise.estimate.difference_ns)
                                ? "mostly"
                                : "the largest part",
                            c.culprits.front().name);
    text += fmt::format("; {} by what is not noise", more(c.without_noise.estimate));
    if (!c.without_noise.estimate.more_than_noise()) text += ", which is within its uncertainty";
    return text + ".";
}

std::string side_name(size_t index) {
    return index < 26 ? std::string(1, static_cast<char>('A' + index)) : fmt::format("side {}", index + 1);
}

}  // namespace

Run run_of(const replay::Result& result) {
    Run run;
    run.run_time = {result.measured_ns, result.measured_ns, result.measured_ns};
    run.noise_known = not_measured(result).empty();
    if (!run.noise_known) return run;
    const int64_t cost = result.accumulated_noise_ns;
    const int64_t below = cost - (result.measured_ns - result.bounds_high_ns), above = result.measured_ns - result.bounds_low_ns - cost;
    // A part is taken to be as uncertain as the whole.
    const auto part = [&](int64_t ns) { return Value{ns, ns - below, ns + above}; };
    run.noise = part(cost);
    run.without_noise = {result.approximated_ns, result.bounds_low_ns, result.bounds_high_ns};
    for (const replay::SourceResult& source : result.sources)
        if (source.removed && source.local.max > 0) run.sources[replay::cause(source.name)] = part(source.share_ns);
    std::map<std::string, int64_t> culprits, operations;
    for (const replay::AttributionRow& row : result.attribution.rows) {
        operations[row.where] += row.ns;
        if (!result.attribution.by_origin) continue;
        const std::string cause = replay::cause(row.source);
        culprits[row.culprit == "unknown" ? cause : fmt::format("{} by {}", cause, task_kind(row.culprit))] += row.ns;
    }
    for (const auto& [name, ns] : culprits) run.culprits[name] = part(ns);
    for (const auto& [name, ns] : operations) run.operations[name] = part(ns);
    for (const replay::RankResult& rank : result.per_rank)
        if (rank.measured_by != "none") run.ranks[fmt::format("rank {}", rank.rank)] = part(rank.accumulated_noise_ns);
    return run;
}

Comparison compare_runs(const std::vector<Run>& a, const std::vector<Run>& b, const std::string& name_a, const std::string& name_b,
                        uint64_t seed, size_t resamples) {
    Comparison result;
    const auto row = [&](const char* name, Value Run::*member, int64_t chance_ns) {
        return Row{name, difference(values_of(a, member), values_of(b, member), seed, resamples, chance_ns)};
    };
    if (std::min(a.size(), b.size()) < least_resampled) {
        int64_t longest = 0;
        for (const auto* side : {&a, &b})
            for (const Run& run : *side) longest = std::max(longest, run.run_time.ns);
        result.run_chance_ns = static_cast<int64_t>(run_chance * static_cast<double>(longest));
        result.noise_chance_ns = static_cast<int64_t>(noise_chance * static_cast<double>(longest));
    }
    result.run_time = row("run time", &Run::run_time, result.run_chance_ns);
    for (const auto* side : {&a, &b})
        for (const Run& run : *side) result.noise_known = result.noise_known && run.noise_known;
    if (result.noise_known) {
        result.noise = row("OS noise delay", &Run::noise, result.noise_chance_ns);
        result.without_noise = row("without noise", &Run::without_noise, result.run_chance_ns);
        result.sources = rows_of(a, b, &Run::sources, false, seed, resamples, result.noise_chance_ns);
        result.culprits = rows_of(a, b, &Run::culprits, false, seed, resamples, result.noise_chance_ns);
        result.ranks = rows_of(a, b, &Run::ranks, true, seed, resamples, result.noise_chance_ns);
        result.operations = rows_of(a, b, &Run::operations, false, seed, resamples, result.noise_chance_ns);
    } else {
        result.warnings.push_back("the noise of some runs was not measured: only run times are compared");
    }
    if (a.size() == 1 && b.size() == 1)
        result.warnings.push_back(
            "one run of each side does not say how much runs differ by chance: taken to be 3 % of the run time, and 0.5 % of it for "
            "delays by noise; give five or more runs of each side (A1,A2,... B1,B2,...)");
    else if (std::min(a.size(), b.size()) < least_resampled)
        result.warnings.push_back(fmt::format(
            "fewer than {} runs of a side: its interval goes from its least to its greatest run, widened by 3 % of the run time "
            "(0.5 % for delays by noise)",
            least_resampled));
    result.answer = answer_of(result, name_a, name_b);
    return result;
}

Compared compare(const Options& options) {
    Compared result;
    result.seed = options.seed;
    result.resamples = options.resamples;
    std::vector<std::vector<Run>> runs;
    size_t all = 0, done = 0;
    for (const auto& side : options.sides) all += side.size();
    std::vector<std::vector<std::string>> notes(options.sides.size());
    for (size_t i = 0; i < options.sides.size(); ++i) {
        Side side;
        side.name = side_name(i);
        side.traces = options.sides[i];
        runs.emplace_back();
        for (const std::string& trace : side.traces) {
            replay::Options one;
            one.trace = trace;
            one.attribution = true;
            if (options.progress)
                one.progress = [&](double part) { options.progress((static_cast<double>(done) + part) / static_cast<double>(all)); };
            const replay::Result replayed = options.replay ? options.replay(one) : replay::replay(one);
            ++done;
            const bool first = runs.back().empty();
            if (!first && (known(replayed, "PROGRAM") != side.program || replayed.ranks != side.ranks))
                notes[i].push_back(
                    fmt::format("the runs of {} differ in program or number of ranks ({})", side.name, replay::printable(trace)));
            if (first) {
                side.program = known(replayed, "PROGRAM");
                side.hosts = known(replayed, "HOSTS");
                side.measured_by = known(replayed, "EXPORTER");
                side.ranks = replayed.ranks;
                side.provenance = replayed.provenance;
            }
            if (const replay::NoiseCost cost(replayed); not_measured(replayed).empty() && cost.open)
                notes[i].push_back(fmt::format(
                    "the trace {} leaves open how much the noise cost (between {} and {}); its figures are one of the possibilities",
                    replay::printable(trace), replay::short_time(cost.low), replay::short_time(cost.high)));
            side.conditional = side.conditional || replayed.conditional;
            runs.back().push_back(run_of(replayed));
        }
        result.sides.push_back(std::move(side));
    }
    const Side& a = result.sides.front();
    for (size_t i = 1; i < result.sides.size(); ++i) {
        const Side& b = result.sides[i];
        Comparison one = compare_runs(runs[0], runs[i], a.name, b.name, options.seed, options.resamples);
        one.side = i;
        const auto add = [&](const std::string& text) { one.warnings.push_back(text); };
        if (a.program != b.program)
            add(fmt::format("{} ran {}, {} ran {}: the difference is that of two programs", a.name, replay::printable(a.program), b.name,
                            replay::printable(b.program)));
        if (a.ranks != b.ranks)
            add(fmt::format("{} had {} ranks, {} had {}: only ranks of both are compared", a.name, a.ranks, b.name, b.ranks));
        if (a.measured_by != b.measured_by)
            add(fmt::format("{} was measured by {}, {} by {}: what one of them cannot see looks like a difference", a.name, a.measured_by,
                            b.name, b.measured_by));
        for (const Side* side : {&a, &b})
            if (side->conditional)
                add(fmt::format("{} is conditional: without noise the program may behave differently (polter replay says why)",
                                side->name));
        for (const size_t side : {size_t{0}, i}) one.warnings.insert(one.warnings.end(), notes[side].begin(), notes[side].end());
        result.comparisons.push_back(std::move(one));
    }
    return result;
}

}  // namespace polter::compare
