// SPDX-License-Identifier: BSD-3-Clause
// What could be said of a job after each interval of a fixed length, while it ran: from what it had done until then, and no later.
//
// How far a job has come is measured by its work (instructions, MPI calls or bytes), as a part of all that such a job does. The jobs of
// the history give the time by which they had come as far, as a function of size, processes and nodes. Beside it the paper's model: the run
// time estimated from the rates until then (Aaziz and Cook 2017, section 2: "while it is still running").
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model.hpp"

namespace polter::quality {

enum class Verdict { as_expected, slower, faster, no_basis };
std::string name_of(Verdict);

// After one interval.
struct Point {
    int64_t elapsed_ns = 0;
    double done = 0;             // part of the job's work
    double usual_s = 0;          // when such jobs had come as far
    samples::Interval interval;  // that of one further job at Online::level
    Verdict verdict = Verdict::no_basis;
    double late = 0;                       // elapsed / usual - 1
    std::optional<double> from_rates_s;    // the run time, estimated from the rates until then; unset: too few jobs ran as long
    std::optional<double> left_out_error;  // of that model
    std::string why;                       // no basis
};

struct Online {
    int64_t interval_ns = 0;
    std::string work;       // what it is measured by
    double work_error = 0;  // how well size, processes and nodes say how much work a job is: median, each job left out
    double level = 0;       // of a point, such that all of them together flag an ordinary job in 1 - verdict_level of the cases
    std::vector<Point> points;
    std::string why;  // there are none
};

inline constexpr size_t most_points = 64;
inline constexpr double greatest_work_error = 0.05;  // beyond, work does not say how far a job has come

// `interval_ns`: 0: such that jobs like it have about ten; the nearest one that gives at most most_points otherwise.
Online follow(const Job&, const std::vector<Job>& history, int64_t interval_ns = 0);

}  // namespace polter::quality
