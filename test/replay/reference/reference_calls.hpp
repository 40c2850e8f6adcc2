// SPDX-License-Identifier: BSD-3-Clause
// A whole trace in memory, cut into calls; its messages and collectives, each matched by what MPI says and nothing else.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "../support/trace_spec.hpp"

namespace polter::test {

struct Noise {
    int64_t begin, end;  // measured time
    size_t account;
};

// An MPI call, or what lies between two of them. `from` and `to` are vertices: the events in which it begins and ends.
struct Call {
    size_t rank = 0;
    std::string name;  // empty: no call, the rank's own time
    size_t from = 0, to = 0;
    int64_t enter = 0, leave = 0;
    std::vector<const Record*> records;
    std::vector<Noise> noise;
};

struct Message {
    const Call *send = nullptr, *post = nullptr;  // post: the call in which its receive was posted; none: never received
    const Record* sent = nullptr;
};

struct CollectiveCall {
    uint32_t comm = 0;
    bool nonblocking = false;
    std::vector<const Call*> members;  // by rank of the communicator: the call with which each came
};

struct Calls {
    std::deque<Call> calls;
    std::vector<std::vector<size_t>> vertices;  // by rank
    std::vector<int64_t> times;                 // by vertex
    // By the record that sent, received, completed or found it.
    std::map<const Record*, const Message*> messages;
    std::map<const Record*, const CollectiveCall*> collectives;

    // `last_first`: a deliberate error.
    Calls(const TraceSpec&, bool last_first);
    Calls(const Calls&) = delete;
    Calls& operator=(const Calls&) = delete;

  private:
    void cut(const TraceSpec&, size_t rank);
    void match_messages(const TraceSpec&, bool last_first);
    void match_collectives(const TraceSpec&);

    std::deque<Message> message_;
    std::map<std::tuple<uint32_t, bool, size_t>, CollectiveCall> collective_;  // communicator, non-blocking, ordinal
};

// World ranks of a communicator's members.
std::vector<size_t> members_of(const TraceSpec&, uint32_t comm);

// For whom the members of a collective wait.
enum class Whom { all, all_that_came, root, root_all, lower };
Whom whom(int operation);

// For how long between two times any of the members was hit by such noise; what ended later does not count.
int64_t time_hit(const std::vector<const Call*>& members, int64_t from, int64_t to, const std::function<bool(const Noise&)>& counts);
// Of the member that was hit most meanwhile.
int64_t most_hit(const std::vector<const Call*>& members, int64_t from, int64_t to, const std::function<bool(const Noise&)>& counts);

}  // namespace polter::test
