// SPDX-License-Identifier: BSD-3-Clause
#include "advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "candidates.hpp"
#include "replay/base/error.hpp"
#include "replay/result/first_screen.hpp"

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

// Where a task or a quota takes the CPU, a rank cannot serve its partners either, and no record tells which transfer needed it.
bool takes_cpu(const replay::Scenario& scenario) {
    static const std::set<std::string> sources = {"preempt", "runqueue", "throttle", "steal", "os-service:preempt_job"};
    return std::any_of(scenario.begin(), scenario.end(), [](const replay::Removal& one) { return sources.contains(one.source); });
}

replay::Scenario both(replay::Scenario a, const replay::Scenario& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

int64_t between(int64_t without, int64_t with, double part) {
    return without + static_cast<int64_t>(std::llround(part * static_cast<double>(with - without)));
}

// Two runs of a program differ by chance, by how much no single trace tells: as part of the run time, what is taken for it.
constexpr double repeatability = 0.005;

// At least what is saved without `removed` alone, at most what is saved without all that may go with it.
replay::Saving saving(const Suggestion& one, int64_t measured, replay::WhatIfs& what_ifs) {
    const replay::Scenario known = both(one.removed, one.follows), all = both(known, one.may_be);
    const replay::Saving least = what_ifs.bounded(one.removed);
    const replay::Saving likely = one.follows.empty() ? least : what_ifs.bounded(known);
    const replay::Saving most = one.may_be.empty() ? likely : what_ifs.bounded(all);
    replay::Saving saving;
    saving.ns = between(likely.ns, most.ns, one.part);
    saving.low_ns = std::min(least.low_ns, saving.ns);
    saving.high_ns = std::max({saving.ns, least.high_ns, likely.high_ns, takes_cpu(all) ? most.most_ns : most.high_ns});
    if (most.ns > 0) {  // else there was no such noise
        const auto by = static_cast<int64_t>(repeatability * static_cast<double>(measured));
        saving.low_ns = std::max<int64_t>(0, saving.low_ns - by);
        saving.high_ns = std::min(measured, saving.high_ns + by + one.refill_ns);
    }
    saving.most_ns = std::max(saving.high_ns, most.most_ns);
    saving.conditional = least.conditional || likely.conditional || most.conditional;
    return saving;
}

// A free core for all is no suggestion of its own where keeping one program away does nearly the same.
bool told_by_one(const Suggestion& all_tasks, const std::vector<Suggestion>& list) {
    constexpr double nearly = 0.9;
    return (all_tasks.kind == "leave_core_free" || all_tasks.kind == "keep_others_off") &&
           std::any_of(list.begin(), list.end(), [&](const Suggestion& one) {
               const bool task = one.kind == "process" || one.kind == "kworkers" || one.kind == "kernel_threads";
               return task && static_cast<double>(one.saves.ns) >= nearly * static_cast<double>(all_tasks.saves.ns);
           });
}

std::string turned_down(const Advice& advice, const replay::Saving& saving) {
    if (static_cast<double>(saving.ns) < advice.least * static_cast<double>(advice.measured_ns))
        return fmt::format("it is below {:g} % of the run time", advice.least * 100);
    if (saving.low_ns <= 0) return "its bounds include 0";
    return "";
}

void choose(Advice& advice, std::vector<Suggestion> all, const Options& options, replay::WhatIfs& what_ifs) {
    std::vector<replay::Scenario> scenarios;
    for (const Suggestion& one : all) {
        scenarios.push_back(both(one.removed, one.follows));
        scenarios.push_back(both(scenarios.back(), one.may_be));
    }
    if (all.empty()) return;
    const std::vector<int64_t> saved = what_ifs.savings(scenarios);
    for (size_t i = 0; i < all.size(); ++i) all[i].saves.ns = between(saved[2 * i], saved[2 * i + 1], all[i].part);
    const std::vector<Suggestion> screened = all;
    std::erase_if(all, [&](const Suggestion& one) { return told_by_one(one, screened); });
    advice.candidates = all.size();
    std::stable_sort(all.begin(), all.end(), [](const Suggestion& a, const Suggestion& b) { return a.saves.ns > b.saves.ns; });
    for (size_t i = 0; i < all.size() && advice.suggestions.size() < options.most; ++i) {
        Suggestion& one = all[i];
        const bool small = static_cast<double>(one.saves.ns) < advice.least * static_cast<double>(advice.measured_ns);
        if (small && advice.largest_not_suggested) break;
        one.saves = saving(one, advice.measured_ns, what_ifs);
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
    advice.open = replay::NoiseCost(result).open;
    advice.warnings = result.warnings;
    const Place place = place_of(result);
    advice.program = place.program;
    choose(advice, candidates(result, place), options, what_ifs);
    auto& list = advice.suggestions;
    std::stable_sort(list.begin(), list.end(), [](const Suggestion& a, const Suggestion& b) { return a.saves.ns > b.saves.ns; });
    Suggestion all;
    for (size_t i = 0; i < list.size(); ++i) {
        all.removed = both(all.removed, list[i].removed);
        all.follows = both(all.follows, list[i].follows);
        all.may_be = both(all.may_be, list[i].may_be);
        all.part = std::max(all.part, list[i].part);
        all.refill_ns += list[i].refill_ns;
        for (size_t k = 0; k < list.size(); ++k)
            if (k != i && overlap(both(list[i].removed, list[i].follows), both(list[k].removed, list[k].follows)))
                list[i].overlaps.push_back(k);
    }
    if (list.size() > 1) advice.together = saving(all, advice.measured_ns, what_ifs);
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
