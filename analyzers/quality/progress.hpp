// SPDX-License-Identifier: BSD-3-Clause
// How far jobs had come, and when: each level is a part of a job's work, and the history says by when such jobs had done it.
//
// A job is late at a level if it did that part later than the others let expect, or has not done it although it is past due. Over a whole
// run that is the largest score of any level, however often somebody looks. The same is known of each job of the history, judged from the
// others: its rank among those (conformal prediction: Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005,
// section 2.2; scores as in the jackknife) bounds the chance that an ordinary job is ever called slower, whatever the distribution of
// times.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model.hpp"

namespace polter::quality {

inline constexpr double alarm_rate = 0.05;           // of ordinary jobs, over their whole run: called slower; and as many called faster
inline constexpr size_t least_calibrated = 19;       // jobs, for that rate
inline constexpr double greatest_work_error = 0.05;  // beyond, work does not say how far a job has come

// The largest score of an ordinary job, with this chance that the next one's is larger. Unset: too few scores.
std::optional<double> limit_of(std::vector<double> scores, double rate);

// When so much was done by all ranks: the first time, if there are several. ns; the run time if it never was.
double reached_ns(const Job&, const std::string& work, double amount);
double done_by(const Job&, const std::string& work, double at_ns);  // evenly within a step

struct Work {
    std::string name;            // of what is counted: calls, bytes, a counter
    double error = 0;            // median error of its total, each job predicted from the others
    double total = 0;            // that the job will do
    std::vector<double> totals;  // of the history's jobs, each predicted from the others
};

class Progress {
  public:
    // Of a history whose jobs have series. Throws samples::Error, where nothing can be said of any such job: why.
    Progress(const Job&, const std::vector<Job>& history);

    const Work& work() const { return work_; }
    // Scores above the one, or below minus the other. Unset: too few jobs to know how late ordinary ones may seem.
    std::optional<double> slower_beyond() const { return slower_; }
    std::optional<double> faster_beyond() const { return faster_; }
    const Prediction& run_time() const { return usual_.back(); }

    struct State {
        double done = 0;                  // part of the work
        double level = 0;                 // that the judgement is made of; 1: the end
        std::optional<double> reached_s;  // by the job; unset: not yet
        Prediction usual;                 // seconds until that level
        double score = 0;                 // of the time at which it was reached; of the time that passed, if it was not
    };
    // `own_share`: of the time, that does not count (reasons.hpp).
    State at(const Job&, int64_t elapsed_ns, double own_share = 0) const;

  private:
    void find_work(const Job&, const std::vector<Job>&);
    void choose_levels(const std::vector<Job>&);
    void calibrate(const Job&, const std::vector<Job>&);

    Work work_;
    std::vector<double> levels_;     // parts of the work, ascending
    std::vector<Prediction> usual_;  // of each level, then of the end
    std::optional<double> slower_, faster_;
};

}  // namespace polter::quality
