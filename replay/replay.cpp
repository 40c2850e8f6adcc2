// SPDX-License-Identifier: BSD-3-Clause
#include "replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "inject.hpp"
#include "learning.hpp"
#include "passes.hpp"
#include "replay/attribution/cost_analysis.hpp"
#include "replay/model/model_file.hpp"
#include "replay/parallel/exchange.hpp"
#include "replay/parallel/results.hpp"
#include "replay/result/assemble.hpp"
#include "replay/rewrite/noise_free_archive.hpp"
#include "replay/rules/mpi_rules.hpp"
#include "replay/timeline/close_up.hpp"
#include "replay/timeline/detours.hpp"
#include "replay/timeline/levels.hpp"
#include "replay/timeline/ways.hpp"
#include "replay/trace/conventions.hpp"
#include "testing.hpp"

namespace polter::replay {

namespace {

// Of all ranks, in the scenario of the bounds.
int64_t noise_removed(const Engine& learner, const Lanes& lanes) {
    int64_t sum = 0;
    for (const auto& thread : learner.threads())
        for (size_t i = 0; i < thread->local.size(); ++i)
            if (lanes.bounded()) sum += thread->local[i] & lanes.masks[i][lanes.low];
    return sum;
}

std::vector<bool> accounts_with_noise(const Engine& learner, size_t accounts) {
    std::vector<bool> has_noise(accounts, false);
    for (const auto& thread : learner.threads())
        for (size_t i = 0; i < accounts; ++i) has_noise[i] = has_noise[i] || thread->local[i] > 0;
    return has_noise;
}

// One run of the replay: its stages, in the order in which they are called, and what each leaves for those behind it.
class Stages : public WhatIfs {
  public:
    // Refuses what can be refused before the work is done.
    Stages(const Options& options, const Hooks& hooks) : options_(options), hooks_(hooks) {
        if (!options.write_approximated.empty())
            approximated_ = std::make_unique<Approximated>(options.write_approximated, options.group, hooks.faults);
        if (!options.inject.empty()) injected_ = read_injected_noise(options.inject);
        if (!options.use_model.empty()) foreign_ = Model::given(read_model(options.use_model), hooks.faults);
        if (!injected_.empty()) check_injected_noise(injected_, options.inject, Archive(options.trace).definitions().ranks);
        parts_ = approximated_ || options.timeline ? 3 : 2;
        if (options.timeline && options.group) throw InputError("the timeline is made by one process only: run polter without a launcher");
    }

    void learn();
    void order_locks();
    void follow_links();
    void replay_scenarios();
    Result result();
    void attribute_to(Result&);
    void draw(Result&);
    void write_approximated(Result&);
    void inject_into(Result&);
    void conclude(Result&);

    std::vector<int64_t> savings(const std::vector<Scenario>&, const AtEvent&) override;
    int64_t added_by(const std::string& file, const AtEvent&) override;
    Saving bounded(const Scenario&) override;
    Programs programs(uint64_t most_calls) override;

  private:
    Injected injected_by(const std::vector<InjectedSource>&, const AtEvent&);
    Observers reporting_to(const AtEvent&) const;
    int64_t noise_of(const Scenario&) const;
    void what_if(const Lanes&, std::shared_ptr<const AccountSplit>, int64_t most_delay, Observers,
                 const std::function<void(const Engine&)>& then);
    const Definitions& definitions() const { return learning_->archive.definitions(); }
    const Engine& learner() const { return *learning_->engine; }
    Model& model() { return foreign_ ? *foreign_ : learning_->model; }
    std::function<void(double)> progress(double from, double to) const;
    EngineFacts facts() const;
    LearnedRules learned_rules(FarmPlan farms = {}) const;
    void learn_with(const std::shared_ptr<const LinkPlan>&);
    LockTimes locks_in_turn(Lanes alone, EngineFacts facts, std::function<void(double)> progress);
    void watch();

    const Options& options_;
    const Hooks& hooks_;
    double parts_ = 2, done_ = 1;  // of the work, for the progress; done: before the pass over all scenarios
    std::unique_ptr<Approximated> approximated_;
    std::vector<InjectedSource> injected_;
    std::optional<Model> foreign_;  // given, not learned

