// SPDX-License-Identifier: BSD-3-Clause
// What a job should have taken, from the jobs before it: principal components of what the ranks did, and least squares.
//
// Source: Aaziz and Cook 2017, section 2, which gives no formulas; ours are in the README. Estimated is the logarithm of a positive number,
// of the run time in seconds if nothing else is said.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzers/samples/statistics.hpp"
#include "job.hpp"

namespace polter::quality {

enum class Inputs {
    attributes,      // input size, processes, nodes
    rates,           // and principal components of rates
    rates_and_work,  // and how much work was done in all: instructions, else calls and bytes
    everything       // and principal components of rates and totals together
};
inline constexpr Inputs all_inputs[] = {Inputs::attributes, Inputs::rates, Inputs::rates_and_work, Inputs::everything};
std::string name_of(Inputs);

inline constexpr double verdict_level = 0.99;  // of the prediction interval that a verdict is made of: 1 % of ordinary jobs lie outside

struct Prediction {
    double expected = 0;
    samples::Interval interval, verdict_interval;  // 95 %, and the level asked for
    double deviation = 0;                          // standard deviation of the logarithm, for one further job
    double leverage = 0, allowed_leverage = 0;     // beyond, the job is unlike those before it
    bool far() const { return leverage > allowed_leverage; }
    double score(double value) const;                   // its logarithm's distance from the expected one, in deviations
    samples::Interval within(double deviations) const;  // the values with such scores
};

// A job of the history, predicted from the others.
struct LeftOut {
    double expected = 0, score = 0;
};

using Response = std::function<double(const Job&)>;
double runtime_s(const Job&);

// A model of jobs of one application. Throws samples::Error where there are too few of them, or a response is not above 0.
class Model {
  public:
    // `components`: at most so many principal components; unset: as many as leaving one job out shows to be best.
    Model(const std::vector<Job>& history, Inputs, std::optional<size_t> components = {}, const Response& = runtime_s);

    Prediction predict(const Job&, double level = verdict_level) const;
    // Of the logarithm, by what they belong to: "1", "log size", "log size^2" (from the mean log size), "log processes", "log nodes", then
    // components.
    const std::vector<std::pair<std::string, double>>& coefficients() const { return coefficients_; }
    size_t components() const { return components_; }
    size_t jobs() const { return jobs_; }
    const std::vector<LeftOut>& left_out_jobs() const { return left_out_; }  // in the order of the history
    // The variance between sizes, processes and nodes beyond the curve, as a multiple of that between jobs that are alike. 0: the curve
    // says all that is known.
    double between() const { return ratio_; }
    double left_out_error() const { return left_out_error_; }  // median of |error| / response, each job predicted from the others

  private:
    struct Standardised {
        std::vector<std::string> names;
        std::vector<double> mean, deviation;
    };
    struct Design;
    void choose_attributes(const std::vector<Job>&, Inputs, Design&);
    void drop_dependent(Design&);
    void bend(const std::vector<Job>&, Design&);
    void find_components(const std::vector<Job>&, Inputs, Design&);
    void find_groups(const std::vector<Job>&, Design&);
    void choose(Design&, std::optional<size_t> components);
    std::vector<double> row_of(const Job&) const;

    std::vector<std::string> attributes_;
    double middle_ = 0;  // mean log size
    Standardised features_;
    std::vector<std::vector<double>> directions_;  // of the principal components, in standardised units
    std::vector<double> beta_;
    std::vector<std::vector<double>> inverse_, plain_inverse_;  // of the equations with groups; of X'X
    std::vector<Job> groups_;
    double ratio_ = 0;
    std::vector<LeftOut> left_out_;
    std::vector<std::pair<std::string, double>> coefficients_;
    double residual_ = 0, freedom_ = 0;
    size_t components_ = 0, jobs_ = 0;
    double left_out_error_ = 0;
};

}  // namespace polter::quality
