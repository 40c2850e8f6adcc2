// SPDX-License-Identifier: BSD-3-Clause
#include "reasons.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "analyzers/samples/statistics.hpp"
#include "mutations.hpp"

namespace polter::quality {

namespace {

// Of each source and culprit, the share of the run time that it took from the rank that lost most: here, less the median of the others.
std::vector<Cause> more_noise(const Job& job, const std::vector<Job>& history) {
    std::vector<Cause> causes;
    for (const Stolen& one : job.stolen) {
        std::vector<double> shares;
        for (const Job& other : history) {
            if (!other.noise_known) continue;
            const auto same = std::find_if(other.stolen.begin(), other.stolen.end(),
                                           [&](const Stolen& s) { return s.source == one.source && s.culprit == one.culprit; });
            shares.push_back(same == other.stolen.end() ? 0 : static_cast<double>(same->ns) / static_cast<double>(other.runtime_ns));
        }
        if (shares.empty()) continue;
        const double usual =
            mutated(Mutation::usual_noise_counts) ? 0 : samples::median(std::move(shares)) * static_cast<double>(job.runtime_ns);
        causes.push_back({one.source, one.culprit, one.rank, one.ns, std::llround(usual)});
    }
    std::stable_sort(causes.begin(), causes.end(), [](const Cause& a, const Cause& b) { return a.ns - a.usual_ns > b.ns - b.usual_ns; });
    return causes;
}

bool is_own(const Cause& cause) {
    return (cause.culprit == "polter" || cause.culprit == "polterd") && !mutated(Mutation::own_noise_counts);
}

// Rates differ with size and processes: where there are enough jobs that have the same, those alone are compared with.
std::vector<Job> most_like(const Job& job, const std::vector<Job>& history) {
    constexpr size_t enough = 5;
    std::vector<Job> same;
    std::copy_if(history.begin(), history.end(), std::back_inserter(same),
                 [&](const Job& other) { return other.size == job.size && other.processes == job.processes && other.nodes == job.nodes; });
    return same.size() >= enough ? same : history;
}

}  // namespace

double own_share(const Job& job, const std::vector<Job>& history) {
    if (mutated(Mutation::own_noise_counts)) return 0;
    double ns = 0;
    for (const Cause& cause : more_noise(job, history))
        if (is_own(cause)) ns += static_cast<double>(std::max<int64_t>(0, cause.ns - cause.usual_ns));
    const double share = ns / static_cast<double>(std::max<int64_t>(1, job.runtime_ns));
    return std::clamp(static_cast<double>(job.processes) * share, std::min(share, 1.0), std::max(share, most_followed));
}

std::vector<Cause> causes_of(const Job& job, const std::vector<Job>& history, double delay_ns) {
    const double least = (mutated(Mutation::small_noise_counts) ? 0 : 0.1) * delay_ns;
    std::vector<Cause> causes = more_noise(job, history);
    std::erase_if(causes, [&](const Cause& cause) { return static_cast<double>(cause.ns - cause.usual_ns) < least || is_own(cause); });
    return causes;
}

std::vector<Difference> differences_of(const Job& job, const std::vector<Job>& all) {
    const std::vector<Job> history = most_like(job, all);
    std::vector<Difference> list;
    for (const auto& [name, feature] : job.features) {
        Difference most{name, 0, 0, 0};
        for (size_t i = 0; i < intervals; ++i) {
            std::vector<double> others;
            for (const Job& other : history)
                if (const auto found = other.features.find(name); found != other.features.end()) others.push_back(found->second.mean[i]);
            if (others.size() < 3) continue;
            const double usual = samples::median(others), mad = samples::mad(others, usual),
                         deviation = mutated(Mutation::unscaled_differences) ? 1e-3 : std::max(1.4826 * mad, 1e-3 * std::abs(usual));
            if (!(deviation > 0)) continue;
            const double deviations = (feature.mean[i] - usual) / deviation;
            if (std::abs(deviations) > std::abs(most.deviations)) most = {name, feature.mean[i], usual, deviations};
        }
        if (std::abs(most.deviations) > 3) list.push_back(most);
    }
    std::stable_sort(list.begin(), list.end(),
                     [](const Difference& a, const Difference& b) { return std::abs(a.deviations) > std::abs(b.deviations); });
    return list;
}

}  // namespace polter::quality
