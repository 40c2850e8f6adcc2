// SPDX-License-Identifier: BSD-3-Clause
// The main path: replay the trace, write its ranks' programs down, find their pattern, extend it, and draw noise for it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "layout.hpp"
#include "mutations.hpp"
#include "prediction.hpp"
#include "replay/base/error.hpp"
#include "replay/what_if.hpp"
#include "scaling_rules.hpp"
#include "simulation.hpp"

namespace polter::prediction {

namespace {

constexpr uint64_t most_calls = 60'000'000;  // that are kept: about 10 GB
constexpr int64_t most_ranks = 1 << 20;

struct Recorded {
    replay::Result result;
    replay::Programs programs;
};

Recorded record(const Options& options) {
    replay::Options asked;
    asked.trace = options.trace;
    if (options.progress) asked.progress = [&](double part) { options.progress(part / 2); };
    Recorded recorded;
    recorded.result = replay::replay(asked, [&](const replay::Result&, replay::WhatIfs& what_ifs) { recorded.programs = what_ifs.programs(most_calls); });
    return recorded;
}

void check(const Options& options, int64_t measured) {
    if (options.grid.size() > 0 && options.ranks.size() != 1)
        throw replay::InputError("--grid gives the lengths of one grid: ask for one number of ranks at a time");
    for (const int64_t ranks : options.ranks) {
        if (ranks < measured)
            throw replay::InputError(fmt::format("{}: the trace has {} ranks; a prediction for {} would need fewer. Ask for at least {}",
                                                 options.trace, measured, ranks, measured));
        if (ranks > most_ranks) throw replay::InputError(fmt::format("{} ranks are too many: at most {}", ranks, most_ranks));
    }
}

std::vector<std::string> reasons_of(const Recorded& recorded, const Pattern& pattern) {
    std::vector<std::string> reasons;
    if (const std::string why = replay::not_measured(recorded.result); !why.empty()) reasons.push_back("the noise was not measured: " + why);
    for (const auto& [why, times] : recorded.programs.not_covered)
        reasons.push_back(fmt::format("the program has {}: {} times", why, times));
    if (!pattern.irregular.empty()) reasons.push_back(pattern.irregular);
    return reasons;
}

class Predictor {
  public:
    Predictor(const Options& options, const Recorded& recorded, const Pattern& pattern)
        : options_(options),
          recorded_(recorded),
          pattern_(pattern),
          residuals_(residuals_of(recorded.programs)),
          noise_(recorded.programs, options.seed),
          intervals_(intervals_of(recorded.programs)) {}

    Prediction predict(int64_t ranks, size_t number);
    const NoiseBlocks& noise() const { return noise_; }

  private:
    void draw(Simulation&, Prediction&, size_t number);

