// SPDX-License-Identifier: BSD-3-Clause
// Which receive takes which message: on each channel, messages in order of sending and receives in order of posting (MPI-4.0, section 3.5).
// A channel is an unexpected-message queue or a posted-receive queue, never both at once.
#include <algorithm>

#include "engine.hpp"
#include "replay/graph/recorder.hpp"

namespace polter::replay {

namespace {

void append(Channel* channel, Match* match) {
    match->next = nullptr;
    match->channel = channel;
    match->queued = true;
    (channel->tail ? channel->tail->next : channel->head) = match;
    channel->tail = match;
}

Match* take_first(Channel* channel) {
    Match* match = channel->head;
    channel->head = match->next;
    if (!channel->head) channel->tail = nullptr;
    match->queued = false;
    return match;
}

void unlink(Match* match) {
    Channel* channel = match->channel;
    Match* before = nullptr;
    for (Match* at = channel->head; at && at != match; at = at->next) before = at;
    (before ? before->next : channel->head) = match->next;
    if (channel->tail == match) channel->tail = before;
    match->queued = false;
}

}  // namespace

Channel* Engine::channel(uint32_t comm, int32_t source, int32_t destination, uint32_t tag, uint32_t partitioned) {
    const ChannelKey key{comm, static_cast<uint32_t>(source), static_cast<uint32_t>(destination), tag, partitioned};
    if (Channel** found = channels_.find(key)) return *found;
    if (channels_.size() > 2 * channels_after_sweep_ + 4096) {  // tags may be used only once: remove the empty channels
        std::vector<std::pair<ChannelKey, Channel*>> empty;
        channels_.each([&](const ChannelKey& at, Channel* channel) {
            if (!channel->head && channel->probing.empty()) empty.emplace_back(at, channel);
        });
        for (auto& [at, channel] : empty) {
            channels_.erase(at);
            channel_pool_.give(channel);
        }
        channels_after_sweep_ = channels_.size();
    }
    Channel* channel = channel_pool_.take_new();
    channel->key = key;
    channels_.insert(key, channel);
    return channel;
}

namespace {

Match* fresh(Pool<Match>& pool, const ChannelKey& key) {
    Match* match = pool.take_new();
    match->source = static_cast<int32_t>(key.source);
    match->destination = static_cast<int32_t>(key.destination);
    match->comm = key.comm;
    match->tag = key.tag;
    match->partitioned = key.partitioned;
    match->users = 1;  // the receiver, whether or not it has posted yet
    return match;
}

}  // namespace

Match* Engine::add_send(Thread& sender, const Thread& receiver, const Operation& operation) {
    Channel* channel =
        receiver.remote ? nullptr : this->channel(operation.comm, sender.rank, receiver.rank, operation.tag, operation.partitioned);
    Match* match;
    if (!channel) {
        match = fresh(matches_, {operation.comm, static_cast<uint32_t>(sender.rank), static_cast<uint32_t>(receiver.rank), operation.tag,
                                 operation.partitioned});
        match->elsewhere = true;
    } else if (receiver.state == Thread::State::finished && !(channel->head && !channel->holds_messages)) {
        count(Flaw::unmatched_message);  // the receiver has ended; give_up_posting() counts the same if that is found out later
        match = fresh(matches_, channel->key);
        match->refused = true;
    } else if (channel->head && !channel->holds_messages) {
        match = take_first(channel);
    } else {
        match = fresh(matches_, channel->key);
        channel->holds_messages = true;
        append(channel, match);
    }
    match->sent = true;
    match->sender = &sender;
    match->size = operation.size;
    match->send_time = sender.enter;
    match->send_delay = lane_pool_.copy(sender.delay);
    match->send_node = sender.enter_node;
    if (Thread* waiting = match->receiver_waits) {
        match->receiver_waits = nullptr;
        wake(waiting);
    }
    if (!channel) return match;
    semantics_->message_arrived(*match);
    for (Thread* probing : channel->probing) wake(probing);
    channel->probing.clear();
    return match;
}

void Engine::send_is_complete(Match* match) {
    if (match->refused)
        release(match);
    else if (match->elsewhere)
        peers_->ship_send(*match);
}

// Noise at the beginning of the posting call may have hit before the receive was posted: the end of the call that waits for the posting
// tells (rules/receive.cpp).
void Engine::keep_posting_noise(Match& match, const Thread& receiver) {
    constexpr int64_t own_work_ns = 1000;  // of a call before it posts, at most
    if (receiver.pieces.empty() || match.post_time != receiver.enter || faults_.posted_at_enter) return;
    Recorder* recorder = recorder_;
    match.post_noise_removed = lane_pool_.filled(0);
    if (recorder) {
        recorder->start();
        recorder->candidate(match.post_node, match.post_delay, 0);
    }
    for (const NoisePiece& piece : receiver.pieces) {
        if (!facts_.counter_only && piece.begin - receiver.enter - match.post_noise > own_work_ns) break;
        match.post_noise += piece.end - piece.begin;
        remove_noise(match.post_noise_removed, lanes_.masks[piece.account].data(), piece.end - piece.begin, lanes_.count);
        if (recorder) recorder->noise(receiver.index, piece, receiver.place(), piece.end - piece.begin);
    }
    if (recorder)
        match.posted_node = recorder->write(receiver.index, receiver.place(), match.post_time + match.post_noise,
                                            match.post_delay[recorder->lane(1)] + match.post_noise_removed[recorder->lane(1)], true);
}

Match* Engine::add_receive(Channel* channel, Thread& receiver, int64_t post_time, const int64_t* post_delay, uint64_t post_node) {
    Match* match;
    if (channel->head && channel->holds_messages) {
        match = take_first(channel);
    } else {
        match = fresh(matches_, channel->key);
        channel->holds_messages = false;
        append(channel, match);
    }
    match->posted = true;
    match->receiver = &receiver;
    match->post_time = post_time;
    match->post_delay = lane_pool_.copy(post_delay);
    match->post_node = faults_.posted_at_wait ? receiver.enter_node : post_node;
    keep_posting_noise(*match, receiver);
    settle(*match);
    if (match->proxy) peers_->ship_posting(*match);
    if (match->sender_waits) {
        Thread* waiting = match->sender_waits;
        match->sender_waits = nullptr;
        wake(waiting);
    }
    return match;
}

void Engine::completed(Posting posting, const PostedFor& what) {
    if (learned_postings_) {
        learned_postings_->learn(posting.first, posting.second, what);
        has_learned_postings_ = true;
    } else if (facts_.postings && !learning_) {
        count(Flaw::postings_forgotten);
    }
}

void Engine::withdraw_receive(Match* match) {
    if (match->queued) {
        unlink(match);
        if (match->partitioned == 0) match->users = 1;  // of a partitioned message another thread may be polling a part
        release(match);
        return;
    }
    // a message was matched to it, and is lost with it
    count(Flaw::uncertain_order);
    release(match);
}

void Engine::release(Match* match) {
    if (--match->users > 0) return;
    if (match->queued) unlink(match);
    if (match->of_farm) semantics_->message_forgotten(*match);
    for (LaneVector* vector :
         {&match->send_delay, &match->send_noise_removed, &match->post_delay, &match->post_noise_removed, &match->moved})
        vector->reset();
    if (match->queue) semantics_->drop(match->queue);
    matches_.give(match);
}

}  // namespace polter::replay
