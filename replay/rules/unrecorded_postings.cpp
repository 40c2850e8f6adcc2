// SPDX-License-Identifier: BSD-3-Clause
// Non-blocking receives that the trace records without their requests: a call by the name of MPI_Irecv without a record, and the message
// in a Wait or Test.
//
// In words: such a message belongs to the earliest call that posted a receive and has not completed. A Waitall completes all of its
// list, so what it leaves behind is taken after newer ones, and forgotten (MPI_PROC_NULL) when two of them have left it. Where another
// posting could be meant and it would matter, the match is uncertain.
#include <algorithm>

#include "internal.hpp"

namespace polter::replay::rules {

namespace {

constexpr size_t most_kept = 4096;            // of one thread
constexpr int64_t longest_burst_ns = 20'000;  // postings one after the other: which of them is meant matters less than the cost of a call
constexpr uint64_t unrecorded_request = uint64_t{1} << 63;

bool completes(const Thread& thread) {
    return thread.kind == CallKind::wait || thread.kind == CallKind::wait_any || thread.kind == CallKind::poll ||
           thread.kind == CallKind::poll_any;
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
    postings.erase(place);
}

}  // namespace

void follow_unrecorded_postings(Engine& engine, Thread& thread) {
    const MessageCalls& calls = of(engine).learned.calls;
    if (calls.post_receive.empty() || !thread.carries_rank) return;
    if (calls.post_receive.contains(thread.region)) {
        if (!thread.operations.empty()) return;
        auto& postings = of(engine).unrecorded_postings[thread.index];
        if (postings.size() == most_kept) postings.erase(postings.begin());
        const Lanes& lanes = engine.lanes();
        const uint64_t index = thread.postings + 1;
        postings.push_back({index, thread.enter, lanes.count > 0 ? thread.delay[lanes.all] : 0, 0});
        if (engine.posted_for({thread.index, index}))
            thread.operations.push_back({.kind = Operation::Kind::irecv_post, .request = unrecorded_request | index, .time = thread.enter});
        else
            thread.postings = index;
        return;
    }
    if (!completes(thread)) return;
    const auto found = of(engine).unrecorded_postings.find(thread.index);
    if (found == of(engine).unrecorded_postings.end()) return;
    auto& postings = found->second;
    bool completed = false;
    for (Operation& operation : thread.operations) {
        if (operation.kind != Operation::Kind::receive || postings.empty()) continue;
        complete(engine, thread, operation, postings);
        completed = true;
    }
    if (!completed || !calls.complete_all.contains(thread.region)) return;
    for (UnrecordedPosting& posting : postings) ++posting.left_behind;
    std::erase_if(postings, [](const UnrecordedPosting& posting) { return posting.left_behind > 1; });
}

}  // namespace polter::replay::rules