    std::unique_ptr<Learning> learning_;
    bool counter_only_ = false;
    std::vector<Warning> unknown_;  // to a given model
    std::optional<Scenarios> scenarios_;
    FarmPlan farms_;
    std::shared_ptr<const LockForesight> lock_foresight_;
    std::shared_ptr<const LinkPlan> links_;     // none: no links are shared
    std::shared_ptr<const Postings> postings_;  // of all threads, where this process follows them all

    std::optional<Archive> archive_;
    std::optional<Engine> engine_;
    const Thread* payer_ = nullptr;
    std::optional<Payment> payment_;
    std::optional<CostAnalysis> analysis_;
    std::optional<Levels> levels_;
    std::optional<Replayed> replayed_;
};

std::function<void(double)> Stages::progress(double from, double to) const {
    if (!options_.progress) return {};
    return [this, from, to](double part) { options_.progress((from + part * (to - from)) / parts_); };
}

// What the stages before have found: of the engine, and of the rules.
EngineFacts Stages::facts() const {
    const Ends ends = program_ends(rank_threads(learner(), definitions().ranks), 0);
    return {.cancelled_postings = hooks_.faults.forget_cancelled ? std::set<Posting>() : learner().cancelled_postings(),
            .postings = postings_ ? postings_ : learner().facts().postings,
            .late_noise = learner().late_noise(),
            .counter_only = counter_only_,
            .most_delay = noise_removed(learner(), scenarios_->lanes()),
            .first = ends.first,
            .last = ends.last,
            .reverse_order = hooks_.reverse_order,
            .kept = learner().facts().kept,
            .most_in_flight = learner().facts().most_in_flight};
}

LearnedRules Stages::learned_rules(FarmPlan farms) const {
    return {.exclusive_windows = learning_->rules->learned.exclusive_windows,
            .farm_suspects = {},
            .farms = std::move(farms),
            .locks = learning_->locks,
            .accesses = learning_->accesses,
            .foresight = lock_foresight_,
            .calls = learning_->rules->learned.calls,
            .turns_in = {},
            .links = links_};
}

void Stages::learn() {
    learn_with(nullptr);  // where messages share their hosts' links, that is no part of what they cost: again, without it
    if (const auto& links = learning_->rules->links)
        links_ = links->plan(learning_->model, learner().threads().size(), search_together(options_.group));
    if (links_) learn_with(links_);
}

void Stages::learn_with(const std::shared_ptr<const LinkPlan>& links) {
    learning_ = polter::replay::learn(options_, hooks_, parts_, links);
    if (options_.group) gather_statistics(*options_.group, learning_->model, hooks_.faults);
    counter_only_ = learner().noise_placement().counters_only();
    if (foreign_) unknown_ = unknown_lines(learning_->model.shown(), *foreign_, options_.use_model);
    const auto mpi = definitions().properties.find("MPI");
    const std::string version = mpi == definitions().properties.end() ? "" : mpi->second;
    const Library library = library_named(options_.mpi_algorithms, version).value_or(Library::unknown);
    if (options_.group)
        freeze_together(*options_.group, learning_->model, !counter_only_, library);
    else
        learning_->model.freeze(!counter_only_, {.library = library});
    if (foreign_) foreign_->complete(learning_->model.learned());
    const std::vector<Account>& accounts = definitions().accounts;
    scenarios_.emplace(accounts, options_.remove, accounts_with_noise(learner(), accounts.size()), hooks_.faults);
    if (learning_->rules->farm_learning) farms_ = find_farms(learning_->rules->farm_learning->evidence);
}

// Who has a lock when is found in each scenario's own time, by a pass over it alone. Each process does it for all ranks: the order of
// locks is one.
void Stages::order_locks() {
    if (!learning_->locks || learning_->locks->grants == 0 || scenarios_->players().empty() || hooks_.faults.as_locked ||
        hooks_.faults.later_requests_keep_time)
        return;
    if (options_.group) {
        gather_late_noise(*options_.group, *learning_->engine);
        postings_ = gather_postings(*options_.group, learner());
    }
    const std::vector<size_t> lanes = hooks_.faults.turns_of_all ? std::vector<size_t>{scenarios_->all()} : scenarios_->lanes_to_order();
    auto foresight = std::make_shared<LockForesight>();
    for (const size_t lane : lanes) {
        const auto part = [&](size_t done) { return 1 + 0.5 * static_cast<double>(done) / static_cast<double>(lanes.size()); };
        const size_t done = foresight->size();
        std::vector<std::vector<int64_t>> masks;
        for (const auto& mask : scenarios_->lanes().masks) masks.push_back({0, mask[lane]});
        (*foresight)[lane] = locks_in_turn(one_scenario(std::move(masks), false), facts(), progress(part(done), part(done + 1)));
    }
    lock_foresight_ = foresight;
    done_ = 1.5;
}

LockTimes Stages::locks_in_turn(Lanes alone, EngineFacts facts, std::function<void(double)> progress) {
    Archive archive(options_.trace);
    LearnedRules learned = learned_rules(farms_);
    learned.turns_in = alone.all;
    auto semantics = std::make_unique<MpiRules>(std::move(learned));
    const MpiRules& rules = *semantics;
    Engine engine(archive, alone, model(), false, std::move(semantics), std::move(facts), hooks_.faults);
    engine.observe({.at_event = {}, .at_noise = {}, .progress = std::move(progress)});
    run_pass(archive, engine);
    return rules.locks->turns()->times();
}

// When transfers begin decides how they share links, and that when others begin: pass after pass, until the cost of the noise stays.
void Stages::follow_links() {
    constexpr int most_passes = 10;
    constexpr int64_t of_noise = 1000, of_run_time = 10'000;  // a change by less than such a part of them is none
    int64_t before = INT64_MAX;
    for (int passes = 0; links_ && passes < most_passes; ++passes) {
        Archive archive(options_.trace);
        auto semantics = std::make_unique<MpiRules>(learned_rules(farms_));
        const MpiRules& rules = *semantics;
        Engine engine(archive, scenarios_->lanes(), model(), false, std::move(semantics), facts(), hooks_.faults);
        engine.observe({.at_event = {}, .at_noise = {}, .progress = progress(done_, done_ + (2 - done_) / 6)});
        done_ += (2 - done_) / 6;  // how many passes there will be is not known
        run_pass(archive, engine, options_.group);
        const std::shared_ptr<const LinkPlan> next = rules.links->next();
        if (!next) return;
        links_ = next;
        const auto ranks = rank_threads(engine, definitions().ranks);
        const Ends ends = program_ends(ranks, scenarios_->lanes().count);
        const int64_t noise = ends.accumulated[scenarios_->all()];
        if (std::abs(noise - before) <= std::max(std::abs(noise) / of_noise, (ends.last - ends.first) / of_run_time)) return;
        before = noise;
    }
}

// Attaches the observers.
void Stages::watch() {
    const size_t lanes = scenarios_->lanes().count;
    Observers observers{.at_event = {}, .at_noise = {}, .progress = progress(done_, 2)};
    if (hooks_.observer)
        observers.at_event = [this](const Thread& thread, int64_t time, const int64_t* delay) {
            hooks_.observer(*scenarios_, thread, time, delay);
        };
    if (approximated_) {
        std::vector<bool> removed;
        for (size_t account = 0; account < definitions().accounts.size(); ++account) removed.push_back(scenarios_->removed(account));
        approximated_->begin(definitions(), std::move(removed));
        if (farms_.empty()) observers = approximated_->following(std::move(observers), scenarios_->all());
    }
    if (options_.timeline) {
        const Ends measured = program_ends(rank_threads(learner(), definitions().ranks), 0);
        levels_.emplace(static_cast<size_t>(definitions().ranks), engine_->threads().size(), definitions().accounts.size(), measured.first,
                        measured.last, scenarios_->all());
        observers = levels_->following(std::move(observers));
    }
    engine_->observe(std::move(observers));
    payer_ = last_rank(learner(), definitions().ranks);
    if (payer_) {
        const Ends measured = program_ends(rank_threads(learner(), definitions().ranks), 0);
        engine_->pay(payer_->index, payment_.emplace(measured.first, measured.last, options_.windows, lanes));
    }
    if (options_.attribution)
        engine_->record(analysis_.emplace(*scenarios_, engine_->threads().size(), options_.group, hooks_.faults).recorder());
}

void Stages::replay_scenarios() {
    archive_.emplace(options_.trace);
    LearnedRules learned = learned_rules(farms_);
    engine_.emplace(*archive_, scenarios_->lanes(), model(), false, std::make_unique<MpiRules>(std::move(learned)), facts(), hooks_.faults);
    watch();
    run_pass(*archive_, *engine_, options_.group);
    if (options_.group && payment_) gather_payment(*options_.group, *payment_);
    if (hooks_.most_matches) *hooks_.most_matches = engine_->most_matches();
}

Result Stages::result() {
    replayed_.emplace(learning_->archive.anchor(), definitions(), *scenarios_, learner(), *engine_, learning_->model.clock_disorder_ns);
    Result result = assemble(*replayed_, options_, model());
    tell_what_was_read(result, *replayed_, unknown_);
    return result;
}

void Stages::attribute_to(Result& result) {
    if (!payer_) return;
    const Ends& ends = replayed_->ends;
    const int64_t* end = engine_->threads()[payer_->index]->delay;
    result.attribution = attribute(definitions(), *scenarios_, *payment_, ends.accumulated, {end, end + scenarios_->lanes().count},
                                   hooks_.faults.cells_alone);
    result.attribution.paid_on = payer_->rank;
    if (analysis_)
        result.costs =
            analysis_->finish({definitions(), *engine_, *payment_, learner().culprits(), ends.first, result.accumulated_noise_ns},
                              options_.costliest, result.attribution, hooks_.slack);
}

// The levels of detail, from the pass over all scenarios; then what only the event graph tells; then a pass for the close-ups.
void Stages::draw(Result& result) {
    if (!levels_ || !analysis_ || !result.costs) return;
    const Ends& ends = replayed_->ends;
    Timeline& timeline = result.timeline.emplace(levels_->finish());
    WaysOptions back{.first = ends.first, .span = timeline.span_ns, .ranks = {}, .before_end = 0, .after_end = 0};
    for (const auto& thread : engine_->threads()) back.ranks.push_back(thread->rank);
    back.before_end = analysis_->last_node(*engine_, 0);
    back.after_end = analysis_->last_node(*engine_, 1);
    follow_back([this](const EventGraph::Visit& visit) { analysis_->backward(visit); }, back, timeline.ways);

    const std::vector<Stretch> stretches =
        stretches_around(result.costs->costliest, timeline.ways, timeline.span_ns, result.events, static_cast<size_t>(result.ranks));
    timeline.whole = stretches.size() == 1 && stretches.front() == Stretch{0, timeline.span_ns};
    CloseUps close_ups(stretches, engine_->threads().size(), ends.first, scenarios_->all());
    Archive archive(options_.trace);
    LearnedRules learned = learned_rules(farms_);
    Engine engine(archive, scenarios_->lanes(), model(), false, std::make_unique<MpiRules>(std::move(learned)), facts(), hooks_.faults);
    engine.observe(close_ups.following({.at_event = {}, .at_noise = {}, .progress = progress(2, 3)}));
    engine.follow_regions();
    run_pass(archive, engine);
    timeline.close_ups = close_ups.finish();
    result.definitions = std::make_shared<const Definitions>(definitions());
}

void Stages::write_approximated(Result& result) {
    if (!approximated_) return;
    std::string what;
    for (size_t account = 0; account < definitions().accounts.size(); ++account)
        if (scenarios_->removed(account)) what += (what.empty() ? "" : ", ") + definitions().accounts[account].name;
    // Work that goes to somebody else is no timeline of the ranks of the trace: each would go on where another one was.
    Archive kept_archive(options_.trace);
    Engine kept(kept_archive, scenarios_->lanes(), model(), false, std::make_unique<MpiRules>(learned_rules()), facts(), hooks_.faults);
    if (!farms_.empty()) {
        kept.observe(approximated_->following({}, scenarios_->all()));
        run_pass(kept_archive, kept, options_.group);
        result.warnings.push_back(warning(Flaw::work_order_kept));
    }
    const std::string anchor = learning_->archive.anchor();
    approximated_->write(anchor, farms_.empty() ? *engine_ : kept, definitions(),
                         fmt::format("removed: {}; from {}", what.empty() ? "nothing" : what, anchor), progress(2, 3), result.warnings);
}

Injected Stages::injected_by(const std::vector<InjectedSource>& sources, const AtEvent& at_event) {
    const Ends& ends = replayed_->ends;
    EngineFacts known = facts();
    known.most_delay = 0;  // nothing is removed
    LearnedRules rules = learned_rules();
    rules.foresight = nullptr;  // of the removing scenarios
    return inject(
        {options_, sources, model(), std::move(known), std::move(rules), !farms_.empty(), hooks_.faults, ends.first, ends.last, at_event});
}

void Stages::inject_into(Result& result) {
    if (injected_.empty()) return;
    result.injected = injected_by(injected_, {});
    const std::vector<Warning>& warnings = result.injected->warnings;
    result.warnings.insert(result.warnings.end(), warnings.begin(), warnings.end());
}

void Stages::conclude(Result& result) {
    if (options_.progress) options_.progress(1);
    result.conditional = result.conditional || (links_ && links_->others);
    tell_what_is_open(result, *replayed_);
    if (const size_t scenarios = scenarios_->lanes().estimates - 1; lock_foresight_ && lock_foresight_->size() < scenarios)
        result.warnings.push_back(warning(Flaw::sampled_locks, lock_foresight_->size(), scenarios));
    if (links_)
        result.warnings.push_back(warning(
            Flaw::shared_links, std::count_if(links_->measured.begin(), links_->measured.end(), [](int32_t ns) { return ns > 0; })));
    if (result.injected) result.injected->conditional = result.injected->conditional || result.conditional;
}

// Of all ranks, at most: where a culprit is meant, threads that carry no rank count with all their noise.
int64_t Stages::noise_of(const Scenario& scenario) const {
    int64_t sum = 0;
    for (const Removal& removal : scenario) {
        const auto concerned = [&](int32_t rank) { return removal.ranks.empty() || removal.ranks.contains(rank); };
        for (size_t account = 0; account < definitions().accounts.size(); ++account) {
            if (display_name(definitions().accounts[account]) != removal.source) continue;
            for (const auto& thread : learner().threads())
                if (concerned(thread->rank) && (removal.culprits.empty() || !thread->carries_rank)) sum += thread->local[account];
            for (const auto& [key, sums] : learner().culprits())
                if (key.account == account && concerned(key.rank) && removal.culprits.contains(definitions().culprit_name(key.culprit)))
                    sum += sums.first;
        }
    }
    return sum;
}

void Stages::what_if(const Lanes& lanes, std::shared_ptr<const AccountSplit> split, int64_t most_delay, Observers observers,
                     const std::function<void(const Engine&)>& then) {
    Archive archive(options_.trace);
    LearnedRules learned = learned_rules(farms_);
    learned.foresight = nullptr;  // of other scenarios
    EngineFacts known = facts();
    known.split = std::move(split);
    known.most_delay = most_delay;
    if (lanes.bounded() && lock_foresight_) {
        Lanes alone = lanes;
        alone.count = alone.low = alone.high = alone.estimates;
        learned.foresight = std::make_shared<LockForesight>(LockForesight{{lanes.all, locks_in_turn(alone, known, {})}});
    }
    Engine engine(archive, lanes, model(), false, std::make_unique<MpiRules>(std::move(learned)), std::move(known), hooks_.faults);
    engine.observe(std::move(observers));
    run_pass(archive, engine);
    then(engine);
}

// Lane 0 removes nothing.
Observers Stages::reporting_to(const AtEvent& at_event) const {
    if (!at_event) return {};
    return {.at_event =
                [&at_event, first = replayed_->ends.first](const Thread& thread, int64_t time, const int64_t* delay) {
                    if (thread.carries_rank) at_event(thread.rank, time - first, delay + 1);
                },
            .at_noise = {},
            .progress = {}};
}

std::vector<int64_t> Stages::savings(const std::vector<Scenario>& scenarios, const AtEvent& at_event) {
    std::vector<int64_t> saved;
    // A pass reads the trace once however many lanes it has, but each waiting message keeps a vector of them.
    constexpr size_t most_lanes = scenarios_a_pass;
    for (size_t begin = 0; begin < scenarios.size(); begin += most_lanes) {
        const auto first = scenarios.begin() + static_cast<std::ptrdiff_t>(begin);
        const std::vector<Scenario> some(first, first + static_cast<std::ptrdiff_t>(std::min(most_lanes, scenarios.size() - begin)));
        const auto split = std::make_shared<AccountSplit>(definitions(), some);
        Lanes lanes;
        lanes.count = lanes.estimates = lanes.low = lanes.high = some.size() + 1;
        lanes.masks = split->masks();
        int64_t most = 0;
        for (const Scenario& scenario : some) most = std::max(most, noise_of(scenario));
        what_if(lanes, split, most, reporting_to(at_event), [&](const Engine& engine) {
            const Ends ends = program_ends(rank_threads(engine, definitions().ranks), lanes.count);
            saved.insert(saved.end(), ends.accumulated.begin() + 1, ends.accumulated.end());
        });
    }
    return saved;
}

int64_t Stages::added_by(const std::string& file, const AtEvent& at_event) {
    const std::vector<InjectedSource> sources = read_injected_noise(file);
    check_injected_noise(sources, file, definitions().ranks);
    return injected_by(sources, at_event).added_ns;
}

Saving Stages::bounded(const Scenario& scenario) {
    const auto split = std::make_shared<AccountSplit>(definitions(), std::vector<Scenario>{scenario});
    const Lanes lanes = one_scenario(split->masks(), true);
    Saving saving;
    const int64_t noise = noise_of(scenario);
    const Ends whole = program_ends(rank_threads(learner(), definitions().ranks), 0);
    Detours detours(lanes.masks, learner().threads().size(), whole.first, whole.last);
    what_if(lanes, split, noise, detours.following(), [&](const Engine& engine) {
        const auto ranks = rank_threads(engine, definitions().ranks);
        const Ends ends = program_ends(ranks, lanes.count);
        const Bounds bounds = bounds_of(ends, lanes, ranks, noise > 0);
        const int64_t measured = ends.last - ends.first;
        saving = {ends.accumulated[lanes.all], measured - bounds.high_ns, measured - bounds.low_ns, 0, bounds.contention};
        saving.most_ns = detours.most(saving.high_ns);
    });
    return saving;
}

Programs Stages::programs(uint64_t most_calls) {
    ProgramRecorder recorder(definitions().ranks, most_calls);
    std::vector<std::vector<int64_t>> masks;
    for (const auto& mask : scenarios_->lanes().masks) masks.push_back({0, mask[scenarios_->all()]});
    const Lanes lanes = one_scenario(std::move(masks), false);
    Archive archive(options_.trace);
    auto rules = std::make_unique<MpiRules>(learned_rules());
    rules->program = &recorder;
    Engine engine(archive, lanes, model(), false, std::move(rules), facts(), hooks_.faults);
    const auto noise = [&](const Thread& thread, const PendingNoise& record, int64_t begin, int64_t end) {
        recorder.noise(engine, thread, record, begin, end);
    };
    engine.observe({.at_event = {}, .at_noise = noise, .progress = {}});
    run_pass(archive, engine);
    return recorder.finish(engine);
}

}  // namespace

Result replay_with(const Options& options, const Hooks& hooks, const std::function<void(const Result&, WhatIfs&)>& ask) {
    Stages stages(options, hooks);
    stages.learn();
    stages.order_locks();
    stages.follow_links();
    stages.replay_scenarios();
    Result result = stages.result();
    stages.attribute_to(result);
    stages.draw(result);
    stages.write_approximated(result);
    stages.inject_into(result);
    stages.conclude(result);
    if (ask) ask(result, stages);
    return result;
}

Result replay(const Options& options) {
    return replay_with(options, {});
}

Result replay(const Options& options, const std::function<void(const Result&, WhatIfs&)>& ask) {
    return replay_with(options, {}, ask);
}

}  // namespace polter::replay
