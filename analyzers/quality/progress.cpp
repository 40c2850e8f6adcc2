// SPDX-License-Identifier: BSD-3-Clause
#include "progress.hpp"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "mutations.hpp"

namespace polter::quality {

namespace {

constexpr int parts = 20;            // of the run time, at whose ends levels lie
constexpr double step_up = 1.01;     // what a level is above all that was done by then
constexpr double last_level = 0.95;  // totals are estimates; behind, the end itself is waited for
constexpr double least_s = 1e-6;     // times are compared by their logarithms

const std::vector<double>* steps_of(const Job& job, const std::string& name) {
    const auto found = job.series.steps.find(name);
    return found == job.series.steps.end() ? nullptr : &found->second;
}

double total_of(const Job& job, const std::string& name) {
    const std::vector<double>* steps = steps_of(job, name);
    return steps ? std::accumulate(steps->begin(), steps->end(), 0.0) : 0;
}

// The length of a step; the last one ends with the job.
double length_of(const Job& job, size_t step) {
    const int64_t begin = static_cast<int64_t>(step) * job.series.step_ns;
    return static_cast<double>(std::max<int64_t>(1, std::min(job.series.step_ns, job.runtime_ns - begin)));
}

bool is_amount(const std::string& name) {
    return name != "mpi" && !name.starts_with("noise:") && !name.starts_with("service:");
}

}  // namespace

std::optional<double> limit_of(std::vector<double> scores, double rate) {
    const auto n = static_cast<double>(scores.size());
    const auto rank = static_cast<size_t>(std::ceil((1 - rate) * (n + 1) - 1e-9));
    if (rank > scores.size()) return {};
    std::nth_element(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(rank - 1), scores.end());
    return scores[rank - 1];
}

double done_by(const Job& job, const std::string& work, double at_ns) {
    const std::vector<double>* steps = steps_of(job, work);
    if (!steps) return 0;
    double sum = 0, begin = 0;
    for (size_t i = 0; i < steps->size() && begin < at_ns; ++i) {
        const double length = length_of(job, i);
        sum += (*steps)[i] * std::min(1.0, (at_ns - begin) / length);
        begin += length;
    }
    return sum;
}

double reached_ns(const Job& job, const std::string& work, double amount) {
    const std::vector<double>* steps = steps_of(job, work);
    double begin = 0;
    for (size_t i = 0; steps && i < steps->size(); ++i) {
        const double length = length_of(job, i), of = (*steps)[i];
        if (of > 0 && amount <= of) return begin + length * amount / of;
        amount -= of;
        begin += length;
    }
    return static_cast<double>(job.runtime_ns);
}

Progress::Progress(const Job& job, const std::vector<Job>& history) {
    find_work(job, history);
    choose_levels(history);
    calibrate(job, history);
}

// Of the amounts that all jobs have, the one that size, processes and nodes tell best.
void Progress::find_work(const Job& job, const std::vector<Job>& history) {
    std::string why = "it, or the jobs before it, did nothing that counts as work";
    std::map<std::string, bool> names;
    for (const auto& [name, steps] : history.front().series.steps)
        if (is_amount(name)) names[name] = true;
    for (const auto& [name, unused] : names) {
        try {
            const Model model(history, Inputs::attributes, {}, [&name = name](const Job& one) { return total_of(one, name); });
            if (!work_.name.empty() && model.left_out_error() >= work_.error) continue;
            work_ = {name, model.left_out_error(), model.predict(job).expected, {}};
            for (const LeftOut& one : model.left_out_jobs()) work_.totals.push_back(one.expected);
        } catch (const samples::Error& error) {
            why = error.what();
        }
    }
    if (work_.name.empty()) throw samples::Error(why);
    if (work_.error > greatest_work_error)
        throw samples::Error(
            "jobs of the same size, processes and nodes do different amounts of work, so it does not say how far they are");
}

// As evenly in time as the work allows: programs do little of it in some phases. No level is one at which a job of the history stayed for a
// while (such as what is done before a long set-up): when it was reached would be a matter of the last digit.
void Progress::choose_levels(const std::vector<Job>& history) {
    for (int part = 1; part < parts; ++part) {
        double most = 0;
        for (const Job& one : history)
            most = std::max(most, done_by(one, work_.name, static_cast<double>(one.runtime_ns) * part / parts) / total_of(one, work_.name));
        const double level = step_up * most;
        if (most > 0 && level < last_level && (levels_.empty() || level > step_up * levels_.back())) levels_.push_back(level);
    }
}

void Progress::calibrate(const Job& job, const std::vector<Job>& history) {
    const size_t levels = levels_.size();
    std::vector<double> latest(history.size(), -HUGE_VAL), earliest(history.size(), -HUGE_VAL);
    for (size_t level = 0; level <= levels; ++level) {
        const Model model(history, Inputs::attributes, {}, [&](const Job& one) {
            if (level == levels) return runtime_s(one);
            const double total = work_.totals[static_cast<size_t>(&one - history.data())];
            return std::max(least_s, 1e-9 * reached_ns(one, work_.name, levels_[level] * total));
        });
        usual_.push_back(model.predict(job));
        for (size_t i = 0; i < history.size(); ++i) {
            latest[i] = std::max(latest[i], model.left_out_jobs()[i].score);
            if (level < levels) earliest[i] = std::max(earliest[i], -model.left_out_jobs()[i].score);
        }
    }
    slower_ = limit_of(latest, alarm_rate);
    faster_ = limit_of(earliest, alarm_rate);
    if (mutated(Mutation::one_look)) slower_ = faster_ = boost::math::quantile(boost::math::normal(), 1 - alarm_rate);
}

Progress::State Progress::at(const Job& job, int64_t elapsed_ns, double own_share) const {
    State state;
    const double elapsed_s = 1e-9 * static_cast<double>(elapsed_ns), done = mutated(Mutation::time_is_progress)
                                                                                ? work_.total * elapsed_s / run_time().expected
                                                                                : done_by(job, work_.name, static_cast<double>(elapsed_ns));
    state.done = done / work_.total;
    const size_t levels = levels_.size();
    size_t next = 0;
    while (next < levels && levels_[next] * work_.total <= done) ++next;
    const auto waiting = [&](size_t due) {
        state.level = next < levels ? levels_[next] : 1;
        state.usual = usual_[due];
        state.score = state.usual.score(std::max(least_s, elapsed_s * (1 - own_share)));
        return state;
    };
    if (next == 0) return waiting(0);
    const Prediction& usual = usual_[next - 1];
    const double reached_s = std::max(least_s, 1e-9 * reached_ns(job, work_.name, levels_[next - 1] * work_.total)),
                 score = usual.score(std::max(least_s, reached_s * (1 - own_share)));
    // Past due at the next level says more than how late it was at the last one.
    const size_t due = mutated(Mutation::fast_at_first) ? next - 1 : next;
    if (waiting(due).score > std::max(0.0, score)) return state;
    return {state.done, levels_[next - 1], reached_s, usual, score};
}

}  // namespace polter::quality
