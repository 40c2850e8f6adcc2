// SPDX-License-Identifier: BSD-3-Clause
#include "model.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <set>

#include "least_squares.hpp"
#include "mutations.hpp"

namespace polter::quality {

namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

constexpr size_t least_freedom = 3;  // jobs beyond the coefficients
constexpr size_t jobs_a_component = 5;
constexpr double variance_kept = 0.95;
constexpr const char* bent = "log size^2";
constexpr size_t sizes_of_a_curve = 4;
constexpr double worth_more = 0.8;  // a curve, or groups, must leave at most this part of the squared error

double attribute(const Job& job, const std::string& name) {
    if (name == "log size") return job.size > 0 ? std::log(job.size) : 0;
    if (name == "log processes") return std::log(static_cast<double>(job.processes));
    if (name == "log nodes") return std::log(static_cast<double>(job.nodes));
    const auto total = job.totals.find(name.substr(4));  // "log NAME"
    return total == job.totals.end() || total->second <= 0 ? 0 : std::log(total->second);
}

bool is_instructions(const std::string& name) {
    return name.find("TOT_INS") != std::string::npos || name.find("INSTRUCTIONS") != std::string::npos ||
           name.find("instructions") != std::string::npos;
}

// What noise did is no input: it would explain away what is to be found.
bool is_noise(const std::string& name) {
    return name.starts_with("noise:");
}

// "NAME mean 3", "NAME deviation 3", "log NAME": a value of a job.
double value_of(const Job& job, const std::string& name) {
    if (name.starts_with("log ")) return attribute(job, name);
    const size_t blank = name.rfind(' '), before = name.rfind(' ', blank - 1);
    const auto found = job.features.find(name.substr(0, before));
    if (found == job.features.end()) return 0;
    const auto i = static_cast<size_t>(std::stoul(name.substr(blank + 1)));
    return name.substr(before + 1, blank - before - 1) == "mean" ? found->second.mean[i] : found->second.deviation[i];
}

bool varies(const std::vector<Job>& jobs, const std::string& name) {
    const double first = value_of(jobs.front(), name);
    return std::any_of(jobs.begin(), jobs.end(),
                       [&](const Job& job) { return std::abs(value_of(job, name) - first) > 1e-12 * std::max(1.0, std::abs(first)); });
}

// Jobs of one size, on as many processes and nodes.
bool alike(const Job& a, const Job& b) {
    return a.size == b.size && a.processes == b.processes && a.nodes == b.nodes;
}

// Programs are faster at some sizes than a smooth curve says (alignment, block sizes). Jobs that are alike then say more of each other than
// the curve does; how much more, leaving one job out decides.
Solved with_groups(const Matrix& x, const Matrix& groups, const Vector& y, Solved plain, double& used) {
    if (mutated(Mutation::sizes_smooth)) return plain;
    double best = worth_more * left_out(plain).squaredNorm();
    std::optional<Solved> chosen;
    for (const double ratio : {0.25, 1.0, 4.0, 16.0}) {
        auto solved = groups.cols() > 0 ? solve(x, groups, ratio, y) : std::nullopt;
        if (!solved) continue;
        const double error = left_out(*solved).squaredNorm();
        if (error > best) continue;
        best = error;
        chosen = std::move(solved);
        used = ratio;
    }
    return chosen ? *std::move(chosen) : plain;
}

}  // namespace

std::string name_of(Inputs inputs) {
    switch (inputs) {
        case Inputs::attributes:
            return "size and processes";
        case Inputs::rates:
            return "and rates";
        case Inputs::rates_and_work:
            return "and rates and work";
        default:
            return "everything";
    }
}

double runtime_s(const Job& job) {
    return static_cast<double>(job.runtime_ns) * 1e-9;
}

struct Model::Design {
    Eigen::Index jobs = 0;
    Vector y;
    Matrix fixed, scores, groups;  // a column of ones and the attributes; principal components; which jobs are alike
};

