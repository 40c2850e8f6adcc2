// SPDX-License-Identifier: BSD-3-Clause
// The preconditioner: a V-cycle over grids of half the points in each direction. A coarse point is the fine one at twice its coordinates.
#pragma once

#include <algorithm>

#include "box.hpp"

namespace polter::cg {

class Multigrid {
  public:
    // As many grids as `most`, the finest first; fewer where a side of the box is odd.
    Multigrid(const Triple& finest, const Triple& ranks, int rank, int most) {
        Triple size = finest;
        while (levels() < most) {
            grids_.emplace_back(size, ranks, rank);
            if (size[0] % 2 || size[1] % 2 || size[2] % 2) break;
            for (int& side : size) side /= 2;
        }
    }

    int levels() const { return static_cast<int>(grids_.size()); }

    // Solves A x = rhs approximately, from x = 0.
    void apply(const Vector& rhs, Vector& x, size_t level = 0) {
        Grid& fine = grids_[level];
        std::fill(x.begin(), x.end(), 0);
        fine.box.smooth(rhs, x);
        if (level + 1 == grids_.size()) return;
        fine.box.multiply(x, fine.product);
        Grid& coarse = grids_[level + 1];
        for (size_t i = 0; i < coarse.finer.size(); ++i) coarse.rhs[i] = rhs[coarse.finer[i]] - fine.product[coarse.finer[i]];
        apply(coarse.rhs, coarse.x, level + 1);
        for (size_t i = 0; i < coarse.finer.size(); ++i) x[coarse.finer[i]] += coarse.x[i];
        fine.box.smooth(rhs, x);
    }

    // Of one application: a sweep forward and one backward, twice, and the residual; on the coarsest grid two sweeps.
    double operations() const {
        double sum = 0;
        for (size_t level = 0; level < grids_.size(); ++level)
            sum += (level + 1 < grids_.size() ? 10 : 4) * grids_[level].box.global_nonzeros();
        return sum;
    }

  private:
    struct Grid {
        Grid(const Triple& size, const Triple& ranks, int rank) : box(size, ranks, rank) {
            each({0, 0, 0}, {size[0] - 1, size[1] - 1, size[2] - 1}, [&](const Triple& at) {
                finer.push_back(index_in({2 * size[0], 2 * size[1], 2 * size[2]}, {2 * at[0], 2 * at[1], 2 * at[2]}));
            });
        }
        Box box;
        Vector product = box.vector(), rhs = product, x = box.vector_with_halo();
        std::vector<int> finer;  // where each point is on the next finer grid
    };

    std::vector<Grid> grids_;
};

}  // namespace polter::cg
