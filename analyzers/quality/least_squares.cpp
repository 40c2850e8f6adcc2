// SPDX-License-Identifier: BSD-3-Clause
#include "least_squares.hpp"

#include <cmath>

#include "mutations.hpp"

namespace polter::quality {

namespace {

constexpr double least_rest = 1e-9;       // of 1 - leverage

}  // namespace

std::optional<Solved> solve(const Eigen::MatrixXd& x, const Eigen::VectorXd& y) {
    return solve(x, Eigen::MatrixXd(x.rows(), 0), 0, y);
}

std::optional<Solved> solve(const Eigen::MatrixXd& x, const Eigen::MatrixXd& z, double ratio, const Eigen::VectorXd& y) {
    const Eigen::Index n = x.rows(), p = x.cols(), groups = ratio > 0 ? z.cols() : 0;
    Eigen::MatrixXd all = Eigen::MatrixXd::Zero(n + groups, p + groups);
    Eigen::VectorXd right = Eigen::VectorXd::Zero(n + groups);
    all.topLeftCorner(n, p) = x;
    right.head(n) = y;
    if (groups > 0) {
        all.topRightCorner(n, groups) = z;
        all.bottomRightCorner(groups, groups).diagonal().setConstant(1 / std::sqrt(ratio));
    }
    const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(all);
    if (qr.rank() < all.cols()) return {};
    Solved solved;
    solved.beta = qr.solve(right);
    solved.inverse = (all.transpose() * all).inverse();
    const auto samples = all.topRows(n);
    solved.residuals = y - samples * solved.beta;
    solved.leverages = (samples * solved.inverse).cwiseProduct(samples).rowwise().sum();
    solved.squares = (y - x * solved.beta.head(p)).dot(solved.residuals);
    return solved;
}

Eigen::VectorXd left_out(const Solved& solved) {
    if (mutated(Mutation::errors_of_the_fit)) return solved.residuals;
    return solved.residuals.cwiseQuotient((1 - solved.leverages.array()).max(least_rest).matrix());
}

Eigen::VectorXd left_out_scores(const Solved& solved, double freedom) {
    const auto rest = (1 - solved.leverages.array()).max(least_rest);
    const Eigen::ArrayXd variance =
        ((solved.squares - solved.residuals.array().square() / rest) / (freedom - 1)).max(least_deviation * least_deviation);
    return (solved.residuals.array() / (variance * rest).sqrt()).matrix();
}

bool independent(const Eigen::MatrixXd& columns) {
    Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(columns);
    qr.setThreshold(1e-9);
    return qr.rank() == columns.cols();
}

Principal principal_components(const Eigen::MatrixXd& centred) {
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(centred, Eigen::ComputeThinV);
    return {svd.matrixV(), svd.singularValues().array().square()};
}

}  // namespace polter::quality
