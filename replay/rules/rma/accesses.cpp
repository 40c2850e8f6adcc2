// SPDX-License-Identifier: BSD-3-Clause
// Accesses that wait while their target completes its own.
//
// In words: where a library guards a window by a mutex that it also holds while it waits for transfers (SMPI does), a put, a get or an
// accumulate waits as long as its target is inside MPI_Win_complete. No record says so. But then both end at the same time: an access of
// clearly more than its usual length that ended with such a call of its target waited for it, where most long accesses to the window did.
// There one that was hardly longer than usual waited, too, if it ended exactly with such a call.
//
// Each of them does its own work first, as much as the shortest such call: then the target's call guards the window, and the access asks
// for it. In another scenario an access waits where it asks after that. Then it ends with the target's call; else it takes as long as such
// accesses do by themselves. Noise at the beginning of an access that began before the target's call delayed the asking.
// Accesses that did not wait may do so in another scenario: there the completion decides that the target makes behind the same post, or
// else its next one. That one may depend on what its rank does later; so the dependency is soft: where no thread can continue, the earliest
// access does not wait.
//
// Not followed: others' flushes and unlocks at the same window. That the completion waits for transfers: rules/rma/incoming.cpp.
#include "accesses.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "replay/base/bytes.hpp"
#include "replay/rules/internal.hpp"

