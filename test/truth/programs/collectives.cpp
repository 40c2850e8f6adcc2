// SPDX-License-Identifier: BSD-3-Clause
#include "programs.hpp"

namespace polter::truth {

// Bulk-synchronous phases.
void barrier_phases(const Parameters& p) {
    const Here here;
    for (int64_t i = 0; i < p.iterations; ++i) {
        compute_phase(p, 1, here.rank, i, 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

void allreduce_phases(const Parameters& p) {
    const Here here;
    std::vector<char> in(p.bytes), out(p.bytes);
    for (int64_t i = 0; i < p.iterations; ++i) {
        compute_phase(p, 1, here.rank, i, 0);
        MPI_Allreduce(in.data(), out.data(), static_cast<int>(p.bytes), MPI_CHAR, MPI_MAX, MPI_COMM_WORLD);
    }
}

// Two kinds of iterations that call the same functions; each fourth computes for longer.
void two_kinds(const Parameters& p) {
    const Here here;
    std::vector<char> in(p.bytes), out(p.bytes), from(p.bytes);
    const int next = (here.rank + 1) % here.size, before = (here.rank + here.size - 1) % here.size;
    for (int64_t i = 0; i < p.iterations; ++i) {
        compute_phase(p, i % 4 == 3 ? 1.6 : 1, here.rank, i, 0);
        MPI_Sendrecv(in.data(), static_cast<int>(p.bytes), MPI_CHAR, next, 0, from.data(), static_cast<int>(p.bytes), MPI_CHAR, before, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(in.data(), out.data(), static_cast<int>(p.bytes), MPI_CHAR, MPI_MAX, MPI_COMM_WORLD);
    }
}

// Broadcasts and reductions from roots that change, and now and then everybody with everybody.
void rooted_mix(const Parameters& p) {
    const Here here;
    const int count = static_cast<int>(p.bytes);
    std::vector<char> in(p.bytes * here.size), out(p.bytes * here.size);
    for (int64_t i = 0; i < p.iterations; ++i) {
        const int root = static_cast<int>(draw(1, i, 0) * here.size);
        compute_phase(p, 0.5, here.rank, i, 0);
        MPI_Bcast(in.data(), count, MPI_CHAR, root, MPI_COMM_WORLD);
        compute_phase(p, 0.5, here.rank, i, 1);
        MPI_Reduce(in.data(), out.data(), count, MPI_CHAR, MPI_MAX, root, MPI_COMM_WORLD);
        if (i % 8 == 7) MPI_Alltoall(in.data(), count, MPI_CHAR, out.data(), count, MPI_CHAR, MPI_COMM_WORLD);
    }
}

// The transpose of a distributed Fourier transform.
void transpose(const Parameters& p) {
    const Here here;
    const int count = static_cast<int>(p.bytes);
    std::vector<char> in(p.bytes * here.size), out(p.bytes * here.size);
    for (int64_t i = 0; i < p.iterations; ++i) {
        compute_phase(p, 1, here.rank, i, 0);
        MPI_Alltoall(in.data(), count, MPI_CHAR, out.data(), count, MPI_CHAR, MPI_COMM_WORLD);
    }
}

// A reduction that is under way while the ranks compute, as in pipelined Krylov solvers.
void overlapped_collectives(const Parameters& p) {
    const Here here;
    const int count = static_cast<int>(p.bytes);
    std::vector<char> in(p.bytes), out(p.bytes), parameters(p.bytes);
    for (int64_t i = 0; i < p.iterations; ++i) {
        MPI_Request request;
        compute_phase(p, 0.5, here.rank, i, 0);
        if (i % 4 == 3)
            MPI_Ibcast(parameters.data(), count, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
        else
            MPI_Iallreduce(in.data(), out.data(), count, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD, &request);
        compute_phase(p, 0.5, here.rank, i, 1);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

// Rows and columns of a process grid, each with its own communicator.
void subcommunicators(const Parameters& p) {
    const Here here;
    const Grid grid(2);
    MPI_Comm row, column;
    MPI_Comm_split(MPI_COMM_WORLD, grid.coordinate(0), grid.coordinate(1), &row);
    MPI_Comm_split(MPI_COMM_WORLD, grid.coordinate(1), grid.coordinate(0), &column);
    const int count = static_cast<int>(p.bytes);
    std::vector<char> in(p.bytes), out(p.bytes);
    for (int64_t i = 0; i < p.iterations; ++i) {
        compute_phase(p, 0.5, here.rank, i, 0);
        MPI_Allreduce(in.data(), out.data(), count, MPI_CHAR, MPI_MAX, row);
        compute_phase(p, 0.5, here.rank, i, 1);
        MPI_Barrier(column);
    }
    MPI_Comm_free(&row);
    MPI_Comm_free(&column);
}

// Each rank needs what those before it have together, as in numbering or in writing to one file.
void scan_phases(const Parameters& p) {
    const Here here;
    const int count = static_cast<int>(p.bytes);
    std::vector<char> in(p.bytes), out(p.bytes);
    for (int64_t i = 0; i < p.iterations; ++i) {
        compute_phase(p, 1, here.rank, i, 0);
        if (i % 2)
            MPI_Exscan(in.data(), out.data(), count, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD);
        else
            MPI_Scan(in.data(), out.data(), count, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD);
        if (i % 8 == 7) MPI_Barrier(MPI_COMM_WORLD);
    }
}

// Collectives within collectives: a reduction in groups, one among their leaders, and the result down again.
void nested_collectives(const Parameters& p) {
    const Here here;
    constexpr int group_size = 8;
    const int group = here.rank / group_size, place = here.rank % group_size, count = static_cast<int>(p.bytes);
    MPI_Comm inside, leaders;
    MPI_Comm_split(MPI_COMM_WORLD, group, place, &inside);
    MPI_Comm_split(MPI_COMM_WORLD, place == 0 ? 0 : MPI_UNDEFINED, group, &leaders);
    std::vector<char> in(p.bytes), out(p.bytes);
    for (int64_t i = 0; i < p.iterations; ++i) {
        compute_phase(p, 1, here.rank, i, 0);
        MPI_Reduce(in.data(), out.data(), count, MPI_CHAR, MPI_MAX, 0, inside);
        if (place == 0) MPI_Allreduce(out.data(), in.data(), count, MPI_CHAR, MPI_MAX, leaders);
        MPI_Bcast(in.data(), count, MPI_CHAR, 0, inside);
    }
    MPI_Comm_free(&inside);
    if (leaders != MPI_COMM_NULL) MPI_Comm_free(&leaders);
}

}  // namespace polter::truth
