// SPDX-License-Identifier: BSD-3-Clause
#include "replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "approximated.hpp"
#include "assemble.hpp"
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

// Of all ranks, in the scenario of the bounds.
int64_t noise_removed(const Engine& learner, const Lanes& lanes) {
    int64_t sum = 0;
    for (const auto& thread : learner.threads())
        for (size_t i = 0; i < thread->local.size(); ++i)
            if (lanes.bounded()) sum += thread->local[i] & lanes.masks[i][lanes.low];
    return sum;
}

struct InTurn {
    const Options& options;
    const Scenarios& scenarios;
    Model& model;
    const Faults& faults;
    std::function<void(Engine&)> tell;  // what the learning pass found
    std::function<void(double)> progress;
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
    engine.progress = from.progress;
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
    const auto progress = [&](double from, double to) -> std::function<void(double)> {
        if (!options.progress) return {};
        return [&options, parts, from, to](double part) { options.progress((from + part * (to - from)) / parts); };
    };

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
        const auto prepare = [&](Engine& engine) {
            tell(engine);
            engine.hand_out(farms);
        };
        lock_times = had_in_turn({options, scenarios, model, hooks.faults, prepare, progress(1, 1.5)});
    }

    Archive again(options.trace);
    Engine engine(again, scenarios.lanes(), model, false, hooks.faults);
    tell(engine);
    engine.hand_out(farms);
    engine.progress = progress(lock_times ? 1.5 : 1, 2);
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

    const Replayed replayed{archive.anchor(), definitions, scenarios, learner, engine, learning->model.clock_disorder_ns};
    Result result = assemble(replayed, options, model);
    if (payer) {
        const int64_t* end = engine.threads()[payer->index]->delay;
        result.attribution = attribute(definitions, scenarios, *payment, replayed.ends.accumulated, {end, end + scenarios.lanes().count},
                                       hooks.faults.cells_alone);
        result.attribution.paid_on = payer->rank;
        if (analysis)
            result.costs =
                analysis->finish({definitions, engine, *payment, learner.culprits(), replayed.ends.first, result.accumulated_noise_ns},
                                 options.costliest, result.attribution, hooks.slack);
    }
    tell_what_was_read(result, replayed, unknown);
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
                            fmt::format("removed: {}; from {}", what.empty() ? "nothing" : what, archive.anchor()), progress(2, 3),
                            result.warnings);
    }
    if (!given.empty())
        result.injected = inject({options, given, model, learner, counter_only, hooks.faults, replayed.ends.first, replayed.ends.last});
    if (result.injected) result.warnings.insert(result.warnings.end(), result.injected->warnings.begin(), result.injected->warnings.end());
    if (options.progress) options.progress(1);
    tell_what_is_open(result, replayed);
    if (result.injected) result.injected->conditional = result.injected->conditional || result.conditional;
    return result;
}

Result replay(const Options& options) {
    return replay_with(options, {});
}

}  // namespace polter::replay
