// SPDX-License-Identifier: BSD-3-Clause
// Conjugate gradients with the computing and the communication of HPCG 3: a sparse matrix for a 27-point operator, a V-cycle of symmetric
// Gauss-Seidel steps as preconditioner, halos by Irecv, Send and Wait, dot products by Allreduce. Prints one line of JSON; `gflop_per_s`
// counts operations as HPCG does (ReportResults.cpp there).
//
//     bench_cg [--box NX,NY,NZ] [--iterations N | --seconds S] [--levels N]
//
// The box is that of each rank. The grids are at most four, as in HPCG, and fewer where a box has an odd side; with --levels 0 there is no
// preconditioner, and what the program computes depends on the number of ranks by rounding only.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "box.hpp"
#include "multigrid.hpp"

namespace polter::cg {
namespace {

constexpr int iterations_of_a_set = 50;  // HPCG's: then it starts again from zero

struct Options {
    Triple box = {32, 32, 32};
    int iterations = iterations_of_a_set, levels = 4;
    double seconds = 0;  // not 0: as many whole sets as take at least so long
};

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        const std::string name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
        char end = 0;
        Triple& box = options.box;
        const bool read = name == "--box"          ? std::sscanf(value.c_str(), "%d,%d,%d%c", &box[0], &box[1], &box[2], &end) == 3
                          : name == "--iterations" ? std::sscanf(value.c_str(), "%d%c", &options.iterations, &end) == 1
                          : name == "--seconds"    ? std::sscanf(value.c_str(), "%lf%c", &options.seconds, &end) == 1
                          : name == "--levels"     ? std::sscanf(value.c_str(), "%d%c", &options.levels, &end) == 1
                                                   : false;
        const bool sound = box[0] > 0 && box[1] > 0 && box[2] > 0 && options.iterations > 0 && options.seconds >= 0 && options.levels >= 0;
        if (!read || !sound) throw std::runtime_error("usage: bench_cg [--box NX,NY,NZ] [--iterations N | --seconds S] [--levels N]");
    }
    return options;
}

double dot(const Box& box, const Vector& a, const Vector& b) {
    double mine = 0, all = 0;
    for (int64_t i = 0; i < box.points(); ++i) mine += a[i] * b[i];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

double greatest(double mine) {
    double all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

// a = b + factor c
void add(const Box& box, Vector& a, const Vector& b, double factor, const Vector& c) {
    for (int64_t i = 0; i < box.points(); ++i) a[i] = b[i] + factor * c[i];
}

struct Result {
    int iterations = 0, sets = 0;
    double first_residual = 0, residual = 0;  // norms at the beginning and the end of the last set
    double error = 0;                         // the greatest of any point
    double seconds = 0;
};

class Solver {
  public:
    Solver(const Triple& box, const Triple& ranks, int rank, int levels) : box_(box, ranks, rank), multigrid_(box, ranks, rank, levels) {}

    const Box& box() const { return box_; }
    const Multigrid& multigrid() const { return multigrid_; }

    // One set: solves from x = 0.
    void solve(int iterations, Result& result) {
        std::fill(x_.begin(), x_.end(), 0);
        std::copy(x_.begin(), x_.end(), p_.begin());  // which has a halo behind its points
        box_.multiply(p_, product_);
        add(box_, residual_, rhs_, -1, product_);
        result.first_residual = result.residual = std::sqrt(dot(box_, residual_, residual_));
        double before = 0;
        for (int i = 0; i < iterations && result.residual > 0; ++i, ++result.iterations) {
            if (multigrid_.levels() > 0)
                multigrid_.apply(residual_, z_);
            else
                std::copy(residual_.begin(), residual_.end(), z_.begin());
            const double now = dot(box_, residual_, z_);
            add(box_, p_, z_, i == 0 ? 0 : now / before, p_);
            before = now;
            box_.multiply(p_, product_);
            const double step = now / dot(box_, p_, product_);
            add(box_, x_, x_, step, p_);
            add(box_, residual_, residual_, -step, product_);
            result.residual = std::sqrt(dot(box_, residual_, residual_));
        }
        ++result.sets;
    }

    double error() const {
        double mine = 0;
        for (int64_t i = 0; i < box_.points(); ++i) mine = std::max(mine, std::abs(x_[i] - 1));
        return greatest(mine);
    }

    // Three dot products and three vector updates an iteration, one product with the matrix; one of each at the beginning of a set.
    double operations(const Result& result) const {
        const double rows = box_.global_points(), nonzeros = box_.global_nonzeros();
        return 2 * (3.0 * result.iterations + result.sets) * 2 * rows + (result.iterations + result.sets) * 2.0 * nonzeros +
               result.iterations * multigrid_.operations();
    }

  private:
    Box box_;
    Multigrid multigrid_;
    Vector rhs_ = box_.row_sums(), x_ = box_.vector(), residual_ = x_, product_ = x_;
    Vector p_ = box_.vector_with_halo(), z_ = p_;
};

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Result run(Solver& solver, const Options& options) {
    Result warm_up, result;
    solver.solve(1, warm_up);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = now();
    if (options.seconds > 0) {
        solver.solve(iterations_of_a_set, result);
        const double sets = std::ceil(options.seconds / greatest(now() - begin));  // the same on all ranks
        while (result.sets < sets) solver.solve(iterations_of_a_set, result);
    } else {
        for (int left = options.iterations; left > 0; left -= iterations_of_a_set)
            solver.solve(std::min(left, iterations_of_a_set), result);
    }
    result.seconds = greatest(now() - begin);
    result.error = solver.error();
    return result;
}

// Throws if the residual does not fall: on all ranks, as all know the same.
void run_and_print(const Options& options) {
    int rank = 0, size = 1;
    Triple ranks = {0, 0, 0};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 3, ranks.data());
    Solver solver(options.box, ranks, rank, options.levels);
    const Result result = run(solver, options);
    const double residual = result.residual / result.first_residual;
    if (rank == 0)
        std::printf(
            "{\"ranks\": [%d, %d, %d], \"box\": [%d, %d, %d], \"levels\": %d, \"iterations\": %d, \"sets\": %d, \"seconds\": %.6f, "
            "\"gflop_per_s\": %.6f, \"rhs_norm\": %.17g, \"residual\": %.17g, \"error\": %.17g}\n",
            ranks[0], ranks[1], ranks[2], options.box[0], options.box[1], options.box[2], solver.multigrid().levels(), result.iterations,
            result.sets, result.seconds, 1e-9 * solver.operations(result) / result.seconds, result.first_residual, residual, result.error);
    if (!(residual < 1)) throw std::runtime_error("the residual did not fall: it is " + std::to_string(residual) + " times what it was");
}

}  // namespace
}  // namespace polter::cg

int main(int argc, char** argv) {
    using namespace polter::cg;
    Options options;
    try {
        options = parse(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
    int code = 0, rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    try {
        run_and_print(options);
    } catch (const std::exception& error) {
        if (rank == 0) std::fprintf(stderr, "bench_cg: %s\n", error.what());
        code = 1;
    }
    MPI_Finalize();
    return code;
}
