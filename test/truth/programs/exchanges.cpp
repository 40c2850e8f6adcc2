// SPDX-License-Identifier: BSD-3-Clause
#include "programs.hpp"

namespace polter::truth {

// Pairs at distance 1, 2, 4, … exchange, as in recursive doubling.
void butterfly(const Parameters& p) {
    const Here here;
    const int count = static_cast<int>(p.bytes);
    std::vector<char> in(p.bytes), out(p.bytes);
    int64_t steps = 0;
    for (int mask = 1; mask < here.size; mask *= 2) ++steps;
    for (int64_t i = 0; i < p.iterations; ++i)
        for (int64_t step = 0; step < steps; ++step) {
            compute_phase(p, 1.0 / static_cast<double>(steps), here.rank, i, step);
            const int partner = here.rank ^ (1 << step);
            if (partner < here.size)
                MPI_Sendrecv(out.data(), count, MPI_CHAR, partner, 0, in.data(), count, MPI_CHAR, partner, 0, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        }
}

// Work that passes from rank to rank.
void pipeline(const Parameters& p) {
    const Here here;
    const int count = static_cast<int>(p.bytes);
    std::vector<char> buffer(p.bytes);
    for (int64_t i = 0; i < p.iterations; ++i) {
        if (here.rank > 0) MPI_Recv(buffer.data(), count, MPI_CHAR, here.rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        compute_phase(p, 1, here.rank, i, 0);
        if (here.rank + 1 < here.size) MPI_Send(buffer.data(), count, MPI_CHAR, here.rank + 1, 0, MPI_COMM_WORLD);
    }
}

// Even ranks produce for the odd ones, and nobody tells them to wait.
void one_way(const Parameters& p) {
    const Here here;
    const int count = static_cast<int>(p.bytes);
    std::vector<char> buffer(p.bytes);
    const bool producer = here.rank % 2 == 0;
    const int partner = here.rank ^ 1;
    for (int64_t i = 0; i < p.iterations && partner < here.size; ++i) {
        if (!producer) MPI_Recv(buffer.data(), count, MPI_CHAR, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        compute_phase(p, 1, here.rank, i, 0);
        if (producer) MPI_Send(buffer.data(), count, MPI_CHAR, partner, 0, MPI_COMM_WORLD);
    }
}

// A ring in which every third message is synchronous; where `bytes` is beyond the eager limit, all of them are.
void rendezvous(const Parameters& p) {
    const Here here;
    const int count = static_cast<int>(p.bytes);
    std::vector<char> in(p.bytes), out(p.bytes);
    const int right = (here.rank + 1) % here.size, left = (here.rank + here.size - 1) % here.size;
    for (int64_t i = 0; i < p.iterations; ++i) {
        compute_phase(p, 0.7, here.rank, i, 0);
        if (i % 3 == 2 && here.size % 2 == 0) {  // blocking, even ranks first
            if (here.rank % 2 == 0) MPI_Ssend(out.data(), count, MPI_CHAR, right, 1, MPI_COMM_WORLD);
            MPI_Recv(in.data(), count, MPI_CHAR, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (here.rank % 2 == 1) MPI_Ssend(out.data(), count, MPI_CHAR, right, 1, MPI_COMM_WORLD);
        } else {
            MPI_Request requests[2];
            MPI_Irecv(in.data(), count, MPI_CHAR, left, 0, MPI_COMM_WORLD, &requests[0]);
            MPI_Isend(out.data(), count, MPI_CHAR, right, 0, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
        compute_phase(p, 0.3, here.rank, i, 1);
    }
}

// Rank 0 hands out tasks to the first to ask first: noise changes who gets which.
void master_worker(const Parameters& p) {
    const Here here;
    const int64_t tasks = p.iterations * (here.size - 1);
    constexpr int ask = 0, answer = 1;
    if (here.rank == 0) {
        int64_t next = 0;
        for (int working = here.size - 1; working > 0;) {
            MPI_Status status;
            int result = 0;
            MPI_Recv(&result, 1, MPI_INT, MPI_ANY_SOURCE, ask, MPI_COMM_WORLD, &status);
            const int64_t task = next < tasks ? next++ : -1;
            if (task < 0) --working;
            MPI_Send(&task, 1, MPI_INT64_T, status.MPI_SOURCE, answer, MPI_COMM_WORLD);
        }
        return;
    }
    for (int64_t task = 0; task >= 0;) {
        MPI_Send(&here.rank, 1, MPI_INT, 0, ask, MPI_COMM_WORLD);
        MPI_Recv(&task, 1, MPI_INT64_T, 0, answer, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (task >= 0) compute_phase(p, 1, task, 0, 0);
    }
}

// The same in the other usual form: the first tasks are sent without being asked for, a result asks for the next one, the master looks at
// each result for a while and waits for the next one meanwhile, and all are told together that there is no more.
void result_farm(const Parameters& p) {
    const Here here;
    const int workers = here.size - 1, count = static_cast<int>(p.bytes);
    const int64_t tasks = p.iterations * workers;
    constexpr int work = 0, done = 1;
    std::vector<char> result(p.bytes);
    if (here.rank == 0) {
        int64_t next = 0;
        const auto assign_task = [&](int worker) {
            const int64_t task = next++;
            MPI_Send(&task, 1, MPI_INT64_T, worker, work, MPI_COMM_WORLD);
        };
        for (int worker = 1; worker <= workers; ++worker) assign_task(worker);
        for (int64_t results = 0; results < tasks; ++results) {
            MPI_Request request;
            MPI_Status status;
            MPI_Irecv(result.data(), count, MPI_CHAR, MPI_ANY_SOURCE, done, MPI_COMM_WORLD, &request);
            compute_phase(p, 0.1 / workers, results, 1, 0);
            MPI_Wait(&request, &status);
            if (next < tasks) assign_task(status.MPI_SOURCE);
        }
        const int64_t none = -1;
        for (int worker = 1; worker <= workers; ++worker) MPI_Send(&none, 1, MPI_INT64_T, worker, work, MPI_COMM_WORLD);
        return;
    }
    for (;;) {
        int64_t task = 0;
        MPI_Recv(&task, 1, MPI_INT64_T, 0, work, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (task < 0) return;
        compute_phase(p, 1, task, 0, 0);
        MPI_Send(result.data(), count, MPI_CHAR, 0, done, MPI_COMM_WORLD);
    }
}

}  // namespace polter::truth