Model::Model(const std::vector<Job>& history, Inputs inputs, std::optional<size_t> components, const Response& response)
    : jobs_(history.size()) {
    if (history.size() < least_freedom + 1)
        throw samples::Error("too few jobs of this application: at least 4, and 3 more than there are inputs that vary");
    Design design;
    design.jobs = static_cast<Eigen::Index>(history.size());
    design.y.resize(design.jobs);
    for (Eigen::Index i = 0; i < design.jobs; ++i) {
        const double value = response(history[static_cast<size_t>(i)]);
        if (!(value > 0) || !std::isfinite(value)) throw samples::Error("a job of the history has nothing of what is to be estimated");
        design.y(i) = std::log(value);
    }
    choose_attributes(history, inputs, design);
    bend(history, design);
    find_components(history, inputs, design);
    find_groups(history, design);
    choose(design, components);
}

void Model::choose_attributes(const std::vector<Job>& history, Inputs inputs, Design& design) {
    for (const char* name : {"log size", "log processes", "log nodes"})
        if (varies(history, name)) attributes_.emplace_back(name);
    if (inputs == Inputs::rates_and_work || inputs == Inputs::everything) {
        std::vector<std::string> work;
        for (const auto& [name, value] : history.front().totals)
            if (is_instructions(name) && varies(history, "log " + name)) work.push_back("log " + name);
        if (work.empty())
            for (const char* name : {"log calls", "log bytes"})
                if (varies(history, name)) work.emplace_back(name);
        attributes_.insert(attributes_.end(), work.begin(), work.end());
    }
    design.fixed = Matrix::Ones(design.jobs, static_cast<Eigen::Index>(attributes_.size()) + 1);
    for (Eigen::Index i = 0; i < design.jobs; ++i)
        for (size_t j = 0; j < attributes_.size(); ++j)
            design.fixed(i, static_cast<Eigen::Index>(j) + 1) = attribute(history[static_cast<size_t>(i)], attributes_[j]);
    drop_dependent(design);
}

// Inputs that say the same (processes that grow with the size) cannot be told apart: the later one goes.
void Model::drop_dependent(Design& design) {
    Matrix& fixed = design.fixed;
    for (Eigen::Index j = 1; j < fixed.cols();) {
        if (independent(fixed.leftCols(j + 1))) {
            ++j;
            continue;
        }
        for (Eigen::Index k = j; k + 1 < fixed.cols(); ++k) fixed.col(k) = fixed.col(k + 1).eval();
        fixed.conservativeResize(design.jobs, fixed.cols() - 1);
        attributes_.erase(attributes_.begin() + static_cast<std::ptrdiff_t>(j - 1));
    }
}

// Times such as a + b * size^3 are no power of the size: a second power of its logarithm is taken where leaving one job out shows that it
// is worth it.
void Model::bend(const std::vector<Job>& history, Design& design) {
    std::set<double> sizes;
    for (const Job& job : history) {
        middle_ += attribute(job, "log size") / static_cast<double>(history.size());
        sizes.insert(job.size);
    }
    const Matrix& fixed = design.fixed;
    if (attributes_.empty() || attributes_.front() != "log size" || sizes.size() < sizes_of_a_curve ||
        fixed.cols() + 1 + static_cast<Eigen::Index>(least_freedom) > design.jobs || mutated(Mutation::straight))
        return;
    Matrix more(design.jobs, fixed.cols() + 1);
    more << fixed, (fixed.col(1).array() - middle_).square().matrix();
    const auto with = solve(more, design.y), without = solve(fixed, design.y);
    if (!with || !without || left_out(*with).squaredNorm() > worth_more * left_out(*without).squaredNorm()) return;
    design.fixed = std::move(more);
    attributes_.emplace_back(bent);
}

