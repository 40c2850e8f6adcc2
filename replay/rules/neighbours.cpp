// SPDX-License-Identifier: BSD-3-Clause
// Neighbourhood collectives.
//
// In words: a member tells those that it sends to that it has come, and waits for those that it receives from; who they are is a
// property of the communicator's topology. A neighbour with nothing to give (v-forms) need not be waited for: only those count that
// came before one's own measured leave.
#include "semantics.hpp"

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

}  // namespace polter::replay::rules
