// SPDX-License-Identifier: BSD-3-Clause
// What could be said of a job after each interval of a fixed length, while it ran: from what it had done until then, and no later.
//
// How far a job has come is measured by its work (progress.hpp). Beside it the paper's model: the run time estimated from the rates until
// then (Aaziz and Cook 2017, section 2: "while it is still running").
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
    double done = 0;                  // part of the job's work
    double level = 0;                 // the part that is judged: reached last, or past due; 1: the end
    std::optional<double> reached_s;  // by the job; unset: not yet
    double usual_s = 0;               // when such jobs had come as far
    samples::Interval interval;       // outside, the job is faster or slower
    Verdict verdict = Verdict::no_basis;
    std::optional<double> late;            // reached_s, or what has passed if that is past due, / usual_s - 1
    std::optional<double> from_rates_s;    // the run time, estimated from the rates until then; unset: too few jobs ran as long
    std::optional<double> left_out_error;  // of that model
    std::string why;                       // no basis
};

struct Online {
    int64_t interval_ns = 0;
    std::string work;       // what it is measured by
    double work_error = 0;  // how well size, processes and nodes say how much work a job is: median, each job left out
    std::optional<double> slower_beyond, faster_beyond;  // as of Progress
    std::vector<Point> points;
    std::string why;  // there are none
};

inline constexpr size_t most_points = 64;

std::vector<Job> in_steps(const std::vector<Job>&);  // those that were recorded in steps of time
Job until(const Job&, int64_t elapsed_ns);           // as far as it was known then: rates in equal parts of that time
class Progress;
Point point_at(int64_t elapsed_ns, const Progress&, const Job&, const std::vector<Job>& in_steps, double own_share = 0);

// `interval_ns`: 0: such that jobs like it have about ten; the nearest one that gives at most most_points otherwise.
Online follow(const Job&, const std::vector<Job>& history, int64_t interval_ns = 0);

}  // namespace polter::quality
