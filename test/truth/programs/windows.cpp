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

}  // namespace polter::truth
