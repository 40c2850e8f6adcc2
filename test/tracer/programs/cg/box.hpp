// SPDX-License-Identifier: BSD-3-Clause
// One rank's box of points on one grid: its rows of the 27-point operator, and the exchange of the points around it. All ranks have boxes
// of one size; together they fill the global grid, whose border has no points beyond it.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <vector>

namespace polter::cg {

using Triple = std::array<int, 3>;  // along x, y, z; x runs fastest
using Vector = std::vector<double>;

inline int64_t product(const Triple& t) {
    return int64_t{1} * t[0] * t[1] * t[2];
}

inline int index_in(const Triple& size, const Triple& at) {
    return (at[2] * size[1] + at[1]) * size[0] + at[0];
}

// Calls `visit` with every triple from `low` to `high`, both included.
template <typename Visit>
void each(const Triple& low, const Triple& high, Visit visit) {
    for (int z = low[2]; z <= high[2]; ++z)
        for (int y = low[1]; y <= high[1]; ++y)
            for (int x = low[0]; x <= high[0]; ++x) visit(Triple{x, y, z});
}

class Box {
  public:
    Box(const Triple& size, const Triple& ranks, int rank) : size_(size), ranks_(ranks), points_(product(size)) {
        place_ = {rank % ranks[0], rank / ranks[0] % ranks[1], rank / ranks[0] / ranks[1]};
        find_neighbours();
        fill_matrix();
    }

    const Triple& size() const { return size_; }
    int64_t points() const { return points_; }
    Vector vector() const { return Vector(static_cast<size_t>(points_)); }
    Vector vector_with_halo() const { return Vector(static_cast<size_t>(points_ + halo_)); }

    double global_points() const { return static_cast<double>(points_ * product(ranks_)); }
    // Of the whole operator: in each direction a point has three neighbours, those at the two ends have two.
    double global_nonzeros() const {
        double nonzeros = 1;
        for (int axis = 0; axis < 3; ++axis) nonzeros *= 3.0 * size_[axis] * ranks_[axis] - 2;
        return nonzeros;
    }

    // The right-hand side whose solution is 1 everywhere: the sum of each row.
    Vector row_sums() const {
        Vector sums = vector();
        for (int64_t row = 0; row < points_; ++row)
            for (int k = first_[row]; k < first_[row + 1]; ++k) sums[row] += values_[k];
        return sums;
    }

    // out = A v
    void multiply(Vector& v, Vector& out) {
        exchange(v);
        for (int64_t row = 0; row < points_; ++row) {
            double sum = 0;
            for (int k = first_[row]; k < first_[row + 1]; ++k) sum += values_[k] * v[columns_[k]];
            out[row] = sum;
        }
    }

    // One symmetric Gauss-Seidel step of A v = rhs. Points of other ranks keep the values that they had before it.
    void smooth(const Vector& rhs, Vector& v) {
        exchange(v);
        for (int64_t row = 0; row < points_; ++row) relax(row, rhs, v);
        for (int64_t row = points_; row-- > 0;) relax(row, rhs, v);
    }

  private:
    struct Neighbour {
        int rank;
        int count, halo_begin;        // its points in the halo of a vector
        std::vector<int> boundary;    // the points of this box that it needs, in the order of its halo
        std::vector<double> to_send;  // their values
    };

    static constexpr double diagonal = 26, beside = -1;

    static size_t number(const Triple& side) { return static_cast<size_t>((side[2] + 1) * 9 + (side[1] + 1) * 3 + side[0] + 1); }

    // A face, an edge or a corner for each of the 26 sides on which there is another rank.
    void find_neighbours() {
        each({-1, -1, -1}, {1, 1, 1}, [&](const Triple& side) {
            of_side_[number(side)] = -1;
            Triple there = place_, low = {0, 0, 0}, high = {size_[0] - 1, size_[1] - 1, size_[2] - 1};
            for (int axis = 0; axis < 3; ++axis) {
                there[axis] += side[axis];
                if (there[axis] < 0 || there[axis] >= ranks_[axis]) return;
                if (side[axis] < 0) high[axis] = 0;
                if (side[axis] > 0) low[axis] = high[axis];
            }
            if (there == place_) return;
            Neighbour neighbour{index_in(ranks_, there), 0, static_cast<int>(points_) + halo_, {}, {}};
            each(low, high, [&](const Triple& at) { neighbour.boundary.push_back(index_in(size_, at)); });
            neighbour.count = static_cast<int>(neighbour.boundary.size());
            neighbour.to_send.resize(neighbour.boundary.size());
            halo_ += neighbour.count;
            of_side_[number(side)] = static_cast<int>(neighbours_.size());
            neighbours_.push_back(std::move(neighbour));
        });
        requests_.resize(neighbours_.size());
    }

    // Where the value of a point lies that is at most one step outside; −1 beyond the global border.
    int column(const Triple& at) const {
        Triple side = {0, 0, 0}, within = {0, 0, 0}, extent = {1, 1, 1};
        for (int axis = 0; axis < 3; ++axis) {
            side[axis] = at[axis] < 0 ? -1 : at[axis] >= size_[axis] ? 1 : 0;
            if (side[axis] != 0) continue;
            within[axis] = at[axis];
            extent[axis] = size_[axis];
        }
        if (side == Triple{0, 0, 0}) return index_in(size_, at);
        const int which = of_side_[number(side)];
        if (which < 0) return -1;
        return neighbours_[which].halo_begin + index_in(extent, within);
    }

    void fill_matrix() {
        first_.push_back(0);
        each({0, 0, 0}, {size_[0] - 1, size_[1] - 1, size_[2] - 1}, [&](const Triple& at) {
            each({-1, -1, -1}, {1, 1, 1}, [&](const Triple& step) {
                const int found = column({at[0] + step[0], at[1] + step[1], at[2] + step[2]});
                if (found < 0) return;
                columns_.push_back(found);
                values_.push_back(step == Triple{0, 0, 0} ? diagonal : beside);
            });
            first_.push_back(static_cast<int>(columns_.size()));
        });
    }

    void relax(int64_t row, const Vector& rhs, Vector& v) const {
        double sum = rhs[row] + diagonal * v[row];
        for (int k = first_[row]; k < first_[row + 1]; ++k) sum -= values_[k] * v[columns_[k]];
        v[row] = sum / diagonal;
    }

    void exchange(Vector& v) {
        constexpr int tag = 99;
        for (size_t n = 0; n < neighbours_.size(); ++n)
            MPI_Irecv(&v[neighbours_[n].halo_begin], neighbours_[n].count, MPI_DOUBLE, neighbours_[n].rank, tag, MPI_COMM_WORLD,
                      &requests_[n]);
        for (Neighbour& neighbour : neighbours_)
            for (int k = 0; k < neighbour.count; ++k) neighbour.to_send[k] = v[neighbour.boundary[k]];
        for (const Neighbour& neighbour : neighbours_)
            MPI_Send(neighbour.to_send.data(), neighbour.count, MPI_DOUBLE, neighbour.rank, tag, MPI_COMM_WORLD);
        for (MPI_Request& request : requests_) MPI_Wait(&request, MPI_STATUS_IGNORE);
    }

    Triple size_, ranks_, place_;
    int64_t points_;
    int halo_ = 0;
    std::array<int, 27> of_side_{};  // index of the neighbour; −1: there is none
    std::vector<Neighbour> neighbours_;
    std::vector<MPI_Request> requests_;
    std::vector<int> first_, columns_;  // the matrix in rows: where each begins, and the points of its values
    std::vector<double> values_;
};

}  // namespace polter::cg
