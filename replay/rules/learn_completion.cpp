// SPDX-License-Identifier: BSD-3-Clause
// What calls teach that wait for messages or for receivers.
//
// In words: what began last of all that a call waited for tells its cost, from there to the call's end; noise in that time, or in the call
// that sent the message, leaves open how much of it was the cost. Whatever else the call waited for cost at most as much as it had time.
// If everything was there before, the call tells what completing so many costs. Whether a standard send is among what it waited for is to
// be found out: a call that ended before the receive was posted proves that it was not; one that ended after a posting that came later
// than everything else may have waited for it. Without such sends a class is taken as eager.
#include <algorithm>

#include "internal.hpp"

namespace polter::replay {

CompletionSample* Engine::new_sample() {
    return sample_pool_.take_new();
}

void Engine::settle(Match& match) {
    CompletionSample* sample = match.sample;
    if (!sample || !((match.posted && match.sent) || match.refused)) return;
    match.sample = nullptr;
    if (match.refused) {
        sample->spoiled = true;
    } else if (match.post_time > sample->leave) {
        model_.learn_protocol(match.same_host, match.partitioned > 0, match.size, true);
    } else if (match.post_time > sample->done) {
        sample->spoiled = true;
    } else if (match.post_time > sample->ready && match.post_time > match.send_time) {
        if (sample->has_last)
            model_.learn_late_or_arrival(match.same_host, match.partitioned > 0, match.size, sample->last,
                                         sample->leave - sample->last_time - sample->noise_after_ready - sample->last_noise);
        else
            model_.learn_protocol(match.same_host, match.partitioned > 0, match.size, false);
        if (const int64_t posted = match.post_time + rules::shared_ns(*this, match); posted > sample->latest_post) {
            sample->latest_post = posted;
            sample->post_noise = match.post_noise;
            sample->post_tie = rules::near_tie(match);
            sample->post = rules::message_class(CostKind::send_after_post, match);
        }
    }
    if (match.posted && match.post_time <= sample->leave) {
        sample->last_known = std::max({sample->last_known, match.send_time, match.post_time});
        sample->completes(rules::message_class(CostKind::receive_after_send, match));
    }
    if (--sample->open == 0) finish_sample(sample);
}

void Engine::finish_sample(CompletionSample* sample) {
    learn_from(*sample);
    sample_pool_.give(sample);
}

// Some of the noise may have hidden in the waiting.
static void learn_interval(Model& model, const CostClass& of, int64_t took, int64_t noise, int64_t slack) {
    model.learn_between(of, took - noise, took, noise > 0 ? std::min<int64_t>(slack, 0) : slack);
}

void Engine::learn_from(const CompletionSample& s) {
    if (s.spoiled) return;
    const auto cost = [&](const CostClass& of, int64_t from, int64_t noise, int64_t slack) {
        if (const int64_t took = s.leave - from; took >= 0) learn_interval(model_, of, took, noise, slack);
    };
    const int64_t took = s.leave - s.enter;
    if (s.latest_post > s.ready) {  // it may have waited for that
        const int64_t most = s.leave - s.latest_post;
        if (s.has_last && s.largest.size > s.post.size)
            model_.learn_at_most(s.post, most);
        else
            cost(s.post, s.latest_post, std::min(s.noise + s.post_noise, most), s.post_tie ? 0 : Model::clean);
        if (s.has_last) model_.learn_at_most(s.last, s.leave - s.last_time);
        return;
    }
    if (s.alone) cost(s.sent, s.enter, s.noise, Model::clean);
    if (!s.has_last || s.leave < s.last_time) return;
    const int64_t slack = s.enter - s.last_known;
    const bool in_flight = s.last_time >= s.enter || (s.last_synchronous && slack < took - s.noise);
    if (in_flight && s.last_contested)
        model_.learn_at_most(s.last, s.leave - s.last_time);
    else if (in_flight)
        cost(s.last, s.last_time, s.noise_after_ready + s.last_noise, s.last_tie ? 0 : Model::clean);
    else
        learn_wait(s);
}

// It began when all had been sent and posted: the messages were still under way, or there.
void Engine::learn_wait(const CompletionSample& s) {
    CostClass own{CostKind::wait_own, true, false, 0, s.completions};
    if (s.completions == 0) {
        own = s.last;
        own.kind = CostKind::receive_after_post;
    }
    const auto range = [&](int64_t from, int64_t noise) { return TimeRange{std::max<int64_t>(0, s.leave - from - noise), s.leave - from}; };
    const int64_t noise = s.noise_after_ready + s.last_noise;
    model_.learn_wait(own, s.largest,
                      {.slack = s.enter - (s.completions == 0 ? s.last_time : s.last_known),  // a blocking call posts at its beginning
                       .took = range(s.enter, s.noise + s.senders_noise),
                       .since_send = range(s.last_time, noise),
                       .since_both = range(s.last_known, noise)},
                      s.largest.size <= s.last.size);
}

namespace rules {

namespace {

// One thing that a call waited for, and the time from which it cost what its class does.
struct Waited {
    CostClass of{};
    int64_t time = 0, known = 0;  // known: when it and the thread's own posting were there
    bool synchronous = false;
};

Waited waited_for(const Engine& engine, const Dependency& dependency) {
    const Match& match = *dependency.match;
    const int64_t shared = shared_ns(engine, match);
    const int64_t both = std::max(match.send_time, match.post_time) + shared;
    const bool posted_later = match.post_time > match.send_time;
    if (dependency.kind == Dependency::Kind::posting)
        return {message_class(posted_later ? CostKind::send_after_post : CostKind::send_own, match), both, both, true};
    if (match.synchronous_mode)
        return {message_class(posted_later ? CostKind::receive_after_post : CostKind::receive_after_send, match), both, both, true};
    return {message_class(CostKind::receive_after_send, match), match.send_time + shared, both, false};
}

// A call that only posts receives: what any call costs.
void learn_posting(Engine& engine, const Thread& thread) {
    if (thread.operations.empty() || thread.completions > 0 || thread.polling.active) return;
    for (const Operation& operation : thread.operations)
        if (operation.kind != Operation::Kind::irecv_post) return;
    const int64_t took = thread.leave - thread.enter;
    engine.model().learn_between({CostKind::wait_own, true, false, 0, 0}, took - noise_after(thread.pieces, thread.enter), took,
                                 Model::clean);
}

// The earliest time at which the call may have had all that it waited for: noise that lasts until its end, or nearly, held it from then on.
int64_t done_by(const Engine& engine, const Thread& thread, int64_t noise) {
    if (engine.facts().counter_only || engine.faults().noise_hides_postings) return thread.leave - noise;
    constexpr int64_t own_work_ns = 1000;  // behind the noise, at most
    int64_t done = thread.leave;
    for (auto piece = thread.pieces.rbegin(); piece != thread.pieces.rend() && piece->end >= done - own_work_ns; ++piece)
        done = std::min(done, piece->begin);
    return done;
}

bool teaches(const Dependency& dependency) {
    if (dependency.notice || !dependency.match) return false;
    if (dependency.kind == Dependency::Kind::posting) return dependency.match->posted;
    return dependency.kind == Dependency::Kind::message && dependency.match->sent;
}

// What the call that has been read tells, its watched sends aside. False: nothing.
bool describe(Engine& engine, const Thread& thread, CompletionSample& sample) {
    sample.enter = sample.ready = thread.enter;
    sample.leave = thread.leave;
    sample.completions = thread.completions;
    sample.latest_post = INT64_MIN;
    sample.noise = noise_after(thread.pieces, thread.enter);
    sample.done = done_by(engine, thread, sample.noise);
    for (const Dependency& dependency : thread.dependencies) {
        const Waited waited = waited_for(engine, dependency);
        sample.ready = std::max(sample.ready, waited.time);
        sample.last_known = std::max(sample.last_known, waited.known);
        sample.completes(message_class(CostKind::receive_after_send, *dependency.match));
        if (thread.leave < waited.time) return false;  // the clocks disagree, or the links were not shared so
        if (thread.dependencies.size() > 1) engine.model().learn_at_most(waited.of, thread.leave - waited.time);
        sample.senders_noise = std::max(sample.senders_noise, dependency.match->send_noise);
        if (sample.has_last && waited.time <= sample.last_time) continue;
        sample.has_last = true;
        sample.last = waited.of;
        sample.last_time = waited.time;
        const bool posted_last = waited.synchronous && dependency.match->post_time > dependency.match->send_time;
        const bool own_call = dependency.kind == Dependency::Kind::message && !dependency.own_posting;  // its noise is the call's
        sample.last_noise = std::max(dependency.match->send_noise, posted_last && !own_call ? dependency.match->post_noise : 0);
        sample.last_synchronous = waited.synchronous;
        sample.last_tie = waited.synchronous && near_tie(*dependency.match);
    }
    sample.last_contested = sample.has_last && sample.largest.size > sample.last.size;
    sample.noise_after_ready = noise_after(thread.pieces, sample.ready);
    return true;
}

}  // namespace

void learn_waited(Engine& engine, const CostClass& of, int64_t took, int64_t noise, int64_t slack) {
    if (engine.faults().noise_prolongs_waits)
        engine.model().learn(of, took - noise, slack);
    else
        learn_interval(engine.model(), of, took, noise, slack);
}

void learn_completion(Engine& engine, Thread& thread) {
    if (thread.dependencies.empty() && thread.watched.empty()) return learn_posting(engine, thread);
    if (!std::all_of(thread.dependencies.begin(), thread.dependencies.end(), teaches)) return;  // it waited for something else, too
    if (of(engine).links) of(engine).links->learn_call(thread);
    if (thread.watched.empty()) {
        CompletionSample sample;
        if (describe(engine, thread, sample)) engine.learn_from(sample);
        return;
    }
    CompletionSample* sample = engine.new_sample();
    if (!describe(engine, thread, *sample)) {
        sample->spoiled = true;
        return engine.finish_sample(sample);
    }
    sample->alone = thread.completions == 0 && !sample->has_last && thread.watched.size() == 1;
    if (sample->alone) sample->sent = message_class(CostKind::send_own, *thread.watched.front());
    sample->open = static_cast<uint32_t>(thread.watched.size()) + 1;
    for (Match* match : thread.watched) {
        match->sample = sample;
        engine.settle(*match);
    }
    if (--sample->open == 0) engine.finish_sample(sample);
}

}  // namespace rules

}  // namespace polter::replay
