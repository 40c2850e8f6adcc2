// SPDX-License-Identifier: BSD-3-Clause
// What calls teach that completed several things, or sends.
//
// In words: the last of the things that a call waited for tells its cost, from there to the call's end. If everything was there
// before, the call tells what completing so many costs. Whether a standard send is among what it waited for is to be found out: a call
// that ended before the receive was posted proves that it was not; one that ended after a posting that came later than everything
// else may have waited for it. Without such sends a class is taken as eager.
#include <algorithm>

#include "internal.hpp"

namespace polter::replay {

CompletionSample* Engine::new_sample() {
    CompletionSample* sample = sample_pool_.take();
    *sample = CompletionSample{};
    return sample;
}

void Engine::settle(Match& match) {
    CompletionSample* sample = match.sample;
    if (!sample || !((match.posted && match.sent) || match.refused)) return;
    match.sample = nullptr;
    if (match.refused) {
        sample->spoiled = true;
    } else if (match.post_time > sample->leave) {
        model_.learn_protocol(match.same_host, match.partitioned > 0, match.size, true);
    } else if (match.post_time > sample->ready && match.post_time > match.send_time) {
        model_.learn_protocol(match.same_host, match.partitioned > 0, match.size, false);
        if (match.post_time > sample->latest_post) {
            sample->latest_post = match.post_time;
            sample->post_same_host = match.same_host;
            sample->post_size = match.size;
            sample->post_partitioned = match.partitioned > 0;
        }
    }
    if (--sample->open == 0) finish_sample(sample);
}

void Engine::finish_sample(CompletionSample* sample) {
    learn_from(*sample);
    sample_pool_.give(sample);
}

void Engine::learn_from(const CompletionSample& s) {
    if (s.spoiled) return;
    const auto messages = [](bool partitioned) { return partitioned ? partitioned_messages : uint16_t{0}; };
    const bool by_post = s.latest_post > s.ready;
    if (by_post && s.noise == 0)
        model_.learn({CostKind::send_after_post, s.post_same_host, false, messages(s.post_partitioned), s.post_size},
                     s.leave - s.latest_post);
    if (!s.has_message) return;
    const int64_t begin = std::max(s.enter, s.last_send), took = s.leave - begin - s.noise;
    if (took < 0) return;
    if (s.last_send >= s.enter)
        model_.learn(
            {CostKind::receive_after_send, s.message_same_host, s.message_synchronous, messages(s.message_partitioned), s.message_size},
            took, by_post || s.noise > 0 ? 0 : Model::clean);
    else if (!by_post && s.completions > 0)
        model_.learn({CostKind::wait_own, true, false, 0, s.completions}, took, s.enter - s.last_ready);
    else if (!by_post)
        model_.learn(
            {CostKind::receive_after_post, s.message_same_host, s.message_synchronous, messages(s.message_partitioned), s.message_size},
            took, s.enter - s.last_send);
}

namespace rules {

void learn_completion(Engine& engine, Thread& thread) {
    if (thread.completions == 0 && thread.watched.empty()) return;
    CompletionSample sample;
    sample.enter = sample.ready = thread.enter;
    sample.leave = thread.leave;
    sample.completions = thread.completions;
    sample.latest_post = INT64_MIN;
    bool usable = true;
    for (const Dependency& dependency : thread.dependencies) {
        if (dependency.kind != Dependency::Kind::message || dependency.notice || !dependency.match || !dependency.match->sent ||
            dependency.match->send_noise > 0) {
            usable = false;  // it waited for something whose time is not a message's
            break;
        }
        const Match& match = *dependency.match;
        sample.ready = std::max(sample.ready, match.send_time);
        sample.last_ready = std::max({sample.last_ready, match.send_time, match.post_time});
        if (sample.has_message && match.send_time <= sample.last_send) continue;
        sample.has_message = true;
        sample.last_send = match.send_time;
        sample.message_size = match.size;
        sample.message_same_host = match.same_host;
        sample.message_synchronous = match.synchronous_mode;
        sample.message_partitioned = match.partitioned > 0;
    }
    if (!usable || thread.leave < sample.ready) return;
    sample.noise = noise_after(thread.pieces, sample.ready);
    if (thread.watched.empty()) {
        engine.learn_from(sample);
        return;
    }
    sample.open = static_cast<uint32_t>(thread.watched.size()) + 1;
    CompletionSample* kept = engine.new_sample();
    *kept = sample;
    for (Match* match : thread.watched) {
        match->sample = kept;
        engine.settle(*match);
    }
    if (--kept->open == 0) engine.finish_sample(kept);
}

}  // namespace rules

}  // namespace polter::replay
