// SPDX-License-Identifier: BSD-3-Clause
// In words: what min_plus.cpp evaluates as delays is written down as times. A wait's cost is what is left of the measured end behind it,
// less the noise of the completion overhead and the residual; so the latest of the waits is the approximated end, and with the noise the
// measured one.
#include "program_recorder.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "replay/rules/internal.hpp"

namespace polter::replay {

namespace {

constexpr size_t all = 1;  // the lane that removes the noise

const char* why_not_covered(const Thread& thread) {
    switch (thread.kind) {
        case CallKind::poll:
        case CallKind::poll_matched:
        case CallKind::poll_any:
        case CallKind::probe:
        case CallKind::matched_probe:
        case CallKind::matched_receive:
            return "probes and tests of requests (MPI_Probe, MPI_Iprobe, MPI_Test)";
        case CallKind::win_post:
        case CallKind::win_start:
        case CallKind::win_complete:
        case CallKind::win_wait:
        case CallKind::window:
        case CallKind::win_lock:
        case CallKind::win_unlock:
        case CallKind::win_flush:
            return "one-sided communication";
        case CallKind::file:
        case CallKind::file_begin:
        case CallKind::file_end:
            return "collectives of files";
        case CallKind::neighbourhood:
            return "neighbourhood collectives";
        case CallKind::partitioned_init:
        case CallKind::part_arrived:
            return "partitioned communication";
        case CallKind::thread_barrier:
        case CallKind::thread_dynamic_barrier:
        case CallKind::thread_idle:
        case CallKind::thread_join:
        case CallKind::thread_wait:
        case CallKind::thread_lock:
        case CallKind::thread_condition:
            return "parallel regions of threads";
        default:
            return thread.unrecorded ? "calls that may have waited without a record of whom for" : nullptr;
    }
}

}  // namespace

ProgramRecorder::ProgramRecorder(int32_t ranks, uint64_t most_calls) : ranks_(static_cast<size_t>(ranks)), most_calls_(most_calls) {
    programs_.ranks.resize(static_cast<size_t>(ranks));
}

bool ProgramRecorder::full() {
    if (programs_.calls < most_calls_) return false;
    programs_.not_covered["more MPI calls than fit into memory"] = 1;
    return true;
}

uint32_t ProgramRecorder::link(Rank& rank, Program& program, bool out, int32_t peer, uint32_t comm, uint32_t tag) {
    const auto [found, fresh] = rank.links.try_emplace({out, peer, comm, tag}, static_cast<uint32_t>(program.links.size()));
    if (fresh) {
        program.links.push_back({.out = out, .peer = peer, .comm = comm, .tag = tag});
        rank.received.push_back(0);
    }
    return found->second;
}

void ProgramRecorder::send(Engine& engine, Thread& thread, const Operation& operation, bool only_send) {
    const int32_t to = engine.world_rank(thread, operation.comm, operation.peer);
    if (to == no_rank || to == thread.rank) return not_covered("messages to a rank itself, or to one that the trace lacks");
    Rank& rank = ranks_[static_cast<size_t>(thread.rank)];
    Program& program = programs_.ranks[static_cast<size_t>(thread.rank)];
    const uint32_t of = link(rank, program, true, to, operation.comm, operation.tag);
    const uint32_t number = program.links[of].messages++;
    constexpr int64_t call_ns = 1000, bytes_a_ns = 20;  // as in rules/send.cpp
    const int64_t length = thread.leave - thread.enter;
    const int64_t own = only_send ? length : std::min(length, call_ns + static_cast<int64_t>(operation.size / bytes_a_ns));
    program.sends.push_back({of, own, false});
    ++rank.call.sends;
    const Match* match = nullptr;
    if (operation.kind == Operation::Kind::isend) {
        const Request* request = engine.find_request(thread, operation.request);
        if (request && request->kind == Request::Kind::send) match = request->match;
    } else {
        for (const Dependency& dependency : thread.dependencies)
            if (dependency.kind == Dependency::Kind::posting && dependency.match && dependency.match->destination == to &&
                dependency.match->tag == operation.tag && !rank.sent.contains(dependency.match))
                match = dependency.match;
    }
    if (!match || !match->synchronous) return;
    rank.sent[match] = {of, number};
    program.sends.back().awaited = true;
}

// The next receive of its link is posted in this call.
void ProgramRecorder::expect(Engine&, Thread& thread, const Match* match) {
    Rank& rank = ranks_[static_cast<size_t>(thread.rank)];
    if (!match || rank.expected.contains(match)) return;
    if (match->source == no_rank || match->source == thread.rank)
        return not_covered("messages to a rank itself, or to one that the trace lacks");
    Program& program = programs_.ranks[static_cast<size_t>(thread.rank)];
    const uint32_t of = link(rank, program, false, match->source, match->comm, match->tag);
    rank.expected[match] = {of, rank.received[of]++};
    ++program.links[of].messages;
    program.posts.push_back(of);
    ++rank.call.posts;
}

void ProgramRecorder::published(Engine& engine, Thread& thread) {
    if (thread.rank < 0 || !thread.carries_rank) {
        if (thread.in_team) not_covered("parallel regions of threads");
        return;
    }
    Rank& rank = ranks_[static_cast<size_t>(thread.rank)];
    rank.call = {};
    rank.concludes = !full();
    if (!rank.concludes) return;
    if (const char* why = why_not_covered(thread)) not_covered(why);
    const bool only_send = thread.operations.size() == 1;
    for (const Operation& operation : thread.operations) {
        switch (operation.kind) {
            case Operation::Kind::send:
            case Operation::Kind::isend:
                send(engine, thread, operation, only_send);
                break;
            case Operation::Kind::irecv_post:
                if (const Request* request = engine.find_request(thread, operation.request); request && request->match)
                    expect(engine, thread, request->match);
                break;
            case Operation::Kind::cancelled:
                not_covered("cancelled requests");
                break;
            case Operation::Kind::collective_request:
            case Operation::Kind::collective_complete:
                not_covered("non-blocking collectives");
                break;
            default:
                break;
        }
    }
    for (const Dependency& dependency : thread.dependencies)
        if (dependency.kind == Dependency::Kind::message && !dependency.notice) expect(engine, thread, dependency.match);
}

// What a v-form with a root moves, to three binary digits: there are many amounts, and each would be an algorithm of its own.
static uint64_t data_between_root_and_others(const Collective& c) {
    uint64_t bytes = 0;
    for (const Collective::Member& member : c.members) bytes += std::min(member.part, std::numeric_limits<uint64_t>::max() / 2 - bytes);
    const int left_out = std::max(0, static_cast<int>(std::bit_width(bytes)) - 3);
    return std::max<uint64_t>(1, bytes >> left_out << left_out);
}

// Costs for so many bytes, of which each member has as many as the others, of costs for BlockSizes::unit.
static Structure for_data(Structure structure, uint64_t bytes) {
    const double part = static_cast<double>(bytes) / static_cast<double>(BlockSizes::unit);
    structure.hop_data = std::llround(static_cast<double>(structure.hop_data) * part);
    structure.own_data = std::llround(static_cast<double>(structure.own_data) * part);
    if (structure.any_rendezvous())
        structure.eager_ppm =
            std::llround(std::min(static_cast<double>(Structure::all_eager), static_cast<double>(structure.eager_ppm) / part));
    return structure;
}

void ProgramRecorder::concluding(Engine& engine, Thread& thread) {
    if (thread.rank < 0 || !thread.carries_rank) return;
    Rank& rank = ranks_[static_cast<size_t>(thread.rank)];
    if (!rank.concludes) return;
    Program& program = programs_.ranks[static_cast<size_t>(thread.rank)];
    rank.enter_approximated = thread.enter - thread.delay[all];
    if (thread.dependencies.size() != 1 || thread.dependencies[0].kind != Dependency::Kind::collective || !thread.dependencies[0].collective)
        return;
    const Collective& c = *thread.dependencies[0].collective;
    const uint32_t member = thread.dependencies[0].member;
    if (c.nonblocking) return not_covered("non-blocking collectives");
    if (c.members[member].released) return not_covered("collectives that a rank must have left before others come");
    const bool by_root = has_sizes_by_root(c.operation);
    if (has_sizes_by_member(c.operation) && !by_root)
        return not_covered("Allgatherv or Reduce_scatter, of which more ranks' parts are not known");
    if (c.arrived < c.members.size() && c.waits == Waits::n_to_n) not_covered("collectives that not all members came to");
    ProgramCollective collective{.comm = c.comm, .root = c.root, .operation = c.operation, .waits = c.waits};
    collective.enter = thread.enter;
    collective.leave = thread.leave;
    collective.approximated_enter = rank.enter_approximated;
    const LearnedStructure* learned = engine.learned_structure(c, member, c.members[member].size);
    const std::optional<Structure>* structure = !learned ? nullptr : learned->structure ? &learned->structure : &learned->likeliest;
    if (structure && *structure && !c.partition) {
        const uint64_t data = by_root && c.arrived == c.members.size() ? data_between_root_and_others(c) : 0;
        const auto [found, fresh] = structures_.try_emplace({learned, data}, static_cast<int32_t>(programs_.structures.size()));
        if (fresh) programs_.structures.push_back(data == 0 ? **structure : for_data(**structure, data));
        collective.structure = found->second;
    }
    const Communicator* communicator = engine.communicator(c.comm);
    if (communicator && !communicator->remote.empty()) not_covered("collectives between two groups of ranks");
    if (communicator) programs_.communicators.try_emplace(c.comm, communicator->ranks);
    rank.call.collective = static_cast<int32_t>(program.collectives.size());
    program.collectives.push_back(collective);
}

ProgramWait ProgramRecorder::wait_for(Thread& thread, const Match& match, bool posting) {
    Rank& rank = ranks_[static_cast<size_t>(thread.rank)];
    ProgramWait wait{.what = posting ? ProgramWait::What::posting : ProgramWait::What::sending};
    const auto& known = match.destination == thread.rank ? rank.expected : rank.sent;
    const auto found = known.find(&match);
    if (found == known.end())
        not_covered("messages whose sends and receives cannot be told apart");
    else
        std::tie(wait.link, wait.message) = found->second;
    return wait;
}

void ProgramRecorder::waited(Engine&, Thread& thread, const Scratch& scratch, const CallEnd& end) {
    if (thread.rank < 0 || !thread.carries_rank) return;
    Rank& rank = ranks_[static_cast<size_t>(thread.rank)];
    if (!rank.concludes) return;
    Program& program = programs_.ranks[static_cast<size_t>(thread.rank)];
    if (scratch.elastic) not_covered("calls that wait for their own transfers");
    rank.call.tail = std::max<int64_t>(0, end.tail - end.noise);
    rank.call.tail_noise = end.removed;
    int64_t bound_end = thread.enter + scratch.own.mid;
    const Constraint* bound = nullptr;
    for (const Constraint& constraint : scratch.constraints)
        if (constraint.time + constraint.cost.mid > bound_end) {
            bound = &constraint;
            bound_end = constraint.time + constraint.cost.mid;
        }
    const auto cost = [&](int64_t time, const Cost& model, bool binds) {
        const int64_t most = thread.leave - end.noise - time;
        return (binds ? most : std::min(most, model.mid)) + end.noise - end.removed;
    };
    // With nothing to wait for all of a call is its own work.
    program.waits.push_back({.cost = cost(thread.enter, scratch.own, bound == nullptr)});
    ++rank.call.waits;
    for (const Constraint& constraint : scratch.constraints) {
        if (!constraint.match) {
            not_covered("calls that wait for something else than messages");
            continue;
        }
        const Match& match = *constraint.match;
        ProgramWait wait = wait_for(thread, match, constraint.posting);
        const int64_t since = constraint.posting ? match.post_time : match.send_time;
        wait.held = constraint.delay[all] - (constraint.posting ? match.post_delay : match.send_delay)[all];
        wait.cost = cost(constraint.time, constraint.cost, &constraint == bound) + (constraint.time - since - wait.held);
        program.waits.push_back(wait);
        ++rank.call.waits;
    }
    for (const Dependency& dependency : thread.dependencies) {
        if (dependency.kind == Dependency::Kind::message) {
            if (!dependency.match) not_covered("receives without a message");
            rank.expected.erase(dependency.match);
        }
        if (dependency.kind == Dependency::Kind::posting) rank.sent.erase(dependency.match);
    }
}

void ProgramRecorder::ended(Engine&, Thread& thread) {
    if (thread.rank < 0 || !thread.carries_rank) return;
    Rank& rank = ranks_[static_cast<size_t>(thread.rank)];
    if (!rank.concludes) return;
    Program& program = programs_.ranks[static_cast<size_t>(thread.rank)];
    if (!rank.started) {
        rank.started = true;
        rank.last_leave = rank.last_approximated = thread.first;
    }
    rank.call.work = rank.enter_approximated - rank.last_approximated;
    rank.call.work_noise = thread.enter - rank.last_leave - rank.call.work;
    rank.last_leave = thread.leave;
    rank.last_approximated = thread.leave - thread.delay[all];
    if (rank.call.collective >= 0) program.collectives.back().approximated_leave = rank.last_approximated;
    program.calls.push_back(rank.call);
    ++programs_.calls;
}

void ProgramRecorder::cut_off(Thread& thread) {
    if (thread.carries_rank) not_covered("calls in which the trace ends");
}

void ProgramRecorder::noise(const Engine& engine, const Thread& thread, const PendingNoise& record, int64_t begin, int64_t end) {
    if (thread.rank < 0 || !thread.carries_rank || begin >= end || engine.lanes().masks[record.account][all] == 0) return;
    programs_.ranks[static_cast<size_t>(thread.rank)].noise.push_back({begin, end});
}

Programs ProgramRecorder::finish(const Engine& engine) {
    programs_.first = INT64_MAX;
    programs_.last = INT64_MIN;
    for (const auto& thread : engine.threads()) {
        if (!thread->carries_rank || thread->rank < 0) continue;
        Program& program = programs_.ranks[static_cast<size_t>(thread->rank)];
        Rank& rank = ranks_[static_cast<size_t>(thread->rank)];
        if (!thread->started) {
            not_covered("ranks without events");
            continue;
        }
        program.rank = thread->rank;
        program.host = thread->host;
        program.first = thread->first;
        if (!rank.started) rank.last_leave = rank.last_approximated = thread->first;
        program.rest = thread->last - thread->delay[all] - rank.last_approximated;
        program.rest_noise = thread->last - rank.last_leave - program.rest;
        std::sort(program.noise.begin(), program.noise.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
        programs_.first = std::min(programs_.first, thread->first);
        programs_.last = std::max(programs_.last, thread->last);
    }
    for (const Program& program : programs_.ranks)
        if (program.rank < 0) not_covered("ranks without events");
    return std::move(programs_);
}

}  // namespace polter::replay
