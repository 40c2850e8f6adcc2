// SPDX-License-Identifier: BSD-3-Clause
// Neighbourhood collectives.
//
// In words: a member tells those that it sends to that it has come, and waits for those that it receives from; who they are is a
// property of the communicator's topology. A neighbour with nothing to give (v-forms) need not be waited for: only those count that
// came before one's own measured leave. A non-blocking one tells at its start, and its completion waits; the k-th of each pair belong
// together, apart from blocking ones.
#include "internal.hpp"

namespace polter::replay::rules {

void publish_neighbours(Engine& engine, Thread& thread, const Operation& operation) {
    const Neighbours* neighbours = engine.neighbours(operation.comm, thread.rank);
    if (!neighbours) return;
    for (const int32_t to : neighbours->out)
        send_notice(engine, thread, {operation.comm, to, Notice::neighbour, 0}, thread.enter, thread.delay, thread.enter_node);
    for (const int32_t from : neighbours->in) {
        Match* match = ask_for_notice(engine, thread, operation.comm, Notice::neighbour, from);
        thread.dependencies.push_back({.kind = Dependency::Kind::message, .release = true, .notice = true, .match = match});
    }
}

void publish_neighbour_request(Engine& engine, Thread& thread, const Operation& operation) {
    const Neighbours* neighbours = operation.posted_known ? engine.neighbours(operation.comm, thread.rank) : nullptr;
    if (!neighbours) {
        engine.count(Flaw::unknown_communicator);
        return;
    }
    for (const int32_t to : neighbours->out)
        send_notice(engine, thread, {operation.comm, to, Notice::neighbour_request, 0}, thread.enter, thread.delay, thread.enter_node);
    auto& asked = engine.process(thread).neighbours;
    for (const int32_t from : neighbours->in)
        asked.emplace_back(operation.request, ask_for_notice(engine, thread, operation.comm, Notice::neighbour_request, from));
}

void publish_neighbour_complete(Engine& engine, Thread& thread, const Operation& operation) {
    ++thread.completions;
    std::erase_if(engine.process(thread).neighbours, [&](const auto& asked) {
        if (asked.first != operation.request) return false;
        thread.dependencies.push_back(
            {.kind = Dependency::Kind::message, .own_posting = true, .release = true, .notice = true, .match = asked.second});
        return true;
    });
}

}  // namespace polter::replay::rules