void Model::find_components(const std::vector<Job>& history, Inputs inputs, Design& design) {
    const Eigen::Index n = design.jobs;
    design.scores.resize(n, 0);
    if (inputs == Inputs::attributes) return;
    std::vector<std::string> names;
    for (const auto& [name, feature] : history.front().features) {
        if (is_noise(name)) continue;
        for (size_t i = 0; i < intervals; ++i)
            for (const char* of : {"mean", "deviation"}) names.push_back(name + " " + of + " " + std::to_string(i));
    }
    if (inputs == Inputs::everything)
        for (const auto& [name, value] : history.front().totals) names.push_back("log " + name);
    for (const std::string& name : names)
        if (varies(history, name)) features_.names.push_back(name);
    const auto columns = static_cast<Eigen::Index>(features_.names.size());
    if (columns == 0) return;
    Matrix z(n, columns);
    for (Eigen::Index j = 0; j < columns; ++j) {
        for (Eigen::Index i = 0; i < n; ++i) z(i, j) = value_of(history[static_cast<size_t>(i)], features_.names[static_cast<size_t>(j)]);
        const double mean = z.col(j).mean(),
                     deviation = mutated(Mutation::not_standardised)
                                     ? 1
                                     : std::sqrt((z.col(j).array() - mean).square().sum() / static_cast<double>(n - 1));
        features_.mean.push_back(mean);
        features_.deviation.push_back(deviation);
        z.col(j) = (z.col(j).array() - mean) / deviation;
    }
    const auto [directions, squares] = principal_components(z);
    const auto most = std::min<Eigen::Index>(squares.size(), n / static_cast<Eigen::Index>(jobs_a_component));
    Eigen::Index kept = 0;
    for (double sum = 0; kept < most && sum < variance_kept * squares.sum() && squares(kept) > 1e-9 * squares(0); ++kept)
        sum += squares(kept);
    design.scores = z * directions.leftCols(kept);
    for (Eigen::Index k = 0; k < kept; ++k) directions_.emplace_back(directions.col(k).data(), directions.col(k).data() + columns);
}

// Only some that occur more than once, and others, can say how much groups differ beyond the curve.
void Model::find_groups(const std::vector<Job>& history, Design& design) {
    std::vector<size_t> group;
    for (const Job& job : history) {
        const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Job& one) { return alike(one, job); });
        group.push_back(static_cast<size_t>(found - groups_.begin()));
        if (found != groups_.end()) continue;
        Job one;  // what makes it one of the group, and nothing else of it
        one.size = job.size, one.processes = job.processes, one.nodes = job.nodes;
        groups_.push_back(one);
    }
    const auto count = static_cast<Eigen::Index>(groups_.size());
    if (count == design.jobs || count <= design.fixed.cols()) groups_.clear();
    design.groups = Matrix::Zero(design.jobs, groups_.empty() ? 0 : count);
    for (Eigen::Index i = 0; i < design.jobs && !groups_.empty(); ++i)
        design.groups(i, static_cast<Eigen::Index>(group[static_cast<size_t>(i)])) = 1;
}