    const Options& options_;
    const Recorded& recorded_;
    const Pattern& pattern_;
    Residuals residuals_;
    NoiseBlocks noise_;
    Intervals intervals_;
};

void Predictor::draw(Simulation& simulation, Prediction& prediction, size_t number) {
    double local = 0;
    const int64_t until = most_times * std::max<int64_t>(1, prediction.quiet_ns);
    for (size_t i = 0; i < options_.draws; ++i) {
        const Outcome outcome = simulation.drawn(NoiseDraw(noise_, i, until));
        prediction.ended += outcome.end >= until;
        prediction.draws.push_back(static_cast<double>(outcome.end - prediction.quiet_ns));
        local += outcome.local_ns / static_cast<double>(options_.draws);
        if (options_.progress) {
            const double done = static_cast<double>(number * options_.draws + i + 1);
            options_.progress(0.5 + 0.5 * done / static_cast<double>(options_.ranks.size() * options_.draws));
        }
    }
    prediction.local_ns = local;
    prediction.noise_ns = samples::median(prediction.draws);
    // What the replay leaves open of the measured answer the prediction leaves open too.
    const replay::Result& measured = recorded_.result;
    const auto [low, high] = samples::central(prediction.draws);
    const auto accumulated = static_cast<double>(measured.accumulated_noise_ns);
    const auto part = [&](int64_t bound) { return accumulated > 0 ? static_cast<double>(measured.measured_ns - bound) / accumulated : 1; };
    prediction.interval = {low * std::min(1.0, part(measured.bounds_high_ns)), high * std::max(1.0, part(measured.bounds_low_ns))};
}

Prediction Predictor::predict(int64_t ranks, size_t number) {
    Prediction prediction;
    prediction.ranks = ranks;
    const Extended extended = extend(pattern_, ranks, options_.grid);
    if (!extended.why.empty()) throw replay::InputError(options_.trace + ": " + extended.why);
    prediction.grid = extended.grid;
    std::string irregular;
    const Layout layout(recorded_.programs, pattern_, extended.grid, &irregular);
    if (!irregular.empty()) {
        prediction.reasons.push_back(irregular);
        return prediction;
    }
    Simulation simulation(recorded_.programs, layout, residuals_);
    const Outcome quiet = simulation.quiet();
    prediction.quiet_ns = quiet.end;
    prediction.most_open = quiet.most_open;
    if (!options_.resample) {
        prediction.noise_ns = static_cast<double>(simulation.recorded().end - quiet.end);
        prediction.local_ns = recorded_.result.removed_local.mean;
        return prediction;
    }
    draw(simulation, prediction, number);
    const auto accumulated = static_cast<double>(recorded_.result.accumulated_noise_ns);
    const double factor = static_cast<double>(ranks) / static_cast<double>(recorded_.result.ranks);
    prediction.others = {emma(intervals_, accumulated, factor), tsafrir(intervals_, accumulated, recorded_.result.ranks, ranks)};
    if (std::string reason = without_end(prediction); !reason.empty()) prediction.reasons.push_back(std::move(reason));
    if (std::string reason = disagreement(prediction); !reason.empty()) prediction.reasons.push_back(std::move(reason));
    return prediction;
}

}  // namespace

std::optional<double> tail_index(const NoiseBlocks& noise) {
    if (!noise.longest().known() || noise.longest().law().shape <= 0) return std::nullopt;
    return 1 / noise.longest().law().shape;
}

std::vector<std::string> warnings_of(const NoiseBlocks& noise) {
    constexpr uint64_t few_events = 200;
    constexpr double heavy_tail = 2;  // below it the lengths have no variance
    std::vector<std::string> warnings;
    if (noise.events() > 0 && noise.events() < few_events)
        warnings.push_back(fmt::format("only {} noise events were measured: another run of the same program may have had much more noise, or "
                                       "less, than the interval says. Trace a longer run.",
                                       noise.events()));
    const std::optional<double> index = tail_index(noise);
    if (index && *index < heavy_tail && !mutated(Mutation::no_heavy_tail))
        warnings.push_back(fmt::format("the lengths of noise events have a heavy tail (index {:.1f}; below {:.0f} the longest events decide the "
                                       "delay). More ranks meet longer events than were measured, so noise may cost more than the interval says. "
                                       "Trace a longer run, or more ranks.",
                                       *index, heavy_tail));
    return warnings;
}

std::string without_end(const Prediction& prediction) {
    if (2 * prediction.ended < std::max<size_t>(1, prediction.draws.size())) return {};
    return fmt::format(
        "with the lengths of noise events that were measured, noise would cost more than {} times the run in {} of {} draws; trace a "
        "longer run, or more ranks",
        most_times - 1, prediction.ended, prediction.draws.size());
}

std::string ended_draws(const Prediction& prediction) {
    if (prediction.ended == 0 || !prediction.basis()) return {};
    return fmt::format(
        "in {} of {} draws for {} ranks, noise would cost more than {} times the run. They were ended there, so how much it may "
        "cost at most is not known. Trace a longer run, or more ranks.",
        prediction.ended, prediction.draws.size(), prediction.ranks, most_times - 1);
}

std::string disagreement(const Prediction& prediction) {
    double least = prediction.noise_ns, most = prediction.noise_ns;
    for (const Method& method : prediction.others) {
        if (!method.ns) continue;
        least = std::min(least, *method.ns);
        most = std::max(most, *method.ns);
    }
    if (most <= std::max(0.0, least) * most_disagreement || mutated(Mutation::agree_always)) return {};
    return least > 0 ? fmt::format("the methods disagree by a factor of {:.1f}", most / least) : "one of the methods says that noise costs nothing";
}

Result predict(const Options& options) {
    Recorded recorded = record(options);
    check(options, recorded.result.ranks);
    Result result;
    result.seed = options.seed;
    result.resampled = options.resample;
    result.draws = options.resample ? options.draws : 0;
    result.pattern = find_pattern(recorded.programs);
    result.reasons = reasons_of(recorded, result.pattern);
    if (result.reasons.empty()) {
        Predictor predictor(options, recorded, result.pattern);
        result.hosts = predictor.noise().hosts();
        result.blocks = predictor.noise().blocks();
        result.block_ns = predictor.noise().block_ns();
        result.noise_events = predictor.noise().events();
        result.hosts_differ = predictor.noise().hosts_differ();
        result.tail_index = tail_index(predictor.noise());
        if (options.resample) result.warnings = warnings_of(predictor.noise());
        for (size_t i = 0; i < options.ranks.size(); ++i) result.predictions.push_back(predictor.predict(options.ranks[i], i));
        for (const Prediction& one : result.predictions)
            if (std::string warning = ended_draws(one); !warning.empty()) result.warnings.push_back(std::move(warning));
    }
    result.measured = std::move(recorded.result);
    return result;
}

}  // namespace polter::prediction
