// SPDX-License-Identifier: BSD-3-Clause
#include "results.hpp"

#include "replay/engine/engine.hpp"
#include "replay/graph/end_delay.hpp"
#include "replay/graph/recorder.hpp"

namespace polter::replay {

Archive::Opened gather_opened(Group& group, const Archive::Opened& mine) {
    Bytes bytes;
    bytes.put(mine.files);
    bytes.put(mine.failed);
    bytes.put(mine.first_failure);
    bytes.put(mine.why);
    bytes.put(mine.damaged);
    bytes.put(mine.damage);
    Archive::Opened all;
    for (const Bytes& one : group.gather(bytes)) {
        Input input(one);
        all.files += input.get<uint64_t>();
        all.failed += input.get<uint64_t>();
        const auto first = input.get<uint64_t>();
        std::string why;
        input.get(why);
        const auto damaged = input.get<uint64_t>();
        all.damaged += damaged;
        std::string damage;
        input.get(damage);
        if (damaged > 0) all.damage = damage;
        if (first >= all.first_failure) continue;
        all.first_failure = first;
        all.why = why;
    }
    return all;
}

void gather_statistics(Group& group, Model& model, const Faults& faults) {
    Bytes bytes;
    model.write(bytes);
    Model all(faults);
    all.clock_step_ns = model.clock_step_ns;
    for (const Bytes& one : group.gather(bytes)) {
        if (faults.merge_first_alone && !all.shown().costs.empty()) break;
        Input input(one);
        all.merge(Model::read(input));
    }
    model = std::move(all);
}

void freeze_together(Group& group, Model& model, bool noise_placed, Library library) {
    const auto join = [&](std::vector<Nearest>& mine) {
        Bytes bytes;
        bytes.put(mine);
        for (const Bytes& one : group.gather(bytes)) {
            std::vector<Nearest> theirs;
            Input(one).get(theirs);
            for (size_t i = 0; i < mine.size(); ++i) mine[i].join(theirs.at(i));
        }
    };
    model.freeze(noise_placed, {static_cast<size_t>(group.rank()), static_cast<size_t>(group.size()), join, library});
}

LinkSearch search_together(Group* group) {
    if (!group) return {};
    return {static_cast<size_t>(group->rank()), static_cast<size_t>(group->size()),
            [group](const Bytes& mine) { return group->gather(mine); }};
}

void Engine::write_results(Bytes& to) const {
    for (const auto& thread : threads_) {
        if (thread->remote) continue;
        to.put(true);
        to.put(thread->index);
        to.put(thread->started);
        to.put(thread->has_mpi);
        to.put(thread->events);
        to.put(thread->first);
        to.put(thread->last);
        to.put(thread->init_ns);
        to.put(thread->finalize_ns);
        to.put(thread->uncertainty);
        to.put(thread->local);
        to.put(thread->delay.get(), lanes_.count);
    }
    to.put(false);
    to.put(flaws_);
    to.put(static_cast<uint64_t>(open_questions_.size()));
    for (const auto& [flaw, question] : open_questions_) {
        to.put(flaw);
        to.put(question.limited);
        to.put(question.concerned.covered());
        to.put(question.change.covered());
    }
    to.put(events_);
    to.put(noise_placement_.at_leave);
    to.put(noise_placement_.at_completion);
    to.put(noise_placement_.inside);
    to.put(static_cast<uint64_t>(culprits_.size()));
    for (const auto& [key, sums] : culprits_) {
        to.put(key);
        to.put(sums.first);
        to.put(sums.second);
    }
    for (const auto* calls : {&unrecorded_calls_, &lock_calls_}) {
        to.put(static_cast<uint64_t>(calls->size()));
        for (const auto& [region, counted] : *calls) {
            to.put(region);
            to.put(counted);
        }
    }
    const CallSiteCosts call_sites = call_site_costs();
    to.put(static_cast<uint64_t>(call_sites.size()));
    for (const auto& [key, sums] : call_sites) {
        to.put(key.first);
        to.put(key.second);
        to.put(sums);
    }
    to.put(std::vector<uint8_t>(likely_algorithms_.begin(), likely_algorithms_.end()));
    to.put(static_cast<uint64_t>(facts_.cancelled_postings.size()));
    for (const Posting& posting : facts_.cancelled_postings) {
        to.put(posting.first);
        to.put(posting.second);
    }
    to.put(has_learned_postings_);
    semantics_->write(to);
}

void Engine::merge_results(Input& from) {
    while (from.get<bool>()) {
        Thread& thread = *threads_[from.get<uint32_t>()];
        thread.started = from.get<bool>();
        thread.has_mpi = from.get<bool>();
        thread.events = from.get<uint64_t>();
        thread.first = from.get<int64_t>();
        thread.last = from.get<int64_t>();
        thread.init_ns = from.get<int64_t>();
        thread.finalize_ns = from.get<int64_t>();
        thread.uncertainty = from.get<Uncertainty>();
        from.get(thread.local);
        from.get(thread.delay.get(), lanes_.count);
    }
    std::vector<FlawCount> flaws;
    from.get(flaws);
    for (size_t i = 0; i < flaws_.size(); ++i) {
        flaws_[i].count += flaws[i].count;
        flaws_[i].ns += flaws[i].ns;
    }
    for (auto left = from.get<uint64_t>(); left > 0; --left) {
        OpenQuestion& question = open_questions_[from.get<Flaw>()];
        question.limited += from.get<int64_t>();
        for (UnionOfTime* time : {&question.concerned, &question.change}) {
            std::vector<int64_t> covered;
            from.get(covered);
            time->merge(covered, facts_.first, facts_.last);
        }
    }
    events_ += from.get<int64_t>();
    noise_placement_.at_leave += from.get<int64_t>();
    noise_placement_.at_completion += from.get<int64_t>();
    noise_placement_.inside += from.get<int64_t>();
    for (auto left = from.get<uint64_t>(); left > 0; --left) {
        auto& sums = culprits_[from.get<CulpritKey>()];
        sums.first += from.get<int64_t>();
        sums.second += from.get<int64_t>();
    }
    for (auto* calls : {&unrecorded_calls_, &lock_calls_})
        for (auto left = from.get<uint64_t>(); left > 0; --left) {
            FlawCount& sum = (*calls)[from.get<uint32_t>()];
            const auto counted = from.get<FlawCount>();
            sum.count += counted.count;
            sum.ns += counted.ns;
        }
    for (auto left = from.get<uint64_t>(); left > 0; --left) {
        const auto region = from.get<uint32_t>();
        CallSiteSums& sums = other_call_sites_[{region, from.get<uint32_t>()}];
        const auto theirs = from.get<CallSiteSums>();
        sums.calls += theirs.calls;
        sums.ns += theirs.ns;
        sums.delay += theirs.delay;
    }
    std::vector<uint8_t> likely;
    from.get(likely);
    likely_algorithms_.insert(likely.begin(), likely.end());
    for (auto left = from.get<uint64_t>(); left > 0; --left) {
        const auto thread = from.get<uint32_t>();
        facts_.cancelled_postings.insert({thread, from.get<uint64_t>()});
    }
    has_learned_postings_ = from.get<bool>() || has_learned_postings_;
    semantics_->merge(from);
}

// Of a mirror, this process knows only the noise and waiting inside collectives, so each process writes its own threads only.
void Recorder::write_results(Bytes& to, const std::vector<bool>& own) const {
    for (size_t thread = 0; thread < threads_.size(); ++thread) {
        if (!own[thread]) continue;
        to.put(true);
        to.put(thread);
        to.put(ends_[thread]);
        to.put(threads_[thread].balance);
    }
    to.put(false);
    to.put(contradictions_);
    to.put(least_delay_);
}

void Recorder::merge_results(Input& from) {
    while (from.get<bool>()) {
        const auto thread = from.get<size_t>();
        ends_[thread] = from.get<End>();
        threads_[thread].balance = from.get<NoiseBalance>();
    }
    contradictions_ += from.get<int64_t>();
    least_delay_ = std::min(least_delay_, from.get<int64_t>());
}

std::vector<int64_t> gather_recorded(Group& group, const Engine& engine, Recorder& recorder, int64_t written) {
    std::vector<bool> own;
    for (const auto& thread : engine.threads()) own.push_back(!thread->remote);
    Bytes bytes;
    bytes.put(written);
    recorder.write_results(bytes, own);
    const std::vector<Bytes> all = group.gather(bytes);
    std::vector<int64_t> by_process;
    for (int process = 0; process < group.size(); ++process) {
        Input input(all[static_cast<size_t>(process)]);
        by_process.push_back(input.get<int64_t>());
        if (process != group.rank()) recorder.merge_results(input);
    }
    return by_process;
}

void gather_payment(Group& group, Payment& payment) {
    Bytes bytes;
    for (const auto& [cell, changes] : payment.cells()) {
        bytes.put(cell);
        bytes.put(changes);
    }
    const std::vector<Bytes> all = group.gather(bytes);
    for (int process = 0; process < group.size(); ++process) {
        if (process == group.rank()) continue;
        for (Input input(all[static_cast<size_t>(process)]); !input.empty();) {
            const auto cell = input.get<Payment::Cell>();
            std::vector<int64_t> changes;
            input.get(changes);
            payment.add(cell, changes);
        }
    }
}

void gather_injected(Group& group, const Engine& engine, Injection& injection, size_t lane) {
    Bytes bytes;
    for (const auto& thread : engine.threads()) {
        if (thread->remote || !thread->carries_rank) continue;
        bytes.put(thread->rank);
        bytes.put(injection.clock(thread->rank, lane).noise_ns());
    }
    for (const Bytes& one : group.gather(bytes))
        for (Input input(one); !input.empty();) {
            const auto rank = input.get<int32_t>();
            std::vector<int64_t> by_source;
            input.get(by_source);
            injection.clock(rank, lane).set_noise_ns(by_source);
        }
}

void gather_results(Group& group, Engine& engine) {
    Bytes bytes;
    engine.write_results(bytes);
    const std::vector<Bytes> all = group.gather(bytes);
    for (int process = 0; process < group.size(); ++process) {
        if (process == group.rank()) continue;
        Input input(all[static_cast<size_t>(process)]);
        engine.merge_results(input);
    }
}

void gather_late_noise(Group& group, Engine& learner) {
    Bytes mine;
    for (const auto& thread : learner.threads()) {
        if (thread->remote) continue;
        mine.put(thread->index);
        mine.put(thread->late);
    }
    for (const Bytes& one : group.gather(mine)) {
        Input input(one);
        while (!input.empty()) {
            const auto index = input.get<decltype(Thread::index)>();
            std::vector<PendingNoise> late;
            input.get(late);
            if (learner.threads()[index]->remote) learner.threads()[index]->late = std::move(late);
        }
    }
}

std::shared_ptr<const Postings> gather_postings(Group& group, const Engine& learner) {
    if (!learner.facts().postings) return nullptr;
    Bytes mine;
    learner.facts().postings->write(mine);
    auto all = std::make_shared<Postings>(learner.threads().size());
    for (const Bytes& one : group.gather(mine)) {
        Input input(one);
        all->merge(input);
    }
    return all;
}

}  // namespace polter::replay