// As many components as leaving one job out shows to be best.
void Model::choose(Design& design, std::optional<size_t> components) {
    const Eigen::Index n = design.jobs;
    double best = 0;
    std::optional<Solved> plain;
    Matrix inputs;
    const auto all = static_cast<size_t>(design.scores.cols()), most = std::min(components.value_or(all), all);
    for (size_t q = components ? most : 0; q <= most; ++q) {
        Matrix x(n, design.fixed.cols() + static_cast<Eigen::Index>(q));
        x << design.fixed, design.scores.leftCols(static_cast<Eigen::Index>(q));
        if (x.cols() + static_cast<Eigen::Index>(least_freedom) > n) break;
        auto solved = solve(x, design.y);
        if (!solved) continue;
        const double error = left_out(*solved).squaredNorm();
        if (plain && error >= best) continue;
        best = error;
        plain = std::move(solved);
        inputs = std::move(x);
        components_ = q;
    }
    if (!plain)
        throw samples::Error("too few jobs of this application for " + std::to_string(design.fixed.cols()) +
                             " coefficients: " + std::to_string(jobs_) + ", and 3 more than coefficients are needed");
    directions_.resize(components_);
    const auto p = inputs.cols();
    for (Eigen::Index i = 0; i < p; ++i) {
        plain_inverse_.emplace_back();
        for (Eigen::Index j = 0; j < p; ++j) plain_inverse_.back().push_back(plain->inverse(i, j));
    }
    const Solved solved = with_groups(inputs, design.groups, design.y, std::move(*plain), ratio_);
    beta_.assign(solved.beta.data(), solved.beta.data() + solved.beta.size());
    for (Eigen::Index i = 0; i < solved.beta.size(); ++i) {
        inverse_.emplace_back();
        for (Eigen::Index j = 0; j < solved.beta.size(); ++j) inverse_.back().push_back(solved.inverse(i, j));
    }
    for (size_t at = 0; at < static_cast<size_t>(p); ++at)
        coefficients_.emplace_back(at == 0                    ? "1"
                                   : at <= attributes_.size() ? attributes_[at - 1]
                                                              : "component " + std::to_string(at - attributes_.size()),
                                   beta_[at]);
    freedom_ = static_cast<double>(n - p);
    residual_ = std::sqrt(std::max(0.0, solved.squares) / freedom_);
    std::vector<double> errors;
    const Vector out = left_out(solved), scores = left_out_scores(solved, freedom_);
    for (Eigen::Index i = 0; i < n; ++i) {
        errors.push_back(std::abs(1 - std::exp(-out(i))));
        left_out_.push_back({std::exp(design.y(i) - out(i)), scores(i)});
    }
    left_out_error_ = samples::median(std::move(errors));
}

std::vector<double> Model::row_of(const Job& job) const {
    std::vector<double> row = {1};
    for (const std::string& name : attributes_)
        row.push_back(name == bent ? std::pow(attribute(job, "log size") - middle_, 2) : attribute(job, name));
    for (const auto& direction : directions_) {
        double score = 0;
        for (size_t j = 0; j < direction.size(); ++j)
            score += direction[j] * (value_of(job, features_.names[j]) - features_.mean[j]) / features_.deviation[j];
        row.push_back(score);
    }
    return row;
}

Prediction Model::predict(const Job& job, double asked) const {
    std::vector<double> x = row_of(job);
    Prediction prediction;
    const auto p = static_cast<double>(x.size());
    for (size_t i = 0; i < x.size(); ++i)
        for (size_t j = 0; j < x.size(); ++j) prediction.leverage += x[i] * plain_inverse_[i][j] * x[j];
    prediction.allowed_leverage = std::max(2 * p, 3.0) / static_cast<double>(jobs_);
    // One further job varies by itself too, and one of a further group by how much groups vary.
    double variance = mutated(Mutation::interval_of_the_mean) ? 0 : 1;
    if (ratio_ > 0) {
        bool known = false;
        for (const Job& one : groups_) {
            x.push_back(alike(one, job) ? 1 : 0);
            known = known || alike(one, job);
        }
        if (!known) variance += ratio_;
    }
    double expected = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        expected += beta_[i] * x[i];
        for (size_t j = 0; j < x.size(); ++j) variance += x[i] * inverse_[i][j] * x[j];
    }
    prediction.expected = std::exp(expected);
    prediction.deviation = std::max(least_deviation, residual_ * std::sqrt(variance));
    const boost::math::students_t_distribution<double> t(freedom_);
    const auto within = [&](double level) { return prediction.within(boost::math::quantile(t, 1 - (1 - level) / 2)); };
    prediction.interval = within(samples::usual_level);
    prediction.verdict_interval = within(asked);
    return prediction;
}

double Prediction::score(double value) const {
    return (std::log(value) - std::log(expected)) / deviation;
}

samples::Interval Prediction::within(double deviations) const {
    return {expected * std::exp(-deviations * deviation), expected * std::exp(deviations * deviation)};
}

}  // namespace polter::quality
