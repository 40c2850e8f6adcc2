// SPDX-License-Identifier: BSD-3-Clause
// Sweeps, solvers and collectives: after SWEEP3D, a pipelined Krylov solver (Ghysels and Vanroose), a Fourier transform on pencils
// (P3DFFT), the Graph500's search by levels, an algebraic multigrid (BoomerAMG), k-means, SUMMA, and all pairs of bodies on a ring.
#include <algorithm>
#include <cmath>

#include "codes.hpp"

namespace polter::truth {

// Discrete ordinates: from each of the eight corners, blocks of planes and angles pass over the grid of ranks.
void sweep3d(const Parameters& p) {
    Code code(p, p.bytes);
    const Grid grid(2);
    constexpr int blocks = 6;
    for (int64_t i = 0; i < p.iterations; ++i) {
        for (int octant = 0; octant < 8; ++octant) {
            const int row = octant & 2 ? -1 : 1, column = octant & 4 ? -1 : 1;
            for (int block = 0; block < blocks; ++block) {
                code.receive(grid.neighbour(1, -column, false), 1);
                code.receive(grid.neighbour(0, -row, false), 2);
                code.work(0.95 / (8 * blocks));
                code.send(grid.neighbour(1, column, false), code.bytes(), 1);
                code.send(grid.neighbour(0, row, false), code.bytes(0.8), 2);
            }
        }
        code.work(0.05);
        code.sum(8);
    }
}

// The reduction is under way while the preconditioner and the matrix are applied.
void pipelined_cg(const Parameters& p) {
    Code code(p, p.bytes);
    const Grid grid(2);
    std::vector<char> sums(24), result(24);
    for (int64_t i = 0; i < p.iterations; ++i) {
        code.work(0.1);
        MPI_Request reduction;
        MPI_Iallreduce(sums.data(), result.data(), 24, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD, &reduction);
        code.work(0.2);
        for (int d : {0, 1})
            for (int side : {0, 1}) code.post(grid.neighbour(d, side ? 1 : -1, false), 2 * d + 1 - side);
        for (int d : {0, 1})
            for (int side : {0, 1}) code.start(grid.neighbour(d, side ? 1 : -1, false), code.bytes(), 2 * d + side);
        code.work(0.3);
        code.wait_receives();
        code.work(0.1);
        code.wait_sends();
        MPI_Wait(&reduction, MPI_STATUS_IGNORE);
        code.work(0.3);
    }
}

// Transposes in rows and in columns of a grid of ranks; the blocks differ by where the grid's size does not divide.
void pencil_fft(const Parameters& p) {
    Code code(p, 2 * p.bytes * Here().size);
    const Grid grid(2);
    MPI_Comm line[2];
    for (int d : {0, 1}) MPI_Comm_split(MPI_COMM_WORLD, grid.coordinate(d), code.rank(), &line[d]);
    const auto transpose = [&](int d) {
        const int n = grid.size(1 - d), me = grid.coordinate(1 - d);
        const auto block = [&](int a, int b) { return code.bytes((a % 3 == 0 ? 1.0 : 0.9) * (b % 3 == 0 ? 1.0 : 0.9)); };
        std::vector<int> to(n), from(n), to_at(n), from_at(n);
        for (int other = 0, out = 0, in = 0; other < n; ++other) {
            to[other] = block(me, other);
            from[other] = block(other, me);
            to_at[other] = out;
            from_at[other] = in;
            out += to[other];
            in += from[other];
        }
        MPI_Alltoallv(code.out.data(), to.data(), to_at.data(), MPI_CHAR, code.in.data(), from.data(), from_at.data(), MPI_CHAR, line[d]);
    };
    for (int64_t i = 0; i < p.iterations; ++i) {
        for (int d : {0, 1}) {  // forward
            code.work(0.15);
            transpose(d);
        }
        code.work(0.4);  // in wave numbers
        for (int d : {1, 0}) {
            transpose(d);
            code.work(0.15);
        }
        if (i % 4 == 3) code.sum(8);  // time step
    }
}

// Breadth-first search by levels: what a level finds goes to its owners, few vertices first, then nearly all, then few.
void bfs(const Parameters& p) {
    const int n = Here().size;
    Code code(p, 2 * p.bytes * n);
    constexpr double levels[] = {0.001, 0.02, 0.35, 1, 0.3, 0.02, 0.001};
    const double all = 1.7;
    std::vector<int> to(n), from(n), to_at(n), from_at(n);
    for (int64_t i = 0; i < p.iterations; ++i) {
        int depth = 0;
        for (const double level : levels) {
            code.work(0.5 * level / all + 0.01);
            MPI_Alltoall(code.out.data(), 4, MPI_CHAR, code.in.data(), 4, MPI_CHAR, MPI_COMM_WORLD);
            const auto found = [&](int a, int b) {
                const double x = draw(a * n + b, i, depth);
                return level < 0.01 && x < 0.5 ? 0 : code.bytes(level * 2 * x * x);
            };
            for (int other = 0, out = 0, in = 0; other < n; ++other) {
                to[other] = found(code.rank(), other);
                from[other] = found(other, code.rank());
                to_at[other] = out;
                from_at[other] = in;
                out += to[other];
                in += from[other];
            }
            MPI_Alltoallv(code.out.data(), to.data(), to_at.data(), MPI_CHAR, code.in.data(), from.data(), from_at.data(), MPI_CHAR,
                          MPI_COMM_WORLD);
            code.work(0.5 * level / all);
            code.sum(8);
            ++depth;
        }
    }
}

// V-cycles over irregular levels: the coarser, the fewer ranks take part and the more partners each has; the coarsest one is gathered
// and solved by all that are left.
void amg(const Parameters& p) {
    Code code(p, p.bytes * Here().size);
    constexpr int levels = 4;
    std::vector<std::vector<int>> partners(levels);
    std::vector<bool> active(levels);
    for (int level = 0; level < levels; ++level) {
        const int every = level < 2 ? 1 : 1 << (level - 1), count = (code.size() + every - 1) / every;
        active[level] = code.rank() % every == 0;
        std::vector<int>& mine = partners[level];
        for (int a = 0; a < count && active[level]; ++a)
            for (int k = 0; k < 3 + level; ++k) {
                const int b = static_cast<int>(draw(a, k, 31 + level) * count);
                if (a * every == code.rank() && b != a) mine.push_back(b * every);
                if (b * every == code.rank() && b != a) mine.push_back(a * every);
            }
        std::sort(mine.begin(), mine.end());
        mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
    }
    MPI_Comm coarse;
    MPI_Comm_split(MPI_COMM_WORLD, active[levels - 1] ? 0 : 1, code.rank(), &coarse);
    int left = 0;
    MPI_Comm_size(coarse, &left);
    const auto halo = [&](int level) {
        for (int partner : partners[level]) code.post(partner, level);
        for (int partner : partners[level])
            code.start(
                partner,
                code.bytes(std::pow(0.4, level) * (0.2 + draw(std::min(partner, code.rank()), std::max(partner, code.rank()), level))),
                level);
        code.wait_all();
    };
    const auto relax = [&](int level) {
        if (!active[level]) return;
        halo(level);
        code.work(0.2 * std::pow(0.25, level));
    };
    const std::vector<int> counts(left, 96);
    std::vector<int> places(left);
    for (int k = 0; k < left; ++k) places[k] = 96 * k;
    for (int64_t i = 0; i < p.iterations; ++i) {
        for (int level = 0; level + 1 < levels; ++level)
            for (int step = 0; step < 2; ++step) relax(level);  // smoother, then residual and restriction
        if (active[levels - 1]) {
            MPI_Allgatherv(code.out.data(), 96, MPI_CHAR, code.in.data(), counts.data(), places.data(), MPI_CHAR, coarse);
            code.work(0.01);
        }
        for (int level = levels - 2; level >= 0; --level) relax(level);  // interpolation and smoother
        code.work(0.05);
        code.sum(8);
        relax(0);
        code.sum(8);
        code.work(0.05);
    }
}

// Centres to all, sums and counts to the root, which computes the next centres.
void kmeans(const Parameters& p) {
    Code code(p, p.bytes);
    for (int64_t i = 0; i < p.iterations; ++i) {
        MPI_Bcast(code.out.data(), code.bytes(), MPI_CHAR, 0, MPI_COMM_WORLD);
        code.work(0.97);
        MPI_Reduce(code.out.data(), code.in.data(), code.bytes(), MPI_CHAR, MPI_MAX, 0, MPI_COMM_WORLD);
        MPI_Reduce(code.out.data(), code.in.data(), code.bytes(0.05), MPI_CHAR, MPI_MAX, 0, MPI_COMM_WORLD);
        if (code.rank() == 0) code.work(0.03);
    }
}

// Matrix product: in each step one column of ranks sends its block along the rows, and one row along the columns.
void summa(const Parameters& p) {
    Code code(p, p.bytes);
    const Grid grid(2);
    MPI_Comm line[2];
    for (int d : {0, 1}) MPI_Comm_split(MPI_COMM_WORLD, grid.coordinate(d), code.rank(), &line[d]);
    for (int64_t i = 0; i < p.iterations; ++i) {
        for (int d : {0, 1}) MPI_Bcast(code.out.data(), code.bytes(), MPI_CHAR, static_cast<int>(i % grid.size(1 - d)), line[d]);
        code.work(1);
    }
}

// Bodies pass around a ring while each rank computes with those it has; then all agree on the time step.
void nbody(const Parameters& p) {
    Code code(p, p.bytes);
    const int right = (code.rank() + 1) % code.size(), left = (code.rank() + code.size() - 1) % code.size();
    for (int64_t i = 0; i < p.iterations; ++i) {
        for (int step = 0; step + 1 < code.size(); ++step) {
            code.post(left);
            code.start(right, code.bytes());
            code.work(0.95 / code.size());
            code.wait_all();
        }
        code.work(0.95 / code.size() + 0.05);
        code.sum(8);
    }
}

}  // namespace polter::truth
