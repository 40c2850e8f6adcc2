// SPDX-License-Identifier: BSD-3-Clause
// How exact the correction of clocks is, beside Score-P's rule on the same samples. Prints JSON.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "simulation.hpp"

using namespace polter::clocks;

namespace {

nlohmann::ordered_json spread(std::vector<int64_t> values) {
    std::sort(values.begin(), values.end());
    return {{"median", values[values.size() / 2]}, {"p99", values[values.size() * 99 / 100]}, {"max", values.back()}};
}

nlohmann::ordered_json trials(const Setup& setup, int runs) {
    std::vector<int64_t> errors, rivals, bounds, rtts, costs;
    int outside = 0, reversed = 0;
    for (int seed = 1; seed <= runs; ++seed) {
        Simulation run(setup, static_cast<uint64_t>(seed));
        run.run();
        const auto began = std::chrono::steady_clock::now();
        const Correction correction = run.corrected();
        costs.push_back((std::chrono::steady_clock::now() - began).count());
        bounds.push_back(correction.error_ns);
        rtts.push_back(run.least_rtt());
        reversed += run.reversed(correction);
        for (int i = 0; i <= 20; ++i) {
            const int64_t at = run.over / 20 * i;
            errors.push_back(std::abs(run.error(correction, at)));
            rivals.push_back(std::abs(run.rival_error(at)));
            outside += errors.back() > correction.error_ns;
        }
    }
    return {{"runs", runs},
            {"seconds", setup.seconds},
            {"rate_ppm", setup.rate * 1e6},
            {"wander_per_second", setup.bend},
            {"messages_each_way", setup.messages},
            {"least_rtt_ns", spread(rtts)},
            {"error_ns", spread(errors)},
            {"error_ns_by_score_p_rule", spread(rivals)},
            {"bound_ns", spread(bounds)},
            {"samples_outside_bound", outside},
            {"messages_reversed", reversed},
            {"fit_ns", spread(costs)}};
}

}  // namespace

int main() {
    nlohmann::ordered_json out{{"schema", "polter.bench.clocks/1"}};
    out["set_ups"] = {
        {"exchanges_alone_10_s", trials({.seconds = 10, .rate = 2e-5}, 1000)},
        {"with_messages_10_s", trials({.seconds = 10, .rate = 2e-5, .messages = 500}, 1000)},
        {"wandering_60_s", trials({.seconds = 60, .rate = 2e-5, .bend = 1e-9, .messages = 500}, 300)},
        {"plus_100_ppm_10_min", trials({.seconds = 600, .rate = 1e-4}, 300)},
        {"minus_100_ppm_10_min_with_messages", trials({.seconds = 600, .rate = -1e-4, .messages = 1000}, 300)},
    };
    fmt::print("{}\n", out.dump(2));
}
