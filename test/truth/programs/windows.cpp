// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "programs.hpp"

namespace polter::truth {

namespace {

// What each neighbour writes into, one part a direction.
struct Halo {
    std::vector<int> partners;
    std::vector<char> in, out;
    MPI_Win window = MPI_WIN_NULL;

    explicit Halo(const Parameters& p) {
        const Grid grid(p.dimensions);
        for (int d = 0; d < p.dimensions; ++d)
            if (grid.size(d) > 1)
                for (int step : {-1, 1}) partners.push_back(grid.neighbour(d, step, true));
        in.resize(partners.size() * p.bytes);
        out.resize(p.bytes);
        MPI_Win_create(in.data(), static_cast<MPI_Aint>(in.size()), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    }
    ~Halo() { MPI_Win_free(&window); }
    Halo(const Halo&) = delete;

    void put(const Parameters& p) {
        const int count = static_cast<int>(p.bytes);
        for (size_t k = 0; k < partners.size(); ++k)
            MPI_Put(out.data(), count, MPI_CHAR, partners[k], static_cast<MPI_Aint>(k * p.bytes), count, MPI_CHAR, window);
    }
};

// A table of which each rank has a part, and everybody changes any.
struct Table {
    std::vector<char> part, entry;
    MPI_Win window = MPI_WIN_NULL;

    explicit Table(const Parameters& p) : part(p.bytes), entry(p.bytes) {
        MPI_Win_create(part.data(), static_cast<MPI_Aint>(part.size()), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    }
    ~Table() { MPI_Win_free(&window); }
    Table(const Table&) = delete;

    // Reads an entry, computes `share` of a phase with it and writes it back, while nobody else does. The second flush is what MPI's unlock
    // does anyway: SMPI's gives the lock back before the data has arrived, and whoever has it next waits for that in any of its operations.
    void change(const Parameters& p, int target, double share, int rank, int64_t phase) {
        const int count = static_cast<int>(p.bytes);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
        MPI_Get(entry.data(), count, MPI_CHAR, target, 0, count, MPI_CHAR, window);
        MPI_Win_flush(target, window);
        compute_phase(p, share, rank, phase, 1);
        MPI_Put(entry.data(), count, MPI_CHAR, target, 0, count, MPI_CHAR, window);
        MPI_Win_flush(target, window);
        MPI_Win_unlock(target, window);
    }
};

// `changes` of entries in a phase, at the ranks that `entry` tells; all meet every tenth phase.
template <typename Entry>
void change_entries(const Parameters& p, const Here& here, bool takes_part, Entry entry) {
    constexpr int changes = 4;
    Table table(p);
    for (int64_t i = 0; i < p.iterations; ++i) {
        for (int k = 0; takes_part && k < changes; ++k) {
            compute_phase(p, 0.8 / changes, here.rank, i, 2 + k);
            table.change(p, entry(draw(here.rank, i, 100 + k)), 0.2 / changes, here.rank, i * changes + k);
        }
        if (i % 10 == 9) MPI_Barrier(MPI_COMM_WORLD);
    }
}

constexpr double locked_share = 0.02;  // of a phase: 50 ranks keep one lock busy

}  // namespace

// Halo exchange by puts between fences.
void rma_fence(const Parameters& p) {
    const Here here;
    Halo halo(p);
    MPI_Win_fence(0, halo.window);
    for (int64_t i = 0; i < p.iterations; ++i) {
        compute_phase(p, 0.8, here.rank, i, 0);
        halo.put(p);
        MPI_Win_fence(0, halo.window);
        compute_phase(p, 0.2, here.rank, i, 1);
    }
}

// The same with each rank's neighbours alone: post, start, puts, complete, wait.
void rma_pscw(const Parameters& p) {
    const Here here;
    Halo halo(p);
    std::vector<int> ranks = halo.partners;
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    MPI_Group world, neighbours;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &neighbours);
    for (int64_t i = 0; i < p.iterations; ++i) {
        MPI_Win_post(neighbours, 0, halo.window);
        compute_phase(p, 0.3, here.rank, i, 0);
        MPI_Win_start(neighbours, 0, halo.window);
        halo.put(p);
        compute_phase(p, 0.3, here.rank, i, 1);
        MPI_Win_complete(halo.window);
        compute_phase(p, 0.2, here.rank, i, 2);
        MPI_Win_wait(halo.window);
        compute_phase(p, 0.2, here.rank, i, 3);
    }
    MPI_Group_free(&neighbours);
}

// A counter at rank 0 that all change between their work.
void rma_lock(const Parameters& p) {
    const Here here;
    Table table(p);
    for (int64_t i = 0; i < p.iterations; ++i) {
        compute_phase(p, 1 - locked_share, here.rank, i, 0);
        table.change(p, 0, locked_share, here.rank, i);
    }
}

// Entries all over a table of which each rank has a part.
void rma_table(const Parameters& p) {
    const Here here;
    change_entries(p, here, true, [&](double drawn) { return static_cast<int>(drawn * here.size); });
}

// Entries at every eighth rank, which only keeps them.
void rma_shards(const Parameters& p) {
    constexpr int distance = 8;
    const Here here;
    const int shards = (here.size + distance - 1) / distance;
    change_entries(p, here, here.rank % distance != 0, [&](double drawn) { return static_cast<int>(drawn * shards) * distance; });
}

// Halo exchange in one long epoch: each fetches its neighbours' borders while it computes, once they have told that these are there.
void rma_request(const Parameters& p) {
    const Here here;
    Halo halo(p);
    const int count = static_cast<int>(p.bytes);
    std::vector<MPI_Request> requests(halo.partners.size());
    std::vector<char> borders(halo.in.size());
    MPI_Win_lock_all(0, halo.window);
    for (int64_t i = 0; i < p.iterations; ++i) {
        compute_phase(p, 0.5, here.rank, i, 0);
        char flag = 0;
        for (const int partner : halo.partners) MPI_Send(&flag, 1, MPI_CHAR, partner, 1, MPI_COMM_WORLD);
        for (const int partner : halo.partners) MPI_Recv(&flag, 1, MPI_CHAR, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (size_t k = 0; k < halo.partners.size(); ++k)
            MPI_Rget(&borders[k * p.bytes], count, MPI_CHAR, halo.partners[k], static_cast<MPI_Aint>(k * p.bytes), count, MPI_CHAR,
                     halo.window, &requests[k]);
        compute_phase(p, 0.5, here.rank, i, 1);
        MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    }
    MPI_Win_unlock_all(halo.window);
}

}  // namespace polter::truth
