// SPDX-License-Identifier: BSD-3-Clause
#include "assemble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "measured_by.hpp"
#include "replay/base/layout.hpp"
#include "replay/trace/conventions.hpp"
#include "warnings.hpp"

namespace polter::replay {

namespace {

LocalNoise local_noise(const std::vector<int64_t>& by_rank) {
    LocalNoise local;
    for (const int64_t ns : by_rank) local.max = std::max(local.max, ns);
    const auto sum = std::accumulate(by_rank.begin(), by_rank.end(), int64_t{0});
    if (!by_rank.empty()) local.mean = static_cast<double>(sum) / static_cast<double>(by_rank.size());
    return local;
}

std::optional<double> amplification(int64_t accumulated, const LocalNoise& local) {
    if (local.mean <= 0) return std::nullopt;
    return static_cast<double>(accumulated) / local.mean;
}

// The ranks over which noise is averaged: those in the trace that were measured; if none was, all in the trace.
std::vector<bool> counted_ranks(const std::vector<const Thread*>& ranks, const std::vector<std::string>& measured_by) {
    std::vector<bool> counted(ranks.size());
    for (const bool unmeasured_too : {false, true}) {
        for (size_t r = 0; r < ranks.size(); ++r) counted[r] = ranks[r] && (unmeasured_too || measured_by[r] != "none");
        if (std::find(counted.begin(), counted.end(), true) != counted.end()) break;
    }
    return counted;
}

// Index in the list of services.
std::string short_name(const Account& account) {
    return account.service ? account.name.substr(names::service_prefix.size()) : display_name(account);
}

}  // namespace

const Thread* last_rank(const Engine& engine, int32_t ranks) {
    const Thread* last = nullptr;
    for (const Thread* rank : rank_threads(engine, ranks))
        if (rank && (!last || rank->last > last->last)) last = rank;
    return last;
}

std::vector<const Thread*> rank_threads(const Engine& engine, int32_t ranks) {
    std::vector<const Thread*> list(static_cast<size_t>(ranks), nullptr);
    for (const auto& thread : engine.threads())
        if (thread->carries_rank && thread->started) list[static_cast<size_t>(thread->rank)] = thread.get();
    return list;
}

Ends program_ends(const std::vector<const Thread*>& ranks, size_t lanes) {
    Ends ends;
    ends.first = INT64_MAX;
    ends.last = INT64_MIN;
    for (const Thread* rank : ranks) {
        if (!rank) continue;
        ends.first = std::min(ends.first, rank->first);
        ends.last = std::max(ends.last, rank->last);
    }
    ends.accumulated.assign(lanes, 0);
    for (size_t lane = 0; lane < lanes; ++lane) {
        int64_t latest = INT64_MIN;
        for (const Thread* rank : ranks)
            if (rank) latest = std::max(latest, rank->last - rank->delay[lane]);
        ends.accumulated[lane] = ends.last - latest;
    }
    return ends;
}

Bounds bounds_of(const Ends& ends, const Lanes& lanes, const std::vector<const Thread*>& ranks, bool removes) {
    constexpr double too_much = 0.02, too_much_of_cost = 1.0 / 3;  // of the run time; of the noise's cost
    // What the rules get wrong beside the costs, on random programs whose time without noise is known: all but 1 of 200.
    constexpr double wrong_of_run_time = 0.0009, wrong_of_cost = 0.003;
    constexpr double deviations = 3;
    const int64_t measured = ends.last - ends.first, cost = ends.accumulated[lanes.all], approximated = measured - cost;
    Bounds bounds{measured, measured, false};
    if (!removes) return bounds;
    // Where tasks are reassigned, higher costs may mean an earlier end: the bounds must include the estimate.
    bounds.low_ns = std::min(measured - ends.accumulated[lanes.low], approximated);
    bounds.high_ns = std::max(measured - ends.accumulated[lanes.high], approximated);
    if (bounds.low_ns == measured) return bounds;  // no noise was removed
    double variance = 0;
    int64_t spread = 0, carried = 0;
    for (const Thread* rank : ranks) {
        if (!rank) continue;
        carried = std::max(carried, rank->uncertainty.carried);
        variance = std::max(variance, rank->uncertainty.variance);
        spread = std::max(spread, rank->uncertainty.spread);
    }
    const auto run_time = static_cast<double>(measured);
    const double wrong = wrong_of_run_time * run_time + wrong_of_cost * static_cast<double>(cost);
    const auto by = static_cast<int64_t>(wrong + deviations * std::sqrt(variance)) + carried;
    bounds.low_ns = std::max<int64_t>(0, bounds.low_ns - by);
    bounds.high_ns = std::max(approximated, std::min(measured, bounds.high_ns + by));
    const auto uncertainty = static_cast<double>(spread);
    bounds.contention = uncertainty > too_much * run_time ||
                        (uncertainty > resolution * run_time && uncertainty > too_much_of_cost * static_cast<double>(cost));
    return bounds;
}

namespace {

int64_t missing_ranks(const Replayed& replayed) {
    return std::count(replayed.ranks.begin(), replayed.ranks.end(), nullptr);
}

void fill_sources(Result& result, const Definitions& definitions, const Scenarios& scenarios, const std::vector<const Thread*>& ranks,
                  const Ends& ends, const std::vector<bool>& counted) {
    std::vector<double> errors;
    const std::vector<int64_t> shares = scenarios.shares(ends.accumulated, &errors);
    std::vector<int64_t> share_of(definitions.accounts.size(), 0);
    for (size_t i = 0; i < shares.size(); ++i) share_of[scenarios.players()[i]] = shares[i];
    if (scenarios.sampled()) {
        const double worst = errors.empty() ? 0 : *std::max_element(errors.begin(), errors.end());
        result.warnings.push_back(
            warning(Flaw::sampled_shares, Scenarios::most_exact, worst, short_time(static_cast<int64_t>(std::llround(worst)))));
    }
    for (size_t account = 0; account < definitions.accounts.size(); ++account) {
        std::vector<int64_t> by_rank;
        for (size_t r = 0; r < ranks.size(); ++r)
            if (counted[r]) by_rank.push_back(ranks[r]->local[account]);
        const LocalNoise local = local_noise(by_rank);
        const int64_t alone = scenarios.alone(ends.accumulated, account);
        const bool service = definitions.accounts[account].service;
        if (service) result.services.push_back({short_name(definitions.accounts[account]), local, alone});
        if (service && !scenarios.removed(account)) continue;
        // A removed service takes part in the shares like a source, under its full name.
        result.sources.push_back({display_name(definitions.accounts[account]), local, scenarios.removed(account), alone,
                                  scenarios.without(ends.accumulated, account), share_of[account], amplification(alone, local)});
    }
}

void fill_ranks(Result& result, const Definitions& definitions, const Scenarios& scenarios, const std::vector<const Thread*>& ranks,
                const Ends& ends, const std::vector<bool>& counted, const std::vector<std::string>& measured) {
    const size_t lanes = scenarios.lanes().count;
    std::vector<int64_t> local, removed;
    for (size_t r = 0; r < ranks.size(); ++r) {
        RankResult rank;
        rank.rank = static_cast<int64_t>(r);
        rank.measured_by = measured[r];
        int64_t removed_here = 0;
        if (const Thread* thread = ranks[r]) {
            const std::vector<int64_t> delay(thread->delay.get(), thread->delay + lanes);
            rank.measured_ns = thread->last - ends.first;
            rank.accumulated_noise_ns = delay[scenarios.all()];
            rank.approximated_ns = rank.measured_ns - rank.accumulated_noise_ns;
            const std::vector<int64_t> shares = scenarios.shares(delay);
            for (size_t account = 0; account < definitions.accounts.size(); ++account) {
                const Account& of = definitions.accounts[account];
                const int64_t own = thread->local[account];
                if (of.service) rank.services[short_name(of)] = own;
                if (of.service && !scenarios.removed(account)) continue;
                if (!of.service) rank.local_noise_ns += own;
                if (scenarios.removed(account)) removed_here += own;
                RankSource source{own, scenarios.alone(delay, account), 0};
                for (size_t i = 0; i < shares.size(); ++i)
                    if (scenarios.players()[i] == account) source.share_ns = shares[i];
                rank.sources[display_name(of)] = source;
            }
            result.init_ns = std::max(result.init_ns, thread->init_ns);
            result.finalize_ns = std::max(result.finalize_ns, thread->finalize_ns);
        }
        if (counted[r]) {
            local.push_back(rank.local_noise_ns);
            removed.push_back(removed_here);
        }
        result.per_rank.push_back(std::move(rank));
    }
    result.local = local_noise(local);
    result.removed_local = local_noise(removed);
}

// threads that do not carry a rank
int64_t other_mpi_threads(const Engine& engine) {
    return std::count_if(engine.threads().begin(), engine.threads().end(), [](const auto& thread) {
        return !thread->carries_rank && (!thread->in_team || thread->created) && thread->has_mpi;
    });
}

void fill_threads(Result& result, const Definitions& definitions, const Engine& engine) {
    for (const auto& thread : engine.threads()) {
        if (thread->carries_rank || thread->rank < 0 || !thread->in_team) continue;
        ThreadsResult& threads = result.per_rank[static_cast<size_t>(thread->rank)].threads;
        ++threads.count;
        for (size_t account = 0; account < definitions.accounts.size(); ++account)
            if (!definitions.accounts[account].service) threads.local_noise_ns += thread->local[account];
    }
}

void fill_culprits(Result& result, const Definitions& definitions, const Engine& learned) {
    std::map<std::tuple<size_t, int64_t, std::string>, CulpritResult> by_name;  // the trace may define the same name twice
    for (const auto& [key, sums] : learned.culprits()) {
        const std::string name = definitions.culprit_name(key.culprit);
        CulpritResult& culprit = by_name.try_emplace({key.account, key.rank, name}).first->second;
        culprit.source = display_name(definitions.accounts[key.account]);
        culprit.culprit = name;
        culprit.rank = key.rank;
        culprit.local_ns += sums.first;
        culprit.events += sums.second;
    }
    for (auto& [key, culprit] : by_name) result.culprits.push_back(std::move(culprit));
    std::stable_sort(result.culprits.begin(), result.culprits.end(),
                     [](const CulpritResult& a, const CulpritResult& b) { return a.local_ns > b.local_ns; });
}

void fill_call_sites(Result& result, const Definitions& definitions, const Engine& engine) {
    // several calls may share a line, and several files may share a name
    std::map<std::pair<std::string, std::string>, CallSiteResult> by_name;
    for (const auto& [key, sums] : engine.call_site_costs()) {
        const auto& [region, site] = key;
        const std::string operation = definitions.region_name(region);
        const CallSite& from = definitions.call_sites[site];
        CallSiteResult& one = by_name.try_emplace({operation, from.text() + "\n" + from.file}).first->second;
        one.operation = operation;
        one.site = from;
        one.sums.calls += sums.calls;
        one.sums.ns += sums.ns;
        one.sums.delay += sums.delay;
    }
    for (auto& [key, one] : by_name) result.call_sites.push_back(std::move(one));
    std::stable_sort(result.call_sites.begin(), result.call_sites.end(), [](const CallSiteResult& a, const CallSiteResult& b) {
        return std::tie(a.sums.delay, a.sums.ns) > std::tie(b.sums.delay, b.sums.ns);
    });
}

// Lengths on a path of dependencies add up to the difference of its ends' times, so the offset's error counts at both ends of it, and not
// once a message.
void widen_by_clock_error(Result& result) {
    const int64_t error = clock_error_ns(result.provenance);
    if (result.bounds_low_ns == result.measured_ns) return;  // no noise was removed
    result.bounds_low_ns = std::max<int64_t>(0, result.bounds_low_ns - 2 * error);
    result.bounds_high_ns = std::max(result.approximated_ns, std::min(result.measured_ns, result.bounds_high_ns + 2 * error));
}

void fill_hosts(Result& result, const Definitions& definitions) {
    std::map<int32_t, std::vector<int64_t>> ranks;
    for (const Location& location : definitions.locations)
        if (location.carries_rank) ranks[location.host].push_back(location.rank);
    for (auto& [host, list] : ranks) {
        std::sort(list.begin(), list.end());
        const auto name = definitions.hosts.find(host);
        result.hosts.push_back({name == definitions.hosts.end() ? fmt::format("host {}", host) : name->second, list});
    }
    std::sort(result.hosts.begin(), result.hosts.end(), [](const HostResult& a, const HostResult& b) { return a.ranks < b.ranks; });
}

}  // namespace

Replayed::Replayed(const std::string& anchor, const Definitions& of, const Scenarios& in, const Engine& learned, const Engine& last,
                   int64_t disorder_ns)
    : definitions(of), scenarios(in), learner(learned), engine(last), ranks(rank_threads(last, of.ranks)), clock_disorder_ns(disorder_ns) {
    if (std::none_of(ranks.begin(), ranks.end(), [](const Thread* rank) { return rank != nullptr; }))
        throw InputError(fmt::format("{}: no rank has an Enter or a Leave; the trace is empty", anchor));
    ends = program_ends(ranks, scenarios.lanes().count);
}

ThreadsResult all_threads(const Result& result) {
    ThreadsResult all;
    for (const RankResult& rank : result.per_rank) {
        all.count += rank.threads.count;
        all.local_noise_ns += rank.threads.local_noise_ns;
    }
    return all;
}

Result assemble(const Replayed& replayed, const Options& options, const Model& model) {
    const auto& [definitions, scenarios, learner, engine, ranks, ends, disorder] = replayed;
    Result result;
    result.trace = options.trace;
    result.ranks = definitions.ranks;
    result.events = engine.events();
    result.measured_ns = ends.last - ends.first;
    result.accumulated_noise_ns = ends.accumulated[scenarios.all()];
    result.approximated_ns = result.measured_ns - result.accumulated_noise_ns;
    const Bounds bounds = bounds_of(ends, scenarios.lanes(), ranks, !scenarios.players().empty());
    result.bounds_low_ns = bounds.low_ns;
    result.bounds_high_ns = bounds.high_ns;
    result.conditional = bounds.contention;
    result.provenance = definitions.properties;
    if (!model.faults().trust_clocks) widen_by_clock_error(result);
    result.model = model.learned();
    result.warnings = provenance_lines(definitions.properties, definitions.accounts);
    const auto measured = measured_by(definitions.properties, ranks.size());
    const auto counted = counted_ranks(ranks, measured);
    fill_sources(result, definitions, scenarios, ranks, ends, counted);
    fill_ranks(result, definitions, scenarios, ranks, ends, counted, measured);
    fill_threads(result, definitions, engine);
    fill_hosts(result, definitions);
    fill_culprits(result, definitions, learner);
    fill_call_sites(result, definitions, engine);
    result.amplification = amplification(result.accumulated_noise_ns, result.removed_local);
    return result;
}

void tell_what_was_read(Result& result, const Replayed& replayed, const std::vector<Warning>& unknown) {
    const auto append = [&](const std::vector<Warning>& lines) {
        result.warnings.insert(result.warnings.end(), lines.begin(), lines.end());
    };
    const auto add = [&](Flaw flaw, const auto&... arguments) { result.warnings.push_back(warning(flaw, arguments...)); };
    const Definitions& definitions = replayed.definitions;
    append(oversubscription_lines(result));
    append(definitions.warnings);
    append(replayed.learner.warnings());
    append(unknown);
    const auto& read = replayed.learner.threads();
    const bool moved = std::any_of(read.begin(), read.end(), [](const auto& thread) {
        return std::any_of(thread->local.begin(), thread->local.end(), [](int64_t ns) { return ns > 0; });
    });
    if (definitions.accounts.empty())
        add(Flaw::no_metrics);
    else if (!moved)
        add(Flaw::no_noise);
    if (replayed.engine.facts().counter_only) add(Flaw::counters_only);
    int64_t other_threads = 0;
    for (const auto& thread : replayed.engine.threads()) other_threads += !thread->carries_rank && !thread->in_team;
    size_t unmeasured = 0;
    if (const auto list = unmeasured_ranks(measured_by(definitions.properties, replayed.ranks.size()), unmeasured); unmeasured > 0)
        add(Flaw::ranks_not_measured, unmeasured, definitions.ranks, list);
    if (const int64_t missing = missing_ranks(replayed); missing > 0) add(Flaw::ranks_without_events, missing, definitions.ranks);
    if (other_threads + definitions.other_locations > 0) add(Flaw::other_locations, other_threads + definitions.other_locations);
    if (const int64_t threads = other_mpi_threads(replayed.engine); threads > 0) add(Flaw::mpi_threads, threads);
}

namespace {

std::map<Flaw, int64_t> occurrences(const Engine& engine) {
    std::map<Flaw, int64_t> counts;
    for (size_t i = 0; i < engine.flaws().size(); ++i) counts[static_cast<Flaw>(i)] = engine.flaws()[i].count;
    for (const auto& [region, calls] : engine.unrecorded_calls()) counts[Flaw::unrecorded_waits] += calls.count;
    for (const auto& [region, calls] : engine.lock_calls()) counts[Flaw::unrecorded_locks] += calls.count;
    return counts;
}

}  // namespace

void tell_what_is_open(Result& result, const Replayed& replayed) {
    const auto append = [&](const std::vector<Warning>& lines) {
        result.warnings.insert(result.warnings.end(), lines.begin(), lines.end());
    };
    append(clock_error_lines(result));
    append(flaw_lines(replayed.engine.flaws(), replayed.clock_disorder_ns));
    append(unrecorded_lines(Flaw::unrecorded_waits, replayed.engine.unrecorded_calls(), replayed.definitions));
    append(unrecorded_lines(Flaw::unrecorded_locks, replayed.engine.lock_calls(), replayed.definitions));
    limit_open_questions(result.warnings, replayed.engine.open_questions(), occurrences(replayed.engine), result.measured_ns);
    if (result.conditional) result.warnings.push_back(warning(Flaw::contention));  // widening the bounds has found that
    result.conditional = any_with(Effect::conditional, result.warnings);
}

}  // namespace polter::replay
