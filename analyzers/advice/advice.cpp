// SPDX-License-Identifier: BSD-3-Clause
#include "advice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "candidates.hpp"
#include "replay/base/error.hpp"

namespace polter::advice {

namespace {

bool meet(const std::set<std::string>& a, const std::set<std::string>& b) {
    return a.empty() || b.empty() || std::any_of(a.begin(), a.end(), [&](const std::string& one) { return b.contains(one); });
}

bool overlap(const replay::Scenario& a, const replay::Scenario& b) {
    for (const replay::Removal& one : a)
        for (const replay::Removal& other : b)
            if (one.source == other.source && meet(one.culprits, other.culprits)) return true;
    return false;
}

std::string turned_down(const Advice& advice, const replay::Saving& saving) {
    if (static_cast<double>(saving.ns) < advice.least * static_cast<double>(advice.measured_ns))
        return fmt::format("it is below {:g} % of the run time", advice.least * 100);
    if (saving.low_ns <= 0) return "its bounds include 0";
    return "";
}

void choose(Advice& advice, std::vector<Suggestion> all, const Options& options, replay::WhatIfs& what_ifs) {
    std::vector<replay::Scenario> scenarios;
    for (const Suggestion& one : all) scenarios.push_back(one.removed);
    advice.candidates = all.size();
    if (all.empty()) return;
    const std::vector<int64_t> saved = what_ifs.savings(scenarios);
    for (size_t i = 0; i < all.size(); ++i) all[i].saves.ns = saved[i];
    std::stable_sort(all.begin(), all.end(), [](const Suggestion& a, const Suggestion& b) { return a.saves.ns > b.saves.ns; });
    for (size_t i = 0; i < all.size() && advice.suggestions.size() < options.most; ++i) {
        Suggestion& one = all[i];
        const bool small = static_cast<double>(one.saves.ns) < advice.least * static_cast<double>(advice.measured_ns);
        if (small && advice.largest_not_suggested) break;
        one.saves = what_ifs.bounded(one.removed);
        const std::string why = turned_down(advice, one.saves);
        if (why.empty()) {
            advice.suggestions.push_back(std::move(one));
        } else if (!advice.largest_not_suggested) {
            advice.largest_not_suggested = std::move(one);
            advice.why_not = why;
        }
    }
}

}  // namespace

Advice advise(const replay::Result& result, replay::WhatIfs& what_ifs, const Options& options) {
    if (const std::string why = not_measured(result); !why.empty())
        throw replay::InputError(
            fmt::format("{}: the noise was not measured ({}), so there is nothing to advise on; polter run records it, polter doctor "
                        "says what works here",
                        options.trace, why));
    Advice advice;
    advice.trace = options.trace;
    advice.provenance = result.provenance;
    advice.measured_ns = result.measured_ns;
    advice.accumulated_noise_ns = result.accumulated_noise_ns;
    advice.noise_low_ns = result.measured_ns - result.bounds_high_ns;
    advice.noise_high_ns = result.measured_ns - result.bounds_low_ns;
    advice.least = options.least;
    advice.conditional = result.conditional;
    advice.warnings = result.warnings;
    const Place place = place_of(result);
    advice.program = place.program;
    choose(advice, candidates(result, place), options, what_ifs);
    auto& list = advice.suggestions;
    std::stable_sort(list.begin(), list.end(), [](const Suggestion& a, const Suggestion& b) { return a.saves.ns > b.saves.ns; });
    replay::Scenario all;
    for (size_t i = 0; i < list.size(); ++i) {
        all.insert(all.end(), list[i].removed.begin(), list[i].removed.end());
        for (size_t k = 0; k < list.size(); ++k)
            if (k != i && overlap(list[i].removed, list[k].removed)) list[i].overlaps.push_back(k);
    }
    if (list.size() > 1) advice.together = what_ifs.bounded(all);
    const auto conditional = [](const replay::Saving& saving) { return saving.conditional; };
    advice.conditional = advice.conditional || (advice.together && conditional(*advice.together)) ||
                         std::any_of(list.begin(), list.end(), [&](const Suggestion& one) { return conditional(one.saves); });
    return advice;
}

Advice advise(const Options& options) {
    replay::Options replayed;
    replayed.trace = options.trace;
    replayed.progress = options.progress;
    Advice advice;
    replay::replay(replayed, [&](const replay::Result& result, replay::WhatIfs& what_ifs) { advice = advise(result, what_ifs, options); });
    return advice;
}

}  // namespace polter::advice
