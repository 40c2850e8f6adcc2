// SPDX-License-Identifier: BSD-3-Clause
// Least squares with each sample predicted from the others, and principal components: what needs linear algebra.
#pragma once

#include <Eigen/Dense>
#include <optional>

namespace polter::quality {

// Of logarithms: where all samples lie on the curve, rounding is no error.
constexpr double least_deviation = 1e-9;

// y = X b + Z u + error. The errors have one variance. u are effects of groups of samples, which vary by `ratio` times that variance (a
// mixed model; Henderson's equations: Searle, Casella and McCulloch, "Variance Components", section 7.6). Ratio 0: no groups.
struct Solved {
    Eigen::VectorXd beta;       // b, then u
    Eigen::MatrixXd inverse;    // of the equations' matrix, for beta
    Eigen::VectorXd residuals;  // y - X b - Z u
    Eigen::VectorXd leverages;
    double squares = 0;  // divided by (samples - coefficients): the variance of the errors
};

// Unset where columns depend on each other.
std::optional<Solved> solve(const Eigen::MatrixXd& x, const Eigen::VectorXd& y);
std::optional<Solved> solve(const Eigen::MatrixXd& x, const Eigen::MatrixXd& z, double ratio, const Eigen::VectorXd& y);

// Each sample's error if it is predicted from the others: residual / (1 - leverage).
Eigen::VectorXd left_out(const Solved&);
// The same in standard deviations of such a prediction, which are estimated from the others too. `freedom`: samples - coefficients, at
// least 2.
Eigen::VectorXd left_out_scores(const Solved&, double freedom);

bool independent(const Eigen::MatrixXd& columns);

// Of a centred matrix, the largest first: a column each, and the sums of squares along them.
struct Principal {
    Eigen::MatrixXd directions;
    Eigen::VectorXd squares;
};
Principal principal_components(const Eigen::MatrixXd& centred);

}  // namespace polter::quality
