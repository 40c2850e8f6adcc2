// SPDX-License-Identifier: BSD-3-Clause
// After the NAS Parallel Benchmarks 3 (MPI): the sources' order of calls.
#include <cmath>

#include "codes.hpp"

namespace polter::truth {

namespace {

int log2_of(int n) {
    int bits = 0;
    while ((2 << bits) <= n) ++bits;
    return bits;
}

}  // namespace

// Conjugate gradients: reductions along a row of processors by exchanges with partners at distance 1, 2, 4, …, and a transpose.
// The number of ranks is a power of two.
void npb_cg(const Parameters& p) {
    Code code(p, p.bytes);
    const int bits = log2_of(code.size()), rows = 1 << bits / 2, columns = 1 << (bits - bits / 2), me = code.rank();
    const int row = me / columns, column = me % columns;
    const int transposed = rows == columns ? column * rows + row : 2 * (me / 2 % rows * rows + me / 2 / rows) + me % 2;
    const auto along_row = [&](int bytes) {
        for (int distance = 1; distance < columns; distance *= 2) {
            const int partner = row * columns + (column ^ distance);
            code.exchange(partner, partner, bytes);
            code.work(0.01);
        }
    };
    for (int64_t i = 0; i < p.iterations; ++i) {
        code.work(0.85);  // q = A p
        along_row(code.bytes());
        if (columns > 1) code.exchange(transposed, transposed, code.bytes());
        code.work(0.03);
        along_row(8);
        code.work(0.05);  // z, r
        along_row(8);
        code.work(0.03);
    }
    code.sum(8);
}

// V-cycles over grids that become coarser: the same neighbours exchange smaller and smaller faces, axis by axis.
void npb_mg(const Parameters& p) {
    Code code(p, p.bytes);
    const Grid grid(3);
    constexpr int levels = 4;
    const auto comm3 = [&](int level) {
        for (int axis = 0; axis < 3; ++axis) {
            if (grid.size(axis) == 1) continue;
            const int before = grid.neighbour(axis, -1, true), after = grid.neighbour(axis, 1, true),
                      bytes = code.bytes(std::pow(0.25, level));
            code.post(before, 1);
            code.post(after, 2);
            code.send(after, bytes, 1);
            code.send(before, bytes, 2);
            code.wait_each();
        }
    };
    const auto stencil = [&](int level) {
        code.work(0.22 * std::pow(0.125, level));
        comm3(level);
    };
    code.sum(8);
    for (int64_t i = 0; i < p.iterations; ++i) {
        for (int level = 1; level < levels; ++level) stencil(level);  // restriction
        stencil(levels - 1);                                          // smoother on the coarsest grid
        for (int level = levels - 2; level >= 0; --level)             // interpolation, residual, smoother
            for (int step = 0; step < 3; ++step) stencil(level);
        stencil(0);
    }
    code.sum(8);
}

// Three-dimensional Fourier transform on slabs: one transpose of all with all in each step, then a checksum at rank 0.
void npb_ft(const Parameters& p) {
    Code code(p, p.bytes * Here().size);
    for (int64_t i = 0; i < p.iterations; ++i) {
        code.work(0.6);
        MPI_Alltoall(code.out.data(), code.bytes(), MPI_CHAR, code.in.data(), code.bytes(), MPI_CHAR, MPI_COMM_WORLD);
        code.work(0.35);
        code.work(0.05);
        MPI_Reduce(code.out.data(), code.in.data(), 16, MPI_CHAR, MPI_MAX, 0, MPI_COMM_WORLD);
    }
}

// Integer sort: sizes of buckets to all, then the keys, of which nearly each pair of ranks has another number.
void npb_is(const Parameters& p) {
    const int n = Here().size;
    Code code(p, 2 * p.bytes * n);
    std::vector<int> to(n), from(n), to_at(n), from_at(n);
    for (int64_t i = 0; i < p.iterations; ++i) {
        code.work(0.4);
        code.sum(4096);
        MPI_Alltoall(code.out.data(), 4, MPI_CHAR, code.in.data(), 4, MPI_CHAR, MPI_COMM_WORLD);
        const auto keys = [&](int a, int b) { return code.bytes(0.7 + 0.6 * draw(a, b, i)); };
        for (int other = 0, out = 0, in = 0; other < n; ++other) {
            to[other] = keys(code.rank(), other);
            from[other] = keys(other, code.rank());
            to_at[other] = out;
            from_at[other] = in;
            out += to[other];
            in += from[other];
        }
        MPI_Alltoallv(code.out.data(), to.data(), to_at.data(), MPI_CHAR, code.in.data(), from.data(), from_at.data(), MPI_CHAR,
                      MPI_COMM_WORLD);
        code.work(0.6);
    }
    if (code.rank() > 0) code.post(code.rank() - 1);
    if (code.rank() + 1 < n) code.send(code.rank() + 1, 8);
    code.wait_each();
    MPI_Reduce(code.out.data(), code.in.data(), 8, MPI_CHAR, MPI_MAX, 0, MPI_COMM_WORLD);
}

// Symmetric successive over-relaxation: a wavefront down and one up over all planes, then faces between neighbours.
void npb_lu(const Parameters& p) {
    Code code(p, p.bytes);
    const Grid grid(2);
    constexpr int planes = 10;
    const int north = grid.neighbour(0, -1, false), south = grid.neighbour(0, 1, false);
    const int west = grid.neighbour(1, -1, false), east = grid.neighbour(1, 1, false);
    const auto sweep = [&](int first, int second, int third, int fourth) {
        for (int plane = 0; plane < planes; ++plane) {
            code.receive(first);
            code.receive(second);
            code.work(0.04);
            code.send(third, code.bytes(0.1));
            code.send(fourth, code.bytes(0.1));
        }
    };
    for (int64_t i = 0; i < p.iterations; ++i) {
        sweep(north, west, south, east);
        sweep(south, east, north, west);
        code.work(0.1);
        code.exchange(south, north, code.bytes());
        code.exchange(north, south, code.bytes());
        code.work(0.05);
        code.exchange(east, west, code.bytes());
        code.exchange(west, east, code.bytes());
        code.work(0.05);
        if (i % 5 == 4) code.sum(40);
    }
}

// Alternating directions on diagonally distributed blocks (multi-partition): in each direction every rank has a block in each stage.
// The number of ranks is a square.
void npb_bt(const Parameters& p) {
    Code code(p, p.bytes);
    const int q = static_cast<int>(std::lround(std::sqrt(code.size())));
    const int row = code.rank() / q, column = code.rank() % q;
    const auto at = [&](int i, int j) { return (i + q) % q * q + (j + q) % q; };
    const int after[3] = {at(row, column + 1), at(row + 1, column), at(row - 1, column - 1)};
    const int before[3] = {at(row, column - 1), at(row - 1, column), at(row + 1, column + 1)};
    const double stage = 0.8 / (6 * q);
    for (int64_t i = 0; i < p.iterations; ++i) {
        for (int d = 0; d < 3; ++d) {
            code.post(after[d], 2 * d);
            code.post(before[d], 2 * d + 1);
        }
        code.work(0.03);
        for (int d = 0; d < 3; ++d) {
            code.start(after[d], code.bytes(), 2 * d + 1);
            code.start(before[d], code.bytes(), 2 * d);
        }
        code.wait_all();
        code.work(0.14);  // right-hand side
        for (int d = 0; d < 3; ++d) {
            for (int s = 0; s < q; ++s) {
                if (s > 0) code.post(before[d], 10 + d);
                code.work(0.5 * stage);
                code.wait_all();
                code.work(0.5 * stage);
                if (s + 1 < q) code.start(after[d], code.bytes(0.6), 10 + d);
            }
            for (int s = q - 1; s >= 0; --s) {
                if (s + 1 < q) code.post(after[d], 20 + d);
                code.wait_all();
                code.work(stage);
                if (s > 0) code.start(before[d], code.bytes(0.2), 20 + d);
            }
        }
        code.wait_sends();
        code.work(0.03);
    }
    code.sum(40);
}

}  // namespace polter::truth
