// SPDX-License-Identifier: BSD-3-Clause
// The verdict on a job. Start reading here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mutations.hpp"
#include "progress.hpp"
#include "quality.hpp"

namespace polter::quality {

std::string name_of(Verdict verdict) {
    switch (verdict) {
        case Verdict::as_expected:
            return "as expected";
        case Verdict::slower:
            return "slower";
        case Verdict::faster:
            return "faster";
        default:
            return "no basis";
    }
}

namespace {

// Errors need not be normal: the jobs of the history, each judged from the others, say how far off ordinary ones are.
void widen(Prediction& prediction, const Model& model) {
    std::vector<double> scores;
    for (const LeftOut& one : model.left_out_jobs()) scores.push_back(std::abs(one.score));
    const auto limit = mutated(Mutation::always_normal) ? std::nullopt : limit_of(std::move(scores), alarm_rate);
    if (!limit) return;
    const samples::Interval interval = prediction.within(*limit);
    prediction.verdict_interval = {std::min(prediction.verdict_interval.low, interval.low),
                                   std::max(prediction.verdict_interval.high, interval.high)};
}

}  // namespace

Assessment assess(const Job& job, const std::vector<Job>& history, int64_t interval_ns) {
    Assessment result;
    result.job = job;
    result.history = history.size();
    for (const Inputs inputs : all_inputs) {
        Compared compared;
        compared.inputs = inputs;
        try {
            const Model model(history, inputs);
            compared.left_out_error = model.left_out_error();
            compared.components = model.components();
            // The verdict comes from what the job was, not from how it went: rates change with what makes it slow, and would explain it
            // away.
            if (inputs == Inputs::attributes) {
                result.prediction = model.predict(job);
                result.coefficients = model.coefficients();
                result.between = model.between();
                widen(*result.prediction, model);
            }
        } catch (const samples::Error& error) {
            compared.why = error.what();
            if (inputs == Inputs::attributes) result.why = error.what();
        }
        result.models.push_back(std::move(compared));
    }
    if (!history.empty()) result.differences = differences_of(job, history);
    result.online = follow(job, history, interval_ns);
    if (!result.prediction) return result;
    const Prediction& prediction = *result.prediction;
    const double took = static_cast<double>(job.runtime_ns) * 1e-9;
    result.difference = took / prediction.expected - 1;
    if (prediction.far() && !mutated(Mutation::far_is_near)) {
        result.why = fmt::format("size, processes or nodes are far from those of the {} jobs before", history.size());
        return result;
    }
    const samples::Interval& interval = mutated(Mutation::verdict_at_95) ? prediction.interval : prediction.verdict_interval;
    result.own_share = own_share(job, history);
    result.verdict = took * (1 - result.own_share) > interval.high ? Verdict::slower : took < interval.low ? Verdict::faster : Verdict::as_expected;
    if (result.verdict != Verdict::slower) return result;
    result.because = causes_of(job, history, (took - prediction.expected) * 1e9);
    if (!job.noise_known)
        result.warnings.push_back(
            "the job's noise was not measured, so nothing is said about why it was slower; polter doctor says what measures it");
    return result;
}

}  // namespace polter::quality
