// SPDX-License-Identifier: BSD-3-Clause
#include "data.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "../advice/advice.hpp"
#include "../compare/compare.hpp"
#include "../interference/interference.hpp"
#include "../variability/variability.hpp"
#include "replay/base/json_file.hpp"
#include "replay/parallel/forked.hpp"
#include "replay/replay.hpp"
#include "replay/trace/archive.hpp"
#include "replay/what_if.hpp"

namespace polter::report {

namespace {

using nlohmann::json;

replay::Options options_of_page(const std::string& trace, std::function<void(double)> progress) {
    replay::Options options;
    options.trace = trace;
    options.progress = std::move(progress);
    options.attribution = options.timeline = true;
    options.decode_ahead = replay::fastest_division(trace, false).decode_ahead;
    options.windows = 60;
    options.costliest = 40;
    return options;
}

// How the segments vary, without the points of plots that the page does not draw.
void add_variability(const interference::Analyzed& analyzed, json& run) {
    constexpr size_t most_kinds = 5;
    variability::Options options;
    options.resamples = 200;
    json result = variability::to_json(variability::analyze(variability::from_run(analyzed), options));
    json& kinds = result["kinds"];
    if (kinds.size() > most_kinds) {
        result["warnings"].push_back(fmt::format("of {} kinds of intervals, the {} that take longest are shown", kinds.size(), most_kinds));
        kinds.erase(kinds.begin() + most_kinds, kinds.end());
    }
    run["variability"] = std::move(result);
}

// Of programs that have collectives; why not, of others. In short traces the OS noise in each segment too, which takes another replay.
void add_interference(const std::string& trace, json& run) {
    constexpr uint64_t short_trace = 64 << 20;
    interference::Options options;
    options.traces = {trace};
    try {
        options.noise = replay::event_bytes(trace) <= short_trace;
        options.keep_without = options.noise;
        const interference::Result result = interference::analyze(options);
        run["interference"] = interference::to_json(result).at("runs").at(0);
        try {
            add_variability(result.runs.front(), run);
        } catch (const std::exception& error) {
            run["variability_unknown"] = error.what();
        }
    } catch (const std::exception& error) {  // whatever it is: the rest of the page does not need it
        run["interference_unknown"] = error.what();
    }
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
    add_interference(options.trace, run);
    return result;
}

// Without the distributions of single blocks, which the page does not draw, and without a matrix that no screen shows.
json latency_of(const std::string& file) {
    constexpr size_t most_ranks = 512, most_blocks = 5000;
    json latency = replay::read_json(file, "a result of polter latency");
    if (!latency.is_object() || latency.value("schema", "") != "polter.latency/1")
        throw replay::InputError(file + ": is no result of polter latency (schema polter.latency/1); make one with polter latency -o FILE");
    for (json& block : latency.at("blocks")) block.erase("bins");
    if (const size_t all = latency["blocks"].size(); all > most_blocks) {
        latency["blocks"].erase(latency["blocks"].begin() + most_blocks, latency["blocks"].end());
        latency["warnings"].push_back(fmt::format("of {} blocks over time, the first {} are drawn", all, most_blocks));
    }
    if (latency.at("pair_minima_ns").size() > most_ranks) latency["pair_minima_ns"] = json::array();
    return latency;
}

json quality_of(const std::string& file) {
    json quality = replay::read_json(file, "a result of polter quality --json");
    if (!quality.is_object() || quality.value("schema", "") != "polter.quality/1" || !quality.contains("online"))
        throw replay::InputError(file + ": is no result of polter quality (schema polter.quality/1); make one with polter quality --json");
    return quality;
}

json prediction_of(const std::string& file) {
    json prediction = replay::read_json(file, "a result of polter predict");
    if (!prediction.is_object() || prediction.value("schema", "") != "polter.predict/1")
        throw replay::InputError(file + ": is no result of polter predict (schema polter.predict/1); make one with polter predict --json");
    for (json& one : prediction.at("predictions")) one.erase("draws_ns");
    return prediction;
}

}  // namespace

json data_of(const DataOptions& options) {
    json data{{"schema", "polter.page/1"}, {"runs", json::array()}, {"comparison", nullptr}, {"latency", nullptr}, {"quality", nullptr}, {"prediction", nullptr}};
    if (!options.prediction.empty()) data["prediction"] = prediction_of(options.prediction);
    if (!options.latency.empty()) data["latency"] = latency_of(options.latency);
    if (!options.quality.empty()) data["quality"] = quality_of(options.quality);
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
