// SPDX-License-Identifier: BSD-3-Clause
// Non-blocking messages that the trace records without their requests: a call by the name of MPI_Irecv without a record, MpiSend in one
// by the name of MPI_Isend, MpiRecv in a Wait or Test.
//
// In words: a message that was received belongs to the earliest call that posted a receive and has not completed. A Waitall completes all
// of its list, so what it leaves behind is taken after newer ones, and forgotten (MPI_PROC_NULL) when two of them have left it. Where
// another posting could be meant and it would matter, the match is uncertain. A Wait without a message completes the earliest send, a
// Waitall all of them: those that follow receives too, unless a Wait without a message comes before the next send. That is known only
// behind it, so the learning pass keeps it among the postings. A Startall posts as many receives as complete before the next Startall.
#include <algorithm>

#include "internal.hpp"

namespace polter::replay::rules {

namespace {

constexpr size_t most_kept = 4096;            // of one thread
constexpr uint32_t most_started = 64;         // receives of one Startall that are known at their posting
constexpr int64_t longest_burst_ns = 20'000;  // postings one after the other: which of them is meant matters less than the cost of a call
constexpr uint64_t unrecorded_request = uint64_t{1} << 63, unrecorded_send = uint64_t{1} << 62;

bool completes(const Thread& thread) {
    return thread.kind == CallKind::wait || thread.kind == CallKind::wait_any || thread.kind == CallKind::poll ||
           thread.kind == CallKind::poll_any;
}

bool records_requests(const Thread& thread) {
    return std::any_of(thread.operations.begin(), thread.operations.end(),
                       [](const Operation& operation) { return operation.kind != Operation::Kind::send; });
}

// By how much the estimate may change if another of them is meant.
int64_t ambiguity(const std::vector<UnrecordedPosting>& postings, const UnrecordedPosting& taken) {
    int64_t earliest = taken.time, latest = taken.time, delays = 0;
    for (const UnrecordedPosting& other : postings) {
        earliest = std::min(earliest, other.time);
        latest = std::max(latest, other.time);
        delays = std::max(delays, std::abs(other.delay - taken.delay));
    }
    return delays + (latest - earliest > longest_burst_ns ? latest - earliest : 0);
}

void complete(Engine& engine, Thread& thread, Operation& operation, std::vector<UnrecordedPosting>& postings) {
    auto place = std::find_if(postings.begin(), postings.end(), [](const auto& posting) { return posting.left_behind == 0; });
    if (place == postings.end()) place = postings.begin();
    const UnrecordedPosting taken = *place;
    if (!engine.posted_for({thread.index, taken.index})) {
        engine.completed({thread.index, taken.index}, {operation.comm, operation.peer, operation.tag});
    } else {
        operation.kind = Operation::Kind::irecv_complete;
        operation.request = unrecorded_request | taken.index;
        const int32_t source = engine.world_rank(thread, operation.comm, operation.peer);
        const Thread* sender = source == no_rank ? nullptr : engine.processes()[static_cast<size_t>(source)].thread;
        const bool waited_for =
            !engine.learning() && sender && engine.model().rendezvous(sender->host == thread.host, false, operation.size);
        if (const int64_t change = waited_for ? ambiguity(postings, taken) : 0; change > 0) {
            engine.count(Flaw::uncertain_order);
            engine.leaves_open(Flaw::uncertain_order, thread.enter, thread.leave, change);
        }
    }
    place->some_completed = true;
    ++place->index;
    if (--place->most == 0) postings.erase(place);
}

void post(Engine& engine, Thread& thread, std::vector<UnrecordedPosting>& postings, uint32_t most = 1) {
    if (postings.size() == most_kept) postings.erase(postings.begin());
    const Lanes& lanes = engine.lanes();
    const uint64_t first = thread.postings + 1;
    postings.push_back({.index = first, .time = thread.enter, .delay = lanes.count > 0 ? thread.delay[lanes.all] : 0, .most = most});
    thread.postings += most;
    for (uint64_t index = first; index < first + most && engine.posted_for({thread.index, index}); ++index)
        thread.operations.push_back(
            {.kind = Operation::Kind::irecv_post, .request = unrecorded_request | index, .time = thread.enter, .posting = index});
}

void forget_send(Engine& engine, Thread& thread, uint64_t request) {
    publish_cancelled(engine, thread, {.kind = Operation::Kind::cancelled, .request = request});
}

void begin_sends(Engine& engine, Thread& thread, UnrecordedRequests& requests) {
    for (Operation& operation : thread.operations) {
        if (operation.kind != Operation::Kind::send) continue;
        if (!requests.undecided.empty()) {  // nothing else has completed those before
            for (const uint64_t request : requests.sends) forget_send(engine, thread, request);
            requests.sends.clear();
            requests.undecided.clear();
        }
        if (requests.sends.size() == most_kept) {
            forget_send(engine, thread, requests.sends.front());
            requests.sends.erase(requests.sends.begin());
        }
        operation.kind = Operation::Kind::isend;
        operation.request = unrecorded_request | unrecorded_send | ++requests.sends_begun;
        requests.sends.push_back(operation.request);
    }
}

// A list is started again only when all of it has completed: what is left of an earlier call was never there.
void start_all(Engine& engine, Thread& thread, UnrecordedRequests& requests) {
    begin_sends(engine, thread, requests);
    std::erase_if(requests.postings, [](const UnrecordedPosting& posting) { return posting.some_completed; });
    post(engine, thread, requests.postings, most_started);
}

bool complete_receives(Engine& engine, Thread& thread, std::vector<UnrecordedPosting>& postings) {
    bool any = false;
    for (Operation& operation : thread.operations) {
        if (operation.kind != Operation::Kind::receive) continue;
        any = true;
        if (!postings.empty()) complete(engine, thread, operation, postings);
    }
    if (any && of(engine).learned.calls.complete_all.contains(thread.region)) {
        for (UnrecordedPosting& posting : postings) ++posting.left_behind;
        std::erase_if(postings, [](const UnrecordedPosting& posting) { return posting.left_behind > 1; });
    }
    return any;
}

void complete_sends(Engine& engine, Thread& thread, UnrecordedRequests& requests, bool receives) {
    const bool all = of(engine).learned.calls.complete_all.contains(thread.region), known = engine.facts().postings != nullptr;
    if (requests.sends.empty() || thread.kind != CallKind::wait || (receives ? !all : !thread.operations.empty())) return;
    if (receives) {
        const uint64_t call = ++thread.postings;
        if (!known) return requests.undecided.push_back(call);
        if (engine.posted_for({thread.index, call})) return;  // a later call completes them
    }
    if (!known)
        for (const uint64_t call : requests.undecided) engine.completed({thread.index, call}, {});
    requests.undecided.clear();
    const auto end = requests.sends.begin() + (all ? static_cast<std::ptrdiff_t>(requests.sends.size()) : 1);
    for (auto request = requests.sends.begin(); request != end; ++request)
        thread.operations.push_back({.kind = Operation::Kind::isend_complete, .request = *request, .time = thread.leave});
    requests.sends.erase(requests.sends.begin(), end);
}

}  // namespace

void follow_unrecorded_requests(Engine& engine, Thread& thread) {
    const MessageCalls& calls = of(engine).learned.calls;
    if (!thread.carries_rank) return;
    const bool all_started = calls.begin_all.contains(thread.region) && !records_requests(thread),
               posts = calls.post_receive.contains(thread.region) && thread.operations.empty(),
               sends = calls.begin_send.contains(thread.region);
    if (!posts && !sends && !all_started && !completes(thread)) return;
    std::vector<UnrecordedRequests>& all = of(engine).unrecorded_requests;
    if (thread.index >= all.size()) {
        if (!posts && !sends && !all_started) return;  // there are none to complete
        all.resize(thread.index + size_t{1});
    }
    UnrecordedRequests& requests = all[thread.index];
    if (all_started) return start_all(engine, thread, requests);
    if (posts) return post(engine, thread, requests.postings);
    if (sends) return begin_sends(engine, thread, requests);
    complete_sends(engine, thread, requests, complete_receives(engine, thread, requests.postings));
}

}  // namespace polter::replay::rules
