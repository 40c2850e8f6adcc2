// SPDX-License-Identifier: BSD-3-Clause
// What a call can depend on: one entry for each kind, with all that the engine and the rules do about it.
#include <algorithm>

#include "internal.hpp"

namespace polter::replay::rules {

namespace {

bool finished(const Thread* thread) {
    return !thread || thread->state == Thread::State::finished;
}

Thread* thread_of(Engine& engine, int32_t rank) {
    return engine.processes()[static_cast<size_t>(rank)].thread;
}

bool never(Engine&, const Dependency&) {
    return false;
}

// ---- the message that a receive takes; a notice ------------------------------------------------------------------------------------

bool message_sent(Engine&, const Dependency& dependency) {
    return dependency.match == nullptr || dependency.match->sent;
}

void wait_for_message(Engine&, Thread& thread, const Dependency& dependency) {
    dependency.match->receiver_waits = &thread;
}

bool sender_finished(Engine& engine, const Dependency& dependency) {
    return dependency.match->source == no_rank || finished(thread_of(engine, dependency.match->source));
}

void give_up_message(Engine& engine, Thread& thread, Dependency& dependency) {
    dependency.match->receiver_waits = nullptr;
    if (dependency.access) {  // its notices still come, and find what asked for them
        for (Dependency& other : thread.dependencies)
            if (other.access == dependency.access) other.match = nullptr;
        return;
    }
    if (dependency.soft) {  // it is asked for again
        if (dependency.release) engine.release(dependency.match);
        dependency.match = nullptr;
        return;
    }
    engine.count(Flaw::unmatched_receive);
    engine.leaves_open(Flaw::unmatched_receive, thread.enter, thread.leave, thread.leave - thread.enter);
    thread.unrecorded = true;        // it waited for somebody, or it did not
    if (of(engine).farm_learning) {  // whose messages the trace does not have all is no worker that could be known
        auto& evidence = of(engine).farm_learning->evidence;
        const auto pair = evidence.find({thread.rank, dependency.match->source});
        if (pair != evidence.end()) ++pair->second.foreign;
    }
    for (Dependency& request : thread.dependencies)
        if (request.kind == Dependency::Kind::request && request.match == dependency.match) request.match = nullptr;
    std::erase_if(engine.process(thread).set_aside, [&](const auto& aside) { return aside.second == dependency.match; });
    engine.release(dependency.match);
    dependency.match = nullptr;
}

void constrain_by_message(Engine& engine, Thread& thread, const Dependency& dependency, Scratch& scratch) {
    if (dependency.access) return constrain_access(engine, thread, dependency, scratch);
    if (dependency.match) (dependency.notice ? constrain_notice : constrain_message)(engine, thread, dependency, scratch);
}

// ---- the posting of the receive that a synchronous send waits for ------------------------------------------------------------------

bool receive_posted(Engine&, const Dependency& dependency) {
    return dependency.match == nullptr || dependency.match->posted || dependency.match->refused;
}

void wait_for_posting(Engine&, Thread& thread, const Dependency& dependency) {
    dependency.match->sender_waits = &thread;
}

bool receiver_finished(Engine& engine, const Dependency& dependency) {
    return finished(thread_of(engine, dependency.match->destination));
}

void give_up_posting(Engine& engine, Thread&, Dependency& dependency) {
    // The receive may lie behind a wildcard whose match is not known yet: then the send is taken as eager. If its rank has ended there is
    // none: an unmatched message, whenever that is found out.
    if (!receiver_finished(engine, dependency)) engine.count(Flaw::uncertain_order);
    dependency.match->sender_waits = nullptr;
    dependency.match->synchronous = false;
    engine.release(dependency.match);
    dependency.match = nullptr;
}

void constrain_by_posting(Engine& engine, Thread& thread, const Dependency& dependency, Scratch& scratch) {
    if (dependency.match && dependency.match->posted) constrain_posting(engine, thread, dependency, scratch);
}

// ---- the members of a collective ---------------------------------------------------------------------------------------------------

bool members_came(Engine&, const Dependency& dependency) {
    return dependency.collective == nullptr || collective_ready(*dependency.collective, dependency.member);
}

void wait_for_members(Engine&, Thread& thread, const Dependency& dependency) {
    dependency.collective->waiting.push_back(&thread);
}

bool members_finished(Engine& engine, const Dependency& dependency) {
    const Collective& c = *dependency.collective;
    const Communicator& comm = *engine.communicator(c.comm);
    size_t place = 0;
    for (const auto* ranks : {&comm.ranks, &comm.remote})
        for (const int32_t rank : *ranks) {
            const bool to_come = !c.members[place++].thread;
            if (to_come && rank >= 0 && !finished(thread_of(engine, rank))) return false;
        }
    return true;
}

void give_up_members(Engine& engine, Thread& thread, Dependency& dependency) {
    Collective& c = *dependency.collective;
    Collective::Member& member = c.members[dependency.member];
    // Who left before another came, where not all need be waited for, has not waited for that one.
    const bool waited = c.waits != Waits::n_to_n_likely || members_finished(engine, dependency);
    const bool sends_alone = member.held || (c.awaits_all && came_who_counts(c, dependency.member));
    if (waited && !sends_alone) {
        engine.count(Flaw::unmatched_collective);
        engine.leaves_open(Flaw::unmatched_collective, thread.enter, thread.leave, thread.leave - thread.enter);
        thread.unrecorded = true;
    }
    member.released = true;
}

void constrain_by_members(Engine& engine, Thread& thread, const Dependency& dependency, Scratch& scratch) {
    if (dependency.collective) constrain_collective(engine, thread, dependency, scratch);
}

// ---- the message that a probe finds ------------------------------------------------------------------------------------------------

bool message_there(Engine&, const Dependency& dependency) {
    return dependency.channel == nullptr || (dependency.channel->head && dependency.channel->holds_messages);
}

void wait_for_any_message(Engine&, Thread& thread, const Dependency& dependency) {
    dependency.channel->probing.push_back(&thread);
}

void give_up_probe(Engine& engine, Thread& thread, Dependency& dependency) {
    engine.count(Flaw::unmatched_receive);
    engine.leaves_open(Flaw::unmatched_receive, thread.enter, thread.leave, thread.leave - thread.enter);
    thread.unrecorded = true;
    std::erase(dependency.channel->probing, &thread);
    dependency.channel = nullptr;
}

// ---- a master's request: who else may ask first decides ----------------------------------------------------------------

bool workers_known(Engine& engine, const Dependency& dependency) {
    if (!dependency.soft || (!dependency.match && !dependency.channel)) return true;
    const int32_t master = dependency.channel ? static_cast<int32_t>(dependency.channel->key.destination) : dependency.match->destination;
    return of(engine).farms->ready(*thread_of(engine, master));
}

void wait_for_workers(Engine& engine, Thread& thread, const Dependency&) {
    of(engine).farms->wait(thread);
}

void give_up_request(Engine&, Thread&, Dependency& dependency) {
    dependency.soft = false;  // those who have asked are all there are
}

void constrain_nothing(Engine&, Thread&, const Dependency&, Scratch&) {}

// ---- a lock's turn -----------------------------------------------------------------------------------------------------------------

bool lock_granted(Engine&, const Dependency& dependency) {
    return dependency.epoch->granted;
}

void wait_for_lock(Engine&, Thread& thread, const Dependency& dependency) {
    dependency.epoch->thread = &thread;
}

void give_up_lock(Engine& engine, Thread&, Dependency& dependency) {
    of(engine).locks->turns()->give(*dependency.epoch);
}

// ---- what another thread of the process does ---------------------------------------------------------------------------------------

bool thread_came(Engine&, const Dependency& dependency) {
    return dependency.event == nullptr || dependency.event->known;
}

void wait_for_thread(Engine&, Thread& thread, const Dependency& dependency) {
    dependency.event->waiting.push_back(&thread);
}

bool thread_finished(Engine&, const Dependency& dependency) {
    return finished(dependency.event->by);
}

void give_up_thread(Engine& engine, Thread& thread, Dependency& dependency) {
    engine.count(Flaw::thread_missing);
    engine.leaves_open(Flaw::thread_missing, thread.enter, thread.leave, thread.leave - thread.enter);
    std::erase(dependency.event->waiting, &thread);
    dependency.event = nullptr;
}

}  // namespace

constinit const DependencyRules dependency_rules{{
    /* message */ {message_sent, wait_for_message, sender_finished, give_up_message, constrain_by_message},
    /* posting */ {receive_posted, wait_for_posting, receiver_finished, give_up_posting, constrain_by_posting},
    /* collective */ {members_came, wait_for_members, members_finished, give_up_members, constrain_by_members},
    /* probe */ {message_there, wait_for_any_message, never, give_up_probe, constrain_probe},
    /* request */ {workers_known, wait_for_workers, never, give_up_request, constrain_nothing},
    /* lock */ {lock_granted, wait_for_lock, never, give_up_lock, constrain_turn},
    /* thread */ {thread_came, wait_for_thread, thread_finished, give_up_thread, constrain_by_thread},
}};

}  // namespace polter::replay::rules
