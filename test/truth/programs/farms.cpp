// SPDX-License-Identifier: BSD-3-Clause
// Task farms whose master does not receive from anyone, and serves whoever comes first all the same.
#include "programs.hpp"

namespace polter::truth {

namespace {

constexpr int task_tag = 0, stop_tag = 1, result_tag = 2;

// A worker learns from the tag whether there is more: results ask for the next task, and have different sizes.
void worker(const Parameters& p) {
    std::vector<char> out(static_cast<size_t>(p.bytes) * 2);
    MPI_Send(out.data(), 1, MPI_CHAR, 0, result_tag, MPI_COMM_WORLD);
    for (;;) {
        int64_t task = 0;
        MPI_Status status;
        MPI_Recv(&task, 1, MPI_INT64_T, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == stop_tag) return;
        compute_phase(p, 1, task, 0, 0);
        MPI_Send(out.data(), static_cast<int>(p.bytes + task % p.bytes), MPI_CHAR, 0, result_tag, MPI_COMM_WORLD);
    }
}

}  // namespace

// The master probes for anyone, makes room for what has come, and receives it by its source.
void probing_farm(const Parameters& p) {
    const Here here;
    if (here.rank > 0) return worker(p);
    const int64_t tasks = p.iterations * (here.size - 1);
    std::vector<char> in;
    int64_t next = 0;
    for (int working = here.size - 1; working > 0;) {
        MPI_Status status;
        int bytes = 0;
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_CHAR, &bytes);
        in.resize(static_cast<size_t>(bytes));
        MPI_Recv(in.data(), bytes, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        const int64_t task = next < tasks ? next++ : -1;
        if (task < 0) --working;
        MPI_Send(&task, 1, MPI_INT64_T, status.MPI_SOURCE, task < 0 ? stop_tag : task_tag, MPI_COMM_WORLD);
    }
}

// The master has a receive posted for each worker, and waits for any of them.
void waitany_farm(const Parameters& p) {
    const Here here;
    if (here.rank > 0) return worker(p);
    const int workers = here.size - 1, most = static_cast<int>(p.bytes) * 2;
    const int64_t tasks = p.iterations * workers;
    std::vector<std::vector<char>> in(workers, std::vector<char>(static_cast<size_t>(most)));
    std::vector<MPI_Request> requests(workers);
    const auto listen = [&](int w) { MPI_Irecv(in[w].data(), most, MPI_CHAR, w + 1, result_tag, MPI_COMM_WORLD, &requests[w]); };
    for (int w = 0; w < workers; ++w) listen(w);
    int64_t next = 0;
    for (int working = workers; working > 0;) {
        int w = 0;
        MPI_Waitany(workers, requests.data(), &w, MPI_STATUS_IGNORE);
        const int64_t task = next < tasks ? next++ : -1;
        if (task < 0)
            --working;
        else
            listen(w);
        MPI_Send(&task, 1, MPI_INT64_T, w + 1, task < 0 ? stop_tag : task_tag, MPI_COMM_WORLD);
    }
}

}  // namespace polter::truth