namespace polter::replay {

namespace {

constexpr int64_t at_once = 1'000;  // ns: two calls that end within it end at the same time; clocks are no finer than that
constexpr int64_t exactly = 50;     // ns: … where the access took hardly longer than by itself: other reasons for that are many

// An access of so much more than the shortest has waited, or has been hit by noise.
bool is_long(int64_t took, int64_t shortest) {
    return took > 2 * shortest + at_once;
}

Notice beginning_of(const AccessWait& wait) {
    return static_cast<Notice>(static_cast<uint32_t>(Notice::access) + 2 * wait.number);
}
Notice end_of(const AccessWait& wait) {
    return static_cast<Notice>(static_cast<uint32_t>(Notice::access) + 2 * wait.number + 1);
}

}  // namespace

void AccessLearning::accessed(const Thread& thread, uint32_t window, int32_t target, uint64_t bytes) {
    Rank& rank = ranks_[static_cast<size_t>(thread.rank)];
    const uint64_t index = rank.accesses++;
    const int64_t took = thread.leave - thread.enter, noise = std::min(took, rules::noise_after(thread.pieces, thread.enter));
    const Class kind{thread.region, static_cast<uint32_t>(std::bit_width(bytes))};
    int64_t& shortest = shortest_.try_emplace(kind, took - noise).first->second;
    shortest = std::min(shortest, took - noise);
    if (target != thread.rank && target != no_rank && rank.recorded.size() < most_)
        rank.recorded.push_back({index, window, target, thread.enter, thread.leave, noise, bytes, kind});
}

void AccessLearning::completed(const Thread& thread, uint32_t window) {
    Rank& rank = ranks_[static_cast<size_t>(thread.rank)];
    if (rank.completions < most_) {
        Completion call{.index = rank.completions,
                        .enter = thread.enter,
                        .leave = thread.leave,
                        .noise = std::min(thread.leave - thread.enter, rules::noise_after(thread.pieces, thread.enter)),
                        .posts = rank.posts[window].size(),
                        .records = thread.operations.size()};
        if (!thread.pieces.empty()) {
            const NoisePiece& first = thread.pieces.front();
            call.hit = first.begin - thread.enter;
            call.hit_ns = first.end - first.begin;
        }
        rank.calls[window].push_back(call);
    }
    ++rank.completions;
}

void AccessLearning::posted(const Thread& thread, uint32_t window) {
    std::vector<int64_t>& posts = ranks_[static_cast<size_t>(thread.rank)].posts[window];
    if (posts.size() < most_) posts.push_back(thread.enter);
}

void AccessLearning::told(const Thread& thread) {
    auto& calls = ranks_[static_cast<size_t>(thread.rank)].calls[thread.notices.front().window];
    if (!calls.empty() && calls.back().enter == thread.enter) calls.back().targets = thread.notices.size();
}

void AccessLearning::waited(const Thread& thread, uint32_t window) {
    ++ranks_[static_cast<size_t>(thread.rank)].waits[window];
}

void AccessLearning::awaited(const Thread& thread) {
    Rank& rank = ranks_[static_cast<size_t>(thread.rank)];
    uint32_t window = 0;
    std::vector<Notified> notices;
    for (const Dependency& dependency : thread.dependencies) {
        const Match* match = dependency.notice ? dependency.match : nullptr;
        if (!match || !match->sent || match->tag != static_cast<uint32_t>(Notice::completion) || match->send_noise > 0) return;
        window = rules::window_of(match->comm);
        notices.push_back({match->send_time, match->place});
    }
    if (notices.empty()) return;
    std::vector<Wait>& ends = rank.ends[window];
    std::vector<Notified>& all = rank.notified[window];
    if (all.size() + notices.size() > most_) return;
    ends.push_back({thread.enter, thread.leave, std::min(thread.leave - thread.enter, rules::noise_after(thread.pieces, thread.enter)),
                    rank.posts[window].size(), notices.size()});
    all.insert(all.end(), notices.begin(), notices.end());
}

void AccessLearning::write(Bytes& to) const {
    to.put(static_cast<uint64_t>(shortest_.size()));
    for (const auto& [kind, took] : shortest_) {
        to.put(kind);
        to.put(took);
    }
    for (const Rank& rank : ranks_) {
        to.put(rank.recorded);
        to.put(static_cast<uint64_t>(rank.calls.size()));
        for (const auto& [window, calls] : rank.calls) {
            to.put(window);
            to.put(calls);
        }
        to.put(static_cast<uint64_t>(rank.posts.size()));
        for (const auto& [window, posts] : rank.posts) {
            to.put(window);
            to.put(posts);
        }
        to.put(static_cast<uint64_t>(rank.waits.size()));
        for (const auto& [window, waits] : rank.waits) {
            to.put(window);
            to.put(waits);
        }
        to.put(static_cast<uint64_t>(rank.ends.size()));
        for (const auto& [window, ends] : rank.ends) {
            to.put(window);
            to.put(ends);
            to.put(rank.notified.at(window));
        }
    }
}

void AccessLearning::merge(Input& from) {
    for (auto left = from.get<uint64_t>(); left > 0; --left) {
        const auto kind = from.get<Class>();
        const auto took = from.get<int64_t>();
        int64_t& shortest = shortest_.try_emplace(kind, took).first->second;
        shortest = std::min(shortest, took);
    }
    for (Rank& rank : ranks_) {
        std::vector<Access> recorded;
        from.get(recorded);
        if (rank.recorded.empty()) rank.recorded = std::move(recorded);
        for (auto windows = from.get<uint64_t>(); windows > 0; --windows) {
            const auto window = from.get<uint32_t>();
            from.get(rank.calls[window]);
        }
        for (auto windows = from.get<uint64_t>(); windows > 0; --windows) {
            const auto window = from.get<uint32_t>();
            from.get(rank.posts[window]);
        }
        for (auto windows = from.get<uint64_t>(); windows > 0; --windows) {
            const auto window = from.get<uint32_t>();
            rank.waits[window] += from.get<uint64_t>();
        }
        for (auto windows = from.get<uint64_t>(); windows > 0; --windows) {
            const auto window = from.get<uint32_t>();
            from.get(rank.ends[window]);
            from.get(rank.notified[window]);
        }
    }
}

// What the target completed in the access's window, in order.
const std::vector<AccessLearning::Completion>& AccessLearning::of_target(const Access& access) const {
    static const std::vector<Completion> none;
    const auto& calls = ranks_[static_cast<size_t>(access.target)].calls;
    const auto found = calls.find(access.window);
    return found == calls.end() ? none : found->second;
}

const AccessLearning::Completion* AccessLearning::ended_with(const Access& access) const {
    const std::vector<Completion>& calls = of_target(access);
    const int64_t took = access.leave - access.enter, shortest = shortest_.at(access.kind);
    if (took <= shortest + exactly) return nullptr;
    const int64_t within = is_long(took, shortest) ? at_once : exactly;
    const auto call = std::lower_bound(calls.begin(), calls.end(), access.leave - within,
                                       [](const Completion& of, int64_t time) { return of.leave < time; });
    if (call == calls.end() || call->leave > access.leave + within) return nullptr;
    return call->leave > access.enter + shortest_.at(access.kind) ? &*call : nullptr;
}

const AccessLearning::Completion* AccessLearning::next_behind(const Access& access) const {
    const std::vector<Completion>& calls = of_target(access);
    const auto call =
        std::upper_bound(calls.begin(), calls.end(), access.enter, [](int64_t time, const Completion& of) { return time < of.enter; });
    return call == calls.end() ? nullptr : &*call;
}

const AccessLearning::Completion* AccessLearning::of_same_post(const Access& access) const {
    const auto& all_posts = ranks_[static_cast<size_t>(access.target)].posts;
    const auto posts = all_posts.find(access.window);
    if (posts == all_posts.end()) return nullptr;
    const auto past = std::upper_bound(posts->second.begin(), posts->second.end(), access.enter);
    const auto number = static_cast<uint64_t>(past - posts->second.begin());
    const std::vector<Completion>& calls = of_target(access);
    const auto call =
        std::lower_bound(calls.begin(), calls.end(), number, [](const Completion& of, uint64_t posted) { return of.posts < posted; });
    return number == 0 || call == calls.end() || call->posts != number ? nullptr : &*call;
}

AccessPlan AccessLearning::plan() const {
    AccessPlan plan;
    for (AccessPlan::OfRanks* of : {&plan.waits, &plan.holds, &plan.begun, &plan.incoming}) of->resize(ranks_.size());
    plan.exposed.resize(ranks_.size());
    plan_accesses(plan);
    plan_incoming(plan);
    return plan;
}

void AccessLearning::plan_accesses(AccessPlan& plan) const {
    struct Evidence {
        size_t waited = 0, longer = 0;  // longer: without noise
    };
    std::map<uint32_t, Evidence> evidence;  // by window
    for (const Rank& rank : ranks_)
        for (const Access& access : rank.recorded)
            if (is_long(access.leave - access.enter - access.noise, shortest_.at(access.kind))) {
                ++evidence[access.window].longer;
                evidence[access.window].waited += ended_with(access) != nullptr;
            }
    const std::map<uint64_t, int64_t> own_of_calls = own_of_completions();
    for (size_t origin = 0; origin < ranks_.size(); ++origin)
        for (const Access& access : ranks_[origin].recorded) {
            const auto of = evidence.find(access.window);
            if (of == evidence.end() || of->second.waited == 0 || 2 * of->second.waited < of->second.longer) continue;
            const int64_t own = shortest_.at(access.kind);
            const Completion* call = ended_with(access);
            const bool waited = call != nullptr;
            if (!call) call = of_same_post(access);
            if (!call) call = next_behind(access);
            if (!call) continue;
            const int64_t asks = access.enter + own;
            const AccessWait wait{.waited = waited,
                                  .access = access.index,
                                  .completion = call->index,
                                  .number = plan.number++,
                                  .origin = static_cast<int32_t>(origin),
                                  .target = access.target,
                                  .own = own,
                                  .guards = own_of_calls.at(call->records),
                                  .transfer = {},
                                  .margin = std::max<int64_t>(0, asks - call->enter - own_of_calls.at(call->records)),
                                  .until = std::min(call->leave, access.leave)};
            plan.waits[origin].push_back(wait);
            plan.holds[static_cast<size_t>(access.target)].push_back(wait);
        }
    for (auto& holds : plan.holds)
        std::stable_sort(holds.begin(), holds.end(), [](const AccessWait& a, const AccessWait& b) { return a.completion < b.completion; });
}

namespace {

// On what `from`, a world rank, tells of it. `soft`: it need not.
void depend(Engine& engine, Thread& thread, uint32_t window, const AccessWait& wait, Notice what, int32_t from, bool soft = true) {
    thread.dependencies.push_back({.kind = Dependency::Kind::message,
                                   .release = true,
                                   .notice = true,
                                   .soft = soft,
                                   .match = rules::ask_for_notice(engine, thread, window, what, from),
                                   .access = &wait});
}

}  // namespace

Accesses::Accesses(std::shared_ptr<const AccessPlan> plan) : plan_(std::move(plan)), ranks_(plan_->waits.size()) {}

void Accesses::accessed(Engine& engine, Thread& thread, uint32_t window) {
    Rank& rank = ranks_[static_cast<size_t>(thread.rank)];
    const auto& waits = plan_->waits[static_cast<size_t>(thread.rank)];
    const auto& begun = plan_->begun[static_cast<size_t>(thread.rank)];
    const uint64_t index = rank.accesses++;
    if (rank.next_begun < begun.size() && begun[rank.next_begun].access == index) {
        const AccessWait& transfer = begun[rank.next_begun++];
        const auto tell = [&](Notice what) {
            rules::send_notice(engine, thread, {window, transfer.target, what, 0}, thread.enter, thread.delay, thread.enter_node);
        };
        tell(beginning_of(transfer));  // the completion
        if (transfer.exposed) tell(end_of(transfer));
    }
    if (rank.next_wait == waits.size() || waits[rank.next_wait].access != index) return;
    const AccessWait& wait = waits[rank.next_wait++];
    for (const Notice what : {beginning_of(wait), end_of(wait)}) depend(engine, thread, window, wait, what, wait.target);
}

void Accesses::completing(Engine& engine, Thread& thread, uint32_t window) {
    Rank& rank = ranks_[static_cast<size_t>(thread.rank)];
    const auto& holds = plan_->holds[static_cast<size_t>(thread.rank)];
    const uint64_t index = rank.completions++;
    rank.window = window;
    for (; rank.next_hold < holds.size() && holds[rank.next_hold].completion == index; ++rank.next_hold)
        rules::send_notice(engine, thread, {window, holds[rank.next_hold].origin, beginning_of(holds[rank.next_hold]), 0}, thread.enter,
                           thread.delay, thread.enter_node);
    const auto& incoming = plan_->incoming[static_cast<size_t>(thread.rank)];
    for (; rank.next_incoming < incoming.size() && incoming[rank.next_incoming].completion == index; ++rank.next_incoming)
        depend(engine, thread, window, incoming[rank.next_incoming], beginning_of(incoming[rank.next_incoming]),
               incoming[rank.next_incoming].origin);
}

void Accesses::waiting(Engine& engine, Thread& thread, uint32_t window) {
    const auto& of_window = plan_->exposed[static_cast<size_t>(thread.rank)];
    const auto transfers = of_window.find(window);
    if (transfers == of_window.end()) return;
    auto& [next, epochs] = ranks_[static_cast<size_t>(thread.rank)].exposed[window];
    ++epochs;
    for (; next < transfers->second.size() && transfers->second[next].completion <= epochs; ++next)
        // Their origins have begun them before the notices that the call waits for.
        depend(engine, thread, window, transfers->second[next], end_of(transfers->second[next]), transfers->second[next].origin, false);
}

void Accesses::completed(Engine& engine, Thread& thread) {
    Rank& rank = ranks_[static_cast<size_t>(thread.rank)];
    const auto& holds = plan_->holds[static_cast<size_t>(thread.rank)];
    for (; rank.told < rank.next_hold; ++rank.told)
        rules::send_notice(engine, thread, {rank.window, holds[rank.told].origin, end_of(holds[rank.told]), 0}, thread.leave, thread.delay,
                           thread.node);
}

Accesses::Looked& Accesses::looked(const Thread& thread, uint32_t window) {
    return ranks_[static_cast<size_t>(thread.rank)].looked[window];
}

const NoticeCosts* Accesses::notice_costs(uint32_t window) const {
    const auto found = plan_->notices.find(window);
    return found == plan_->notices.end() ? nullptr : &found->second;
}

namespace rules {

LaneVector delay_if_first(Engine& engine, const Thread& thread, const AccessWait& wait) {
    const Lanes& lanes = engine.lanes();
    LaneVector delay = engine.lane_pool().copy(thread.delay);
    for (size_t i = 0; i < lanes.count; ++i) {
        // Lane 0 removes nothing; it is "all", too, where there is no noise.
        const bool of_all = (i > 0 || engine.faults().first_access_unremoved) &&
                            (i == lanes.all || (lanes.bounded() && (i == lanes.low || i == lanes.high)));
        if (of_all || delay[i] > wait.margin) delay[i] = never;
    }
    return delay;
}

namespace {

void constrain_first(Engine& engine, Thread& thread, const AccessWait& wait, Scratch& scratch) {
    if (!wait.waited || engine.faults().first_access_as_measured) return;
    const LaneVector& delay = scratch.vectors.emplace_back(delay_if_first(engine, thread, wait));
    scratch.constraints.push_back({wait.until, delay, {}, thread.enter_node});
    own_at_least(scratch, {wait.own, wait.own, wait.own, true});
}

}  // namespace

void constrain_access(Engine& engine, Thread& thread, const Dependency& dependency, Scratch& scratch) {
    const AccessWait& wait = *dependency.access;
    if (wait.incoming) return;  // behind what tells others of the call: constrain_incoming
    const auto other = [&](const Dependency& of) { return of.access == &wait && &of != &dependency; };
    const auto begun = std::find_if(thread.dependencies.begin(), thread.dependencies.end(), other);
    if (&*begun > &dependency) return;  // the beginning says nothing alone
    if (!begun->match || !dependency.match) return constrain_first(engine, thread, wait, scratch);
    const Match &beginning = *begun->match, &end = *dependency.match;
    const Lanes& lanes = engine.lanes();
    const LaneVector asked = engine.lane_pool().copy(thread.delay);
    const bool at_once = engine.faults().accesses_ask_at_once;
    const int64_t asks = thread.enter + (at_once ? 0 : wait.own), guarded = beginning.send_time + (at_once ? 0 : wait.guards);
    const bool behind = !wait.waited && guarded < asks;  // it came when the target's call was over
    if (behind && end.send_time > thread.leave - noise_after(thread.pieces, thread.enter)) return;  // … or was let pass
    int64_t measured = behind ? asks : std::min(asks, guarded - 1);
    if (wait.waited) {
        // Behind its own work, and the noise that hit before the target's call began; at the latest as accesses had to wait for that.
        measured = asks;
        if (thread.enter < beginning.send_time)
            for (const NoisePiece& piece : thread.pieces) {
                measured += piece.end - piece.begin;
                remove_noise(asked, lanes.masks[piece.account].data(), piece.end - piece.begin, lanes.count);
            }
        measured = std::max(measured, guarded);
    }
    // What did not wait in the measured run is not bound by that call's measured end.
    const int64_t time = wait.waited ? std::min(end.send_time, thread.leave) : thread.enter;
    const LaneVector& delay = scratch.vectors.emplace_back(engine.lane_pool().copy(end.send_delay));
    // In the lower bound it comes first where it may, in the upper one where it must: half of what is not known of the target's time is
    // taken to be its own, the other half to be the access's as well.
    const int64_t uncertain = lanes.bounded() ? (beginning.send_delay[lanes.low] - beginning.send_delay[lanes.high]) / 2 : 0;
    bool waits = wait.waited;
    for (size_t i = 0; i < lanes.count; ++i) {
        if (!wait.waited) delay[i] += time - end.send_time;
        int64_t guarded_at = guarded - beginning.send_delay[i];
        if (lanes.bounded() && i == lanes.low) guarded_at += uncertain;
        if (lanes.bounded() && i == lanes.high) guarded_at -= uncertain;
        const bool first = measured - asked[i] < guarded_at;
        if (first && !(wait.waited && engine.faults().accesses_always_wait))
            delay[i] = never;
        else
            waits = true;
    }
    if (!waits) return;
    scratch.constraints.push_back({time, delay, {}, end.send_node});
    if (wait.waited) own_at_least(scratch, {wait.own, wait.own, wait.own, true});
}

}  // namespace rules

}  // namespace polter::replay
