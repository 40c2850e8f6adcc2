// SPDX-License-Identifier: BSD-3-Clause
// Codes that divide space among the ranks: after LULESH 2, HPCG 3, miniGhost (BSPMA), CloverLeaf, CoMD and miniMD.
#include <cmath>

#include "codes.hpp"

namespace polter::truth {

// Shock hydrodynamics: the next time step is the least of all ranks'; forces with all 26 neighbours, positions from the upper ones, faces.
void lulesh(const Parameters& p) {
    Code code(p, p.bytes);
    const std::vector<Neighbour> neighbours = touching_blocks(Grid(3));
    const auto post = [&](auto&& wanted) {
        for (const Neighbour& n : neighbours)
            if (wanted(n)) code.post(n.rank, n.answer);
    };
    const auto send = [&](double share, auto&& wanted) {
        for (const Neighbour& n : neighbours)
            if (wanted(n)) code.start(n.rank, code.bytes(share * share_of_halo(n)), n.tag);
        code.wait_sends();
    };
    const auto all = [](const Neighbour&) { return true; };
    const auto lower = [](const Neighbour& n) { return n.lower; };
    const auto upper = [](const Neighbour& n) { return !n.lower; };
    const auto faces = [](const Neighbour& n) { return n.axes == 1; };
    for (int64_t i = 0; i < p.iterations; ++i) {
        code.sum(8);
        post(all);
        code.work(0.55);
        send(0.5, all);
        code.wait_each();
        post(upper);
        code.work(0.1);
        send(1, lower);
        code.wait_each();
        code.work(0.15);
        post(faces);
        code.work(0.05);
        send(0.5, faces);
        code.wait_each();
        code.work(0.15);
    }
}

// Conjugate gradients, preconditioned by one V-cycle of symmetric Gauss-Seidel over four grids.
void hpcg(const Parameters& p) {
    Code code(p, p.bytes);
    const std::vector<Neighbour> neighbours = touching_blocks(Grid(3));
    const auto halo = [&](int level) {
        for (const Neighbour& n : neighbours) code.post(n.rank, n.answer);
        for (const Neighbour& n : neighbours) code.send(n.rank, code.bytes(std::pow(0.25, level) * share_of_halo(n)), n.tag);
        code.wait_each();
    };
    const auto sweep = [&](int level, double share) {
        halo(level);
        code.work(share * std::pow(0.125, level));
    };
    for (int64_t i = 0; i < p.iterations; ++i) {
        for (int level = 0; level < 3; ++level) {
            sweep(level, 0.25);  // smoother
            sweep(level, 0.12);  // residual
        }
        sweep(3, 0.25);
        for (int level = 2; level >= 0; --level) sweep(level, 0.25);
        code.work(0.03);
        code.sum(8);
        code.work(0.03);
        sweep(0, 0.12);
        code.sum(8);
        code.work(0.05);
        code.sum(8);
    }
}

// A difference stencil on several variables whose faces go in one message; each message is unpacked as it comes.
void minighost(const Parameters& p) {
    Code code(p, p.bytes);
    const Grid grid(3);
    constexpr int variables = 5;
    for (int64_t i = 0; i < p.iterations; ++i) {
        for (int d = 0; d < 3; ++d)
            for (int side : {0, 1}) code.post(grid.neighbour(d, side ? 1 : -1, false), 2 * d + 1 - side);
        const int partners = static_cast<int>(code.receives.size());
        for (int d = 0; d < 3; ++d)
            for (int side : {0, 1}) {
                code.work(0.02);
                code.start(grid.neighbour(d, side ? 1 : -1, false), code.bytes(), 2 * d + side);
            }
        for (int k = 0; k < partners; ++k) {
            int which = 0;
            MPI_Waitany(partners, code.receives.data(), &which, MPI_STATUS_IGNORE);
            code.work(0.02);
        }
        code.receives.clear();
        code.wait_sends();
        for (int variable = 0; variable < variables; ++variable) {
            code.work(0.15);
            if ((i + variable) % 4 == 0) code.sum(8);
        }
    }
}

// Hydrodynamics in two dimensions: halos of several fields, first left and right, then below and above; a summary at rank 0.
void cloverleaf(const Parameters& p) {
    Code code(p, p.bytes);
    const Grid grid(2);
    const auto halo = [&](double fields) {
        for (int d : {1, 0}) {
            for (int side : {0, 1}) {
                code.start(grid.neighbour(d, side ? 1 : -1, false), code.bytes(fields), side);
                code.post(grid.neighbour(d, side ? 1 : -1, false), 1 - side);
            }
            code.wait_all();
        }
    };
    for (int64_t i = 0; i < p.iterations; ++i) {
        code.work(0.08);
        halo(0.3);  // pressure, energy, density
        code.work(0.1);
        code.sum(8);  // time step
        code.work(0.2);
        halo(0.1);
        code.work(0.12);
        for (int sweep : {0, 1}) {
            code.work(0.05);
            halo(0.6);
            code.work(0.1);
            halo(1);
            code.work(sweep == 0 ? 0.1 : 0.08);
        }
        if (i % 10 == 9) {
            code.work(0.05);
            for (int k = 0; k < 5; ++k) MPI_Reduce(code.out.data(), code.in.data(), 8, MPI_CHAR, MPI_MAX, 0, MPI_COMM_WORLD);
        }
    }
}

// Molecular dynamics on cells: atoms go to the neighbours axis by axis, so that edges and corners come along. Their number varies.
void comd(const Parameters& p) {
    Code code(p, 2 * p.bytes);
    const Grid grid(3);
    for (int64_t i = 0; i < p.iterations; ++i) {
        code.work(0.05);
        for (int d = 0; d < 3; ++d) {
            const int below = grid.neighbour(d, -1, true), above = grid.neighbour(d, 1, true);
            code.work(0.02);
            code.shift(below, above, code.bytes(0.8 + 0.4 * draw(code.rank(), i, 2 * d)));
            code.shift(above, below, code.bytes(0.8 + 0.4 * draw(code.rank(), i, 2 * d + 1)));
        }
        code.work(0.85);  // forces
        code.work(0.04);
        if (i % 10 == 9) {
            code.sum(16);
            code.sum(8);
        }
    }
}

// Molecular dynamics with neighbour lists: positions forward and forces back in each step; now and then atoms change their owner.
void minimd(const Parameters& p) {
    Code code(p, 2 * p.bytes);
    const Grid grid(3);
    const auto both_ways = [&](int d, double share) {
        const int below = grid.neighbour(d, -1, true), above = grid.neighbour(d, 1, true);
        code.exchange(below, above, code.bytes(share));
        code.exchange(above, below, code.bytes(share));
    };
    const auto counted = [&](int d, double share) {
        const int below = grid.neighbour(d, -1, true), above = grid.neighbour(d, 1, true);
        code.shift(below, above, 4);
        code.shift(above, below, 4);
        both_ways(d, share);
    };
    for (int64_t i = 0; i < p.iterations; ++i) {
        code.work(0.05);
        if (i % 20 == 19) {
            for (int d = 0; d < 3; ++d) counted(d, 0.05);
            for (int d = 0; d < 3; ++d) counted(d, 1);
            code.work(2);  // neighbour lists
        } else {
            for (int d = 0; d < 3; ++d) both_ways(d, 0.5);
        }
        code.work(0.85);
        for (int d = 2; d >= 0; --d) both_ways(d, 0.5);
        code.work(0.1);
        if (i % 25 == 24)
            for (int k = 0; k < 3; ++k) code.sum(8);
    }
}

}  // namespace polter::truth
