// SPDX-License-Identifier: BSD-3-Clause
// Partitioned communication.
//
// In words: a partitioned send is one message, which leaves in the Pready that made the last of its parts ready (with no parts at all: as
// it starts); its receive is posted by its start. Completion is that of other sends and receives. Such requests match only each other: the
// k-th initialisation of one side with the k-th of the other, and of these the n-th start with the n-th (MPI-4.0, section 4.2.2). What
// they cost, and whether a send waits for its receive, is learned apart from other messages: both sides have to agree before data can go.
//
// A Parrived that succeeds depends on the part it asked for alone, and no record tells when that part became ready. If the whole message
// had left by then, it may have waited for all of it (libraries that send no parts do): so it is taken. Else the part went before, and
// nothing is known but that. The bounds hold what else it may have been (rules/unrecorded.cpp).
#include "internal.hpp"

namespace polter::replay::rules {

// The message of the request is asked for without being taken. Soft: the sender may have heard from this thread since, and only then made
// the last part ready.
void publish_part_arrived(Engine& engine, Thread& thread, const Operation& operation) {
    const int32_t source = engine.world_rank(thread, operation.comm, operation.peer);
    Match* match = nullptr;
    engine.process(thread).requests.each([&](const RequestKey&, Request* request) {
        Match* open = request->kind == Request::Kind::receive ? request->match : nullptr;
        if (open && open->partitioned == operation.partitioned && open->source == source && open->comm == operation.comm &&
            open->tag == operation.tag)
            match = open;
    });
    if (!match) {
        engine.count(Flaw::unknown_request);
        return;
    }
    ++match->users;
    thread.dependencies.push_back({.kind = Dependency::Kind::message, .own_posting = true, .release = true, .soft = true, .match = match});
}

}  // namespace polter::replay::rules
