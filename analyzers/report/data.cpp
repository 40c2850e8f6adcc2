// SPDX-License-Identifier: BSD-3-Clause
#include "data.hpp"

#include <nlohmann/json.hpp>

#include "../advice/advice.hpp"
#include "../compare/compare.hpp"
#include "replay/replay.hpp"
#include "replay/what_if.hpp"

namespace polter::report {

namespace {

using nlohmann::json;

replay::Options options_of_page(const std::string& trace, std::function<void(double)> progress) {
    replay::Options options;
    options.trace = trace;
    options.progress = std::move(progress);
    options.attribution = options.timeline = true;
    options.windows = 60;
    options.costliest = 40;
    return options;
}

// Replays a run for the page; its advice comes from the same replay.
replay::Result replayed(const replay::Options& options, json& run) {
    json advised;
    replay::Result result = replay::replay(options, [&](const replay::Result& whole, replay::WhatIfs& what_ifs) {
        if (!not_measured(whole).empty()) return;
        advice::Options asked;
        asked.trace = options.trace;
        advised = advice::to_json(advice::advise(whole, what_ifs, asked));
    });
    run = replay::to_json(result);
    // The page shows their sums; the rows themselves would be most of the data.
    if (run.contains("attribution")) run["attribution"].erase("rows");
    if (!advised.is_null()) run["advice"] = std::move(advised);
    return result;
}

}  // namespace

json data_of(const DataOptions& options) {
    json data{{"schema", "polter.page/1"}, {"runs", json::array()}, {"comparison", nullptr}};
    if (options.sides.size() == 1) {
        json run;
        replayed(options_of_page(options.sides.front().front(), options.progress), run);
        data["runs"].push_back(std::move(run));
        return data;
    }
    compare::Options compared;
    compared.sides = options.sides;
    compared.progress = options.progress;
    size_t side = 0, of_side = 0;
    compared.replay = [&](const replay::Options& one) {
        const bool first = of_side == 0;
        if (++of_side == options.sides[side].size()) {
            ++side;
            of_side = 0;
        }
        if (!first) return replay::replay(one);
        json run;
        replay::Result result = replayed(options_of_page(one.trace, one.progress), run);
        data["runs"].push_back(std::move(run));
        return result;
    };
    data["comparison"] = compare::to_json(compare::compare(compared));
    return data;
}

}  // namespace polter::report
