// SPDX-License-Identifier: BSD-3-Clause
#include "replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "approximated.hpp"
#include "cost_analysis.hpp"
#include "events.hpp"
#include "inject.hpp"
#include "model_file.hpp"
#include "names.hpp"
#include "parallel/results.hpp"
#include "passes.hpp"

namespace polter::replay {

using Callbacks = std::unique_ptr<OTF2_EvtReaderCallbacks, decltype(&OTF2_EvtReaderCallbacks_Delete)>;

void run_pass(Archive& archive, Engine& engine, Group* group) {
    const Callbacks callbacks(event_callbacks(), OTF2_EvtReaderCallbacks_Delete);
    if (group) engine.join(*group);
    std::vector<void*> user_data;
    std::vector<bool> own;
    for (const auto& thread : engine.threads()) {
        user_data.push_back(thread.get());
        own.push_back(!thread->remote);
    }
    const Archive::Opened opened = archive.open_events(callbacks.get(), user_data, own);
    archive.judge(group ? gather_opened(*group, opened) : opened, engine.warnings);
    engine.run();
    archive.close_events();
    if (group) gather_results(*group, engine);
}

std::vector<const Thread*> rank_threads(const Engine& engine, int32_t ranks) {
    std::vector<const Thread*> list(static_cast<size_t>(ranks), nullptr);
    for (const auto& thread : engine.threads())
        if (thread->carries_rank && thread->started) list[static_cast<size_t>(thread->rank)] = thread.get();
    return list;
}

namespace {

// The first pass: what communication costs here, which accounts have noise at all, and what else is known only behind where it counts.
struct Learning {
    Archive archive;
    Model model;
    Lanes lanes{0, 0, 0, 0, {}};
    std::unique_ptr<Engine> engine;

