// SPDX-License-Identifier: BSD-3-Clause
// Phases in which time decides what the program does next: completions in any order, polling, wildcards, task farms.
#include <algorithm>

#include "programs.hpp"
#include "random.hpp"

namespace polter::truth {

namespace {

// Each rank receives from the ranks at the distances 1 … count before it, and sends to those behind it.
struct Around {
    std::vector<MPI_Request> receives, sends;

    Around(const Phase& p, int64_t i) {
        const int degree = std::min(p.is.count, p.size - 1);
        for (int k = 1; k <= degree; ++k) {
            const int from = (p.rank + p.size - k) % p.size;
            receives.emplace_back();
            MPI_Irecv(Phase::in, p.bytes(i, from), MPI_CHAR, from, p.tag(), p.comm, &receives.back());
        }
        for (int k = 1; k <= degree; ++k) {
            sends.emplace_back();
            MPI_Isend(Phase::out, p.bytes(i, p.rank), MPI_CHAR, (p.rank + k) % p.size, p.tag(), p.comm, &sends.back());
        }
    }
    ~Around() { MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE); }
    Around(const Around&) = delete;

    int count() const { return static_cast<int>(receives.size()); }
    // The share of a phase that is computed for each message.
    double share(const Phase& p) const { return receives.empty() ? 0 : p.is.overlap / static_cast<double>(receives.size()); }
};

void waitany(const Phase& p, int64_t i) {
    p.work(i, 1 - p.is.overlap);
    Around around(p, i);
    for (int k = 0; k < around.count(); ++k) {
        int which = 0;
        MPI_Waitany(around.count(), around.receives.data(), &which, MPI_STATUS_IGNORE);
        p.work(i, around.share(p), 2 + static_cast<uint64_t>(which));
    }
}

void waitsome(const Phase& p, int64_t i) {
    p.work(i, 1 - p.is.overlap);
    Around around(p, i);
    std::vector<int> which(around.receives.size());
    for (int done = 0; done < around.count();) {
        int some = 0;
        MPI_Waitsome(around.count(), around.receives.data(), &some, which.data(), MPI_STATUSES_IGNORE);
        for (int k = 0; k < some; ++k) p.work(i, around.share(p), 2 + static_cast<uint64_t>(which[k]));
        done += some;
    }
}

// Looks at the requests in turn, and computes a little between two rounds.
void test_loop(const Phase& p, int64_t i) {
    p.work(i, 1 - p.is.overlap);
    Around around(p, i);
    for (int done = 0; done < around.count();) {
        for (MPI_Request& request : around.receives) {
            int flag = 0;
            if (request == MPI_REQUEST_NULL) continue;
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            done += flag;
        }
        if (done < around.count()) p.work(i, p.is.overlap, 1);
    }
}

// All send to the root, which takes from anyone; in each iteration under another tag, or the root could take a later one's messages first.
void wildcard(const Phase& p, int64_t i) {
    const int root = p.root(0), bytes = static_cast<int>(p.is.bytes), tag = p.tag() + 1000 * static_cast<int>(1 + i);
    p.work(i, 1 - p.is.overlap);
    if (p.rank != root) {
        MPI_Send(Phase::out, bytes, MPI_CHAR, root, tag, p.comm);
        return;
    }
    for (int k = 1; k < p.size; ++k) {
        MPI_Recv(Phase::in, bytes, MPI_CHAR, MPI_ANY_SOURCE, tag, p.comm, MPI_STATUS_IGNORE);
        p.work(i, p.is.overlap / p.size, 1 + static_cast<uint64_t>(k));
    }
}

// Messages to the right; who waits polls for them.
void iprobe_poll(const Phase& p, int64_t i) {
    p.work(i, 1 - p.is.overlap);
    if (p.alone()) return;
    MPI_Request request;
    const int to = (p.rank + p.offset()) % p.size, from = (p.rank + p.size - p.offset()) % p.size;
    MPI_Isend(Phase::out, p.bytes(i, p.rank), MPI_CHAR, to, p.tag(), p.comm, &request);
    for (int found = 0; found == 0;) {
        MPI_Iprobe(from, p.tag(), p.comm, &found, MPI_STATUS_IGNORE);
        if (found == 0) p.work(i, p.is.overlap, 1);
    }
    MPI_Recv(Phase::in, p.bytes(i, from), MPI_CHAR, from, p.tag(), p.comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// The barrier keeps the next phase's messages from a master that takes any.
template <Program* program>
void farm(const Phase& p, int64_t) {
    Parameters parameters;
    parameters.iterations = p.is.count;
    parameters.compute_ns = std::max<int64_t>(1, p.is.compute_ns);
    parameters.imbalance = p.is.imbalance;
    parameters.bytes = p.is.bytes;
    program(parameters);
    MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

const PhaseKinds& choice_phases() {
    static const PhaseKinds kinds{{"waitany", plain<waitany>},
                                  {"waitsome", plain<waitsome>},
                                  {"test_loop", plain<test_loop>},
                                  {"wildcard", plain<wildcard>},
                                  {"iprobe_poll", plain<iprobe_poll>},
                                  {"master_worker", plain<farm<master_worker>>},
                                  {"result_farm", plain<farm<result_farm>>},
                                  {"probing_farm", plain<farm<probing_farm>>},
                                  {"waitany_farm", plain<farm<waitany_farm>>}};
    return kinds;
}

}  // namespace polter::truth
