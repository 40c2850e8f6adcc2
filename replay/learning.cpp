// SPDX-License-Identifier: BSD-3-Clause
#include "learning.hpp"

#include "passes.hpp"
#include "replay/engine/reading/kept_events.hpp"
#include "replay/parallel/group.hpp"
#include "replay/trace/metric_value.hpp"

namespace polter::replay {

Learning::Learning(const Options& options, const Hooks& hooks, double parts, EngineFacts facts, LearnedRules learned)
    : archive(options.trace), model(hooks.faults) {
    lanes.masks.assign(archive.definitions().accounts.size(), {});
    model.clock_step_ns = ticks_in_ns(1, archive.definitions().ticks_per_second);
    facts.reverse_order = hooks.reverse_order;
    if (hooks.most_in_flight > 0) facts.most_in_flight = hooks.most_in_flight;
    learned.calls = message_calls(archive.definitions());
    auto semantics = std::make_unique<MpiRules>(std::move(learned));
    rules = semantics.get();
    engine = std::make_unique<Engine>(archive, lanes, model, true, std::move(semantics), std::move(facts), hooks.faults);
    if (options.progress)
        engine->observe({.at_event = {}, .at_noise = {}, .progress = [&options, parts](double part) { options.progress(part / parts); }});
    run_pass(archive, *engine, options.group, options.decode_ahead ? &hooks.decoding : nullptr);
}

std::unique_ptr<Learning> learn(const Options& options, const Hooks& hooks, double parts, std::shared_ptr<const LinkPlan> links) {
    EngineFacts known;
    known.kept = std::make_shared<KeptEvents>(options.keep_bytes.value_or(default_kept_bytes(options.group ? options.group->size() : 1)));
    auto learning = std::make_unique<Learning>(options, hooks, parts, known, LearnedRules{.links = links});
    // Where receives were cancelled, what their channels taught depends on who was read first: again, with those left out. Where
    // postings do not say what they are for, their completions do: again, with that. Where some
    // rank receives from anyone, what its partners do meanwhile tells whether they are a task farm: again, with an eye on that. So
    // with locks that were waited for: by whom and for whom is known only now, and what that costs not yet.
    if (!hooks.faults.forget_cancelled) known.cancelled_postings = learning->engine->cancelled_postings();
    if (learning->engine->has_learned_postings() && !hooks.faults.forget_postings) known.postings = learning->engine->learned_postings();
    const std::set<RankPair> suspects = farm_suspects(learning->rules->wildcards);
    const std::set<uint32_t>& exclusive = learning->rules->learned.exclusive_windows;
    std::shared_ptr<const LockPlan> locks;
    if (!exclusive.empty() && !hooks.faults.no_lock_grants)
        locks = std::make_shared<LockPlan>(learning->rules->lock_learning->plan(exclusive, hooks.faults));
    const bool locked_out = locks && locks->grants > 0;
    if (!known.cancelled_postings.empty() || known.postings || !suspects.empty() || locked_out)
        learning =
            std::make_unique<Learning>(options, hooks, parts, std::move(known),
                                       LearnedRules{.exclusive_windows = {}, .farm_suspects = suspects, .locks = locks, .links = links});
    learning->locks = locks;
    if (!hooks.faults.no_access_waits)
        if (AccessPlan plan = learning->rules->access_learning->plan(); plan.number > 0)
            learning->accesses = std::make_shared<AccessPlan>(std::move(plan));
    return learning;
}

}  // namespace polter::replay