    Learning(const Options& options, const Hooks& hooks, double parts, const std::set<Engine::Posting>& cancelled,
             const std::set<RankPair>& suspects, std::shared_ptr<const LockPlan> locks)
        : archive(options.trace), model(hooks.faults) {
        lanes.masks.assign(archive.definitions().accounts.size(), {});
        engine = std::make_unique<Engine>(archive, lanes, model, true, hooks.faults);
        engine->cancelled_postings = cancelled;
        engine->hand_over(std::move(locks));
        if (!engine->locks()) engine->lock_learning = std::make_unique<LockLearning>(engine->processes().size());
        if (!suspects.empty()) engine->farm_learning = std::make_unique<FarmLearning>(suspects, engine->processes().size());
        if (options.progress) engine->progress = [&options, parts](double part) { options.progress(part / parts); };
        engine->reverse_order = hooks.reverse_order;
        if (hooks.most_in_flight > 0) engine->most_in_flight = hooks.most_in_flight;
        run_pass(archive, *engine, options.group);
    }
};

std::unique_ptr<Learning> learn(const Options& options, const Hooks& hooks, double parts) {
    auto learning = std::make_unique<Learning>(options, hooks, parts, std::set<Engine::Posting>(), std::set<RankPair>(), nullptr);
    // Where receives were cancelled, what their channels taught depends on who was read first: again, with those left out. Where some
    // rank receives from anyone, what its partners do meanwhile tells whether they are a task farm: again, with an eye on that. So
    // with locks that were waited for: by whom and for whom is known only now, and what that costs not yet.
    const std::set<Engine::Posting> cancelled = learning->engine->cancelled_postings;
    const std::set<RankPair> suspects = farm_suspects(learning->engine->wildcards);
    std::shared_ptr<const LockPlan> locks;
    if (!learning->engine->exclusive_windows.empty() && !hooks.faults.no_hand_overs)
        locks = std::make_shared<LockPlan>(learning->engine->lock_learning->plan(learning->engine->exclusive_windows, hooks.faults));
    const bool locked_out = locks && locks->hand_overs > 0;
    if ((!cancelled.empty() && !hooks.faults.forget_cancelled) || !suspects.empty() || locked_out)
        learning = std::make_unique<Learning>(options, hooks, parts,
                                              hooks.faults.forget_cancelled ? std::set<Engine::Posting>() : cancelled, suspects, locks);
    else
        learning->engine->lock_plan = locks;
    return learning;
}

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

// The rank that ends last in the measured run, of several the lowest; null where no rank has events.
const Thread* last_rank(const Engine& engine, int32_t ranks) {
    const Thread* last = nullptr;
    for (const Thread* rank : rank_threads(engine, ranks))
        if (rank && (!last || rank->last > last->last)) last = rank;
    return last;
}

// Within the services' own list.
std::string short_name(const Account& account) {
    return account.service ? account.name.substr(names::service_prefix.size()) : display_name(account);
}

// What the ranks' ends say of the program's: its end is the latest of theirs.
struct Ends {
    int64_t first = 0, last = 0;
    std::vector<int64_t> accumulated;  // in lanes
};

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

// What the trace cannot show is not known better than so: messages cost now more, now less. True where that could matter as a whole, to
// the runtime or to what the noise cost: then they were in each other's way, and how much they would be without the noise is not in the
// trace.
bool widen_bounds(Result& result, const std::vector<const Thread*>& ranks) {
    constexpr double too_much = 0.02, too_much_of_cost = 1.0 / 3;  // of the runtime; of the noise's cost
    constexpr double deviations = 3;
    if (result.bounds_low_ns == result.measured_ns) return false;  // nothing was removed
    double variance = 0;
    int64_t spread = 0;
    for (const Thread* rank : ranks) {
        if (!rank) continue;
        variance = std::max(variance, rank->doubt.variance);
        spread = std::max(spread, rank->doubt.spread);
    }
    const auto measured = static_cast<double>(result.measured_ns);
    const auto by = static_cast<int64_t>(resolution * measured + deviations * std::sqrt(variance));
    result.bounds_low_ns = std::max<int64_t>(0, result.bounds_low_ns - by);
    result.bounds_high_ns = std::min(result.measured_ns, result.bounds_high_ns + by);
    const auto doubt = static_cast<double>(spread), cost = static_cast<double>(result.accumulated_noise_ns);
    return doubt > too_much * measured || (doubt > resolution * measured && doubt > too_much_of_cost * cost);
}

// Of all ranks, in the scenario of the bounds.
int64_t noise_removed(const Engine& learner, const Lanes& lanes) {
    int64_t sum = 0;
    for (const auto& thread : learner.threads())
        for (size_t i = 0; i < thread->local.size(); ++i)
            if (lanes.bounded()) sum += thread->local[i] & lanes.masks[i][lanes.low];
    return sum;
}

void fill_sources(Result& result, const Definitions& definitions, const Scenarios& scenarios, const std::vector<const Thread*>& ranks,
                  const Ends& ends) {
    std::vector<double> errors;
    const std::vector<int64_t> shares = scenarios.shares(ends.accumulated, &errors);
    std::vector<int64_t> share_of(definitions.accounts.size(), 0);
    for (size_t i = 0; i < shares.size(); ++i) share_of[scenarios.players()[i]] = shares[i];
    if (scenarios.sampled()) {
        const double worst = errors.empty() ? 0 : *std::max_element(errors.begin(), errors.end());
        result.warnings.push_back(fmt::format("more than {} sources have noise: the shares are sampled, standard error at most {:.0f} ns",
                                              Scenarios::most_exact, worst));
    }
    for (size_t account = 0; account < definitions.accounts.size(); ++account) {
        std::vector<int64_t> by_rank;
        for (const Thread* rank : ranks) by_rank.push_back(rank ? rank->local[account] : 0);
        const LocalNoise local = local_noise(by_rank);
        const int64_t alone = scenarios.alone(ends.accumulated, account);
        const bool service = definitions.accounts[account].service;
        if (service) result.services.push_back({short_name(definitions.accounts[account]), local, alone});
        if (service && !scenarios.removed(account)) continue;
        // A service that is removed because it was asked for shares in the sum as a source does, under its full name.
        result.sources.push_back({display_name(definitions.accounts[account]), local, alone, scenarios.without(ends.accumulated, account),
                                  share_of[account], amplification(alone, local)});
    }
}

void fill_ranks(Result& result, const Definitions& definitions, const Scenarios& scenarios, const std::vector<const Thread*>& ranks,
                const Ends& ends) {
    const size_t lanes = scenarios.lanes().count;
    for (size_t r = 0; r < ranks.size(); ++r) {
        RankResult rank;
        rank.rank = static_cast<int64_t>(r);
        if (const Thread* thread = ranks[r]) {
            const std::vector<int64_t> delay(thread->delay, thread->delay + lanes);
            rank.measured_ns = thread->last - ends.first;
            rank.accumulated_noise_ns = delay[scenarios.all()];
            rank.approximated_ns = rank.measured_ns - rank.accumulated_noise_ns;
            const std::vector<int64_t> shares = scenarios.shares(delay);
            for (size_t account = 0; account < definitions.accounts.size(); ++account) {
                const Account& of = definitions.accounts[account];
                const int64_t local = thread->local[account];
                if (of.service) rank.services[short_name(of)] = local;
                if (of.service && !scenarios.removed(account)) continue;
                if (!of.service) rank.local_noise_ns += local;
                RankSource source{local, scenarios.alone(delay, account), 0};
                for (size_t i = 0; i < shares.size(); ++i)
                    if (scenarios.players()[i] == account) source.share_ns = shares[i];
                rank.sources[display_name(of)] = source;
            }
            result.init_ns = std::max(result.init_ns, thread->init_ns);
            result.finalize_ns = std::max(result.finalize_ns, thread->finalize_ns);
        }
        result.per_rank.push_back(std::move(rank));
    }
    std::vector<int64_t> local;
    for (const RankResult& rank : result.per_rank) local.push_back(rank.local_noise_ns);
    result.local = local_noise(local);
}

void fill_culprits(Result& result, const Definitions& definitions, const Engine& learned) {
    for (const auto& [key, sums] : learned.culprits()) {
        const auto name = definitions.strings.find(key.culprit);
        const Account& account = definitions.accounts[key.account];
        result.culprits.push_back(
            {display_name(account), name == definitions.strings.end() ? "unknown" : name->second, key.rank, sums.first, sums.second});
    }
    std::stable_sort(result.culprits.begin(), result.culprits.end(),
                     [](const CulpritResult& a, const CulpritResult& b) { return a.local_ns > b.local_ns; });
}

struct InTurn {
    const Options& options;
    const Scenarios& scenarios;
    Model& model;
    const Faults& faults;
    std::function<void(Engine&)> tell;  // what the learning pass found
};

// A pass over the scenario "all" alone. Each process does it for all ranks: the order of locks is one.
std::shared_ptr<const LockTimes> had_in_turn(const InTurn& from) {
    Lanes alone;
    alone.count = alone.estimates = alone.low = alone.high = 2;
    alone.all = 1;
    for (const auto& mask : from.scenarios.lanes().masks) alone.masks.push_back({0, mask[from.scenarios.all()]});
    Archive archive(from.options.trace);
    Engine engine(archive, alone, from.model, false, from.faults);
    from.tell(engine);
    engine.locks()->take_turns(alone.all);
    run_pass(archive, engine);
    return std::make_shared<LockTimes>(engine.locks()->turns()->times());
}

}  // namespace

Result replay_with(const Options& options, const Hooks& hooks) {
    // Refused before the work is done rather than after it.
    std::unique_ptr<Approximated> approximated;
    if (!options.write_approximated.empty())
        approximated = std::make_unique<Approximated>(options.write_approximated, options.group, hooks.faults);
    std::vector<GivenSource> given;
    if (!options.inject.empty()) given = read_given_noise(options.inject);
    const double parts = approximated ? 3 : 2;

    std::optional<Model> foreign;
    if (!options.use_model.empty()) foreign = Model::given(read_model(options.use_model), hooks.faults);

    // First what there is to learn; then all scenarios in one pass.
    if (!given.empty()) check_given_noise(given, options.inject, Archive(options.trace).definitions().ranks);
    const std::unique_ptr<Learning> learning = learn(options, hooks, parts);
    Archive& archive = learning->archive;
    const Definitions& definitions = archive.definitions();
    Engine& learner = *learning->engine;
    if (options.group) gather_statistics(*options.group, learning->model, hooks.faults);
    Model& model = foreign ? *foreign : learning->model;
    const bool counter_only = learner.noise_records_at_leave > 20 * learner.noise_records_inside;
    const std::vector<std::string> unknown =
        foreign ? unknown_lines(learning->model.shown(), model, options.use_model) : std::vector<std::string>();
    if (!foreign && options.group)
        freeze_together(*options.group, model, !counter_only);
    else if (!foreign)
        model.freeze(!counter_only);

    std::vector<bool> has_noise(definitions.accounts.size(), false);
    for (const auto& thread : learner.threads())
        for (size_t i = 0; i < has_noise.size(); ++i) has_noise[i] = has_noise[i] || thread->local[i] > 0;
    const Scenarios scenarios(definitions.accounts, options.remove, has_noise, hooks.faults);

    const FarmPlan farms = learner.farm_learning ? find_farms(learner.farm_learning->evidence) : FarmPlan();
    std::shared_ptr<const LockTimes> lock_times;
    const auto tell = [&](Engine& engine) {  // what the passes before have found
        engine.counter_only = counter_only;
        engine.reverse_order = hooks.reverse_order;
        engine.place_late_noise(learner);
        if (!hooks.faults.forget_cancelled) engine.cancelled_postings = learner.cancelled_postings;
        engine.most_in_flight = learner.most_in_flight;
        engine.exclusive_windows = learner.exclusive_windows;
        engine.hand_over(learner.lock_plan);
        if (engine.locks()) engine.locks()->foresee(lock_times);
        engine.most_delay = noise_removed(learner, scenarios.lanes());
    };

    // Who has a lock when is found in the scenario's own time first.
    if (learner.lock_plan && learner.lock_plan->hand_overs > 0 && !scenarios.players().empty() && !hooks.faults.as_locked &&
        !hooks.faults.overtaken_go_on) {
        if (options.group) gather_late_noise(*options.group, learner);
        lock_times = had_in_turn({options, scenarios, model, hooks.faults, [&](Engine& engine) {
                                      tell(engine);
                                      engine.hand_out(farms);
                                  }});
    }

    Archive again(options.trace);
    Engine engine(again, scenarios.lanes(), model, false, hooks.faults);
    tell(engine);
    engine.hand_out(farms);
    if (options.progress) engine.progress = [&](double part) { options.progress((1 + part) / parts); };
    if (hooks.observer)
        engine.observer = [&](const Thread& thread, int64_t time, const int64_t* delay) { hooks.observer(scenarios, thread, time, delay); };
    if (approximated) approximated->begin(definitions);
    if (approximated && farms.empty()) {
        engine.observer = [&, all = scenarios.all(), further = std::move(engine.observer)](const Thread& thread, int64_t time,
                                                                                           const int64_t* delay) {
            approximated->note(thread, delay[all]);
            if (further) further(thread, time, delay);
        };
    }
    std::optional<Payment> payment;
    const Thread* payer = last_rank(learner, definitions.ranks);
    if (payer) {
        const Ends measured = program_ends(rank_threads(learner, definitions.ranks), 0);
        engine.pay(payer->index, payment.emplace(measured.first, measured.last, options.windows, scenarios.lanes().count));
    }
    std::optional<CostAnalysis> analysis;
    if (options.attribution) engine.record(analysis.emplace(scenarios, engine.threads().size(), options.group, hooks.faults).recorder());
    run_pass(again, engine, options.group);
    if (options.group && payment) gather_payment(*options.group, *payment);
    if (hooks.most_matches) *hooks.most_matches = engine.most_matches();

    const std::vector<const Thread*> ranks = rank_threads(engine, definitions.ranks);
    if (std::none_of(ranks.begin(), ranks.end(), [](const Thread* rank) { return rank != nullptr; }))
        throw InputError(fmt::format("{}: no rank has an Enter or a Leave; the trace is empty", archive.anchor()));
    const Ends ends = program_ends(ranks, scenarios.lanes().count);
    Result result;
    result.trace = options.trace;
    result.ranks = definitions.ranks;
    result.events = engine.events();
    result.measured_ns = ends.last - ends.first;
    result.accumulated_noise_ns = ends.accumulated[scenarios.all()];
    result.approximated_ns = result.measured_ns - result.accumulated_noise_ns;
    result.bounds_low_ns = result.measured_ns - ends.accumulated[scenarios.lanes().low];
    result.bounds_high_ns = result.measured_ns - ends.accumulated[scenarios.lanes().high];
    // Where work is handed out in another order, higher costs may end earlier, or the whole later than measured: the bounds hold it.
    result.bounds_low_ns = std::min(result.bounds_low_ns, result.approximated_ns);
    result.bounds_high_ns = std::max(result.bounds_high_ns, result.approximated_ns);
    const bool contended = widen_bounds(result, ranks);
    result.bounds_high_ns = std::max(result.bounds_high_ns, result.approximated_ns);
    if (scenarios.players().empty()) result.bounds_low_ns = result.bounds_high_ns = result.measured_ns;  // nothing was removed
    result.provenance = definitions.properties;
    result.model = model.learned();
    result.warnings = provenance_lines(definitions.properties, definitions.accounts);
    fill_sources(result, definitions, scenarios, ranks, ends);
    fill_ranks(result, definitions, scenarios, ranks, ends);
    fill_culprits(result, definitions, learner);
    result.amplification = amplification(result.accumulated_noise_ns, result.local);
    if (payer) {
        const int64_t* end = engine.threads()[payer->index]->delay;
        result.attribution =
            attribute(definitions, scenarios, *payment, ends.accumulated, {end, end + scenarios.lanes().count}, hooks.faults.cells_alone);
        result.attribution.paid_on = payer->rank;
        if (analysis)
            result.costs = analysis->finish({definitions, engine, *payment, learner.culprits(), ends.first, result.accumulated_noise_ns},
                                            options.costliest, result.attribution, hooks.slack);
    }

    const auto append = [&](const std::vector<std::string>& lines) {
        result.warnings.insert(result.warnings.end(), lines.begin(), lines.end());
    };
    if (const std::string line = oversubscription_line(result); !line.empty()) result.warnings.push_back(line);
    append(definitions.warnings);
    append(learner.warnings);
    append(unknown);
    if (definitions.accounts.empty())
        result.warnings.push_back("the trace has no noise metrics (os:…): nothing was removed, accumulated noise is 0");
    else if (std::none_of(has_noise.begin(), has_noise.end(), [](bool has) { return has; }))
        result.warnings.push_back("no noise was recorded: its counters never moved");
    if (engine.counter_only)
        result.warnings.push_back(
            "the trace has noise counters at MPI events only: noise inside a call counts by how much longer its tail was than usual");
    int64_t missing = 0, other_threads = 0, mpi_threads = 0;
    for (const Thread* rank : ranks) missing += rank == nullptr;
    for (const auto& thread : engine.threads()) {
        other_threads += !thread->carries_rank;
        mpi_threads += !thread->carries_rank && thread->has_mpi;
    }
    if (missing > 0) result.warnings.push_back(fmt::format("{} of {} ranks have no events in the trace", missing, definitions.ranks));
    if (other_threads + definitions.other_locations > 0)
        result.warnings.push_back(
            fmt::format("{} locations besides the ranks' MPI threads were only counted", other_threads + definitions.other_locations));
    if (mpi_threads > 0)
        result.warnings.push_back(fmt::format(
            "conditional: {} further threads call MPI; how threads of a process wait for each other is not in the trace", mpi_threads));
    if (approximated) {
        std::vector<bool> removed(definitions.accounts.size(), false);
        std::string what;
        for (size_t i = 0; i < removed.size(); ++i) {
            removed[i] = scenarios.removed(i);
            if (removed[i]) what += (what.empty() ? "" : ", ") + definitions.accounts[i].name;
        }
        // Work that goes to somebody else is no timeline of the ranks of the trace: each would go on where another one was.
        Archive kept_archive(options.trace);
        Engine kept(kept_archive, scenarios.lanes(), model, false, hooks.faults);
        if (!farms.empty()) {
            tell(kept);
            kept.observer = [&](const Thread& thread, int64_t, const int64_t* delay) {
                approximated->note(thread, delay[scenarios.all()]);
            };
            run_pass(kept_archive, kept, options.group);
            result.warnings.push_back(
                "the approximated timeline written keeps the measured order in which work was handed out; the figures here do not");
        }
        approximated->write(archive.anchor(), farms.empty() ? engine : kept, definitions, removed,
                            fmt::format("removed: {}; from {}", what.empty() ? "nothing" : what, archive.anchor()),
                            options.progress ? [&](double part) { options.progress((2 + part) / 3); } : std::function<void(double)>(),
                            result.warnings);
    }
    if (!given.empty()) result.injected = inject({options, given, model, learner, counter_only, hooks.faults, ends.first, ends.last});
    if (result.injected) append(result.injected->warnings);
    if (options.progress) options.progress(1);
    append(flaw_lines(engine.flaws(), learning->model.clock_disorder_ns));
    for (const std::string& line :
         {unseen_line(engine.unseen_calls, definitions, "may wait for others in a way that the trace does not tell"),
          unseen_line(engine.lock_calls, definitions, "may have waited for another's unlock")})
        if (!line.empty()) result.warnings.push_back(line);
    const auto& flaws = engine.flaws();
    if (contended)
        result.warnings.push_back(
            "conditional: messages of one size took now more, now less time, without noise; in each other's way they may take others "
            "without it");
    result.conditional = contended || mpi_threads > 0 || flaws[static_cast<size_t>(Flaw::any_source)].count > 0 ||
                         flaws[static_cast<size_t>(Flaw::polling)].count > 0 || !engine.unseen_calls.empty() ||
                         flaws[static_cast<size_t>(Flaw::locked_out)].count > 0 || !engine.lock_calls.empty() ||
                         flaws[static_cast<size_t>(Flaw::uncertain_order)].count > 0;
    if (result.injected) result.injected->conditional = result.injected->conditional || result.conditional;
    return result;
}

Result replay(const Options& options) {
    return replay_with(options, {});
}

}  // namespace polter::replay
