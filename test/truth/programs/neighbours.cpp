// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "programs.hpp"

namespace polter::truth {

Grid::Grid(int dimensions) : size_(dimensions, 0), coordinate_(dimensions, 0) {
    const Here here;
    MPI_Dims_create(here.size, dimensions, size_.data());
    for (int d = dimensions - 1, rest = here.rank; d >= 0; --d) {
        coordinate_[d] = rest % size_[d];
        rest /= size_[d];
    }
}

int Grid::neighbour(int dimension, int step, bool periodic) const {
    int rank = 0;
    for (size_t d = 0; d < size_.size(); ++d) {
        int c = coordinate_[d];
        if (static_cast<int>(d) == dimension) {
            c += step;
            if (periodic)
                c = (c + size_[d]) % size_[d];
            else if (c < 0 || c >= size_[d])
                return MPI_PROC_NULL;
        }
        rank = rank * size_[d] + c;
    }
    return rank;
}

// Halo exchange: receives posted first, the interior computed while messages are under way, the boundary after them.
void stencil(const Parameters& p) {
    const Here here;
    const Grid grid(p.dimensions);
    std::vector<int> partners;
    for (int d = 0; d < p.dimensions; ++d)
        if (grid.size(d) > 1)
            for (int step : {-1, 1}) partners.push_back(grid.neighbour(d, step, true));
    const int n = static_cast<int>(partners.size());
    const int count = static_cast<int>(p.bytes);
    std::vector<char> in(p.bytes), out(p.bytes);
    std::vector<MPI_Request> requests(2 * n);
    for (int64_t i = 0; i < p.iterations; ++i) {
        // A message to the left (even) arrives from the right (odd): the tag is the direction that it travels in.
        for (int k = 0; k < n; ++k) MPI_Irecv(in.data(), count, MPI_CHAR, partners[k], k ^ 1, MPI_COMM_WORLD, &requests[k]);
        for (int k = 0; k < n; ++k) MPI_Isend(out.data(), count, MPI_CHAR, partners[k], k, MPI_COMM_WORLD, &requests[n + k]);
        compute_phase(p, 0.8, here.rank, i, 0);
        MPI_Waitall(2 * n, requests.data(), MPI_STATUSES_IGNORE);
        compute_phase(p, 0.2, here.rank, i, 1);
    }
}

// Sweeps over a grid from its four corners in turn, in blocks of planes, as in discrete-ordinates transport.
void wavefront(const Parameters& p) {
    const Here here;
    const Grid grid(2);
    constexpr int blocks = 8;
    const int count = static_cast<int>(p.bytes);
    std::vector<char> in(p.bytes), out(p.bytes);
    for (int64_t i = 0; i < p.iterations; ++i) {
        const int row = i & 1 ? -1 : 1, column = i & 2 ? -1 : 1;
        for (int block = 0; block < blocks; ++block) {
            for (int d : {0, 1})
                MPI_Recv(in.data(), count, MPI_CHAR, grid.neighbour(d, d == 0 ? -row : -column, false), d, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            compute_phase(p, 1.0 / blocks, here.rank, i, block);
            for (int d : {0, 1}) MPI_Send(out.data(), count, MPI_CHAR, grid.neighbour(d, d == 0 ? row : column, false), d, MPI_COMM_WORLD);
        }
    }
}

// An irregular graph, each arrival worked on as it comes.
void irregular(const Parameters& p) {
    const Here here;
    constexpr int degree = 3;  // edges that a rank draws; as many more are drawn to it, on average
    std::vector<int> partners;
    for (int a = 0; a < here.size; ++a)
        for (int k = 0; k < degree; ++k) {
            const int b = static_cast<int>(draw(a, k, 17) * here.size);
            if (a == b) continue;
            if (a == here.rank) partners.push_back(b);
            if (b == here.rank) partners.push_back(a);
        }
    std::sort(partners.begin(), partners.end());
    partners.erase(std::unique(partners.begin(), partners.end()), partners.end());
    const int n = static_cast<int>(partners.size());
    const int count = static_cast<int>(p.bytes);
    std::vector<char> in(p.bytes), out(p.bytes);
    std::vector<MPI_Request> receives(n), sends(n);
    for (int64_t i = 0; i < p.iterations; ++i) {
        for (int k = 0; k < n; ++k) MPI_Irecv(in.data(), count, MPI_CHAR, partners[k], 0, MPI_COMM_WORLD, &receives[k]);
        for (int k = 0; k < n; ++k) MPI_Isend(out.data(), count, MPI_CHAR, partners[k], 0, MPI_COMM_WORLD, &sends[k]);
        compute_phase(p, 0.5, here.rank, i, 0);
        for (int k = 0; k < n; ++k) {
            int which = 0;
            MPI_Waitany(n, receives.data(), &which, MPI_STATUS_IGNORE);
            compute_phase(p, 0.5 / n, here.rank, i, 1 + which);
        }
        MPI_Waitall(n, sends.data(), MPI_STATUSES_IGNORE);
    }
}

}  // namespace polter::truth
