// SPDX-License-Identifier: BSD-3-Clause
#include "json.hpp"

#include <cmath>

namespace polter::samples {

using nlohmann::json;

namespace {

json number(double value) {
    return std::isfinite(value) ? json(value) : json();
}

}  // namespace

json to_json(const Quantity& quantity) {
    json out{{"value", number(quantity.value)}, {"unit", quantity.unit}, {"interval", nullptr}, {"samples", quantity.samples}};
    if (quantity.interval) out["interval"] = {number(quantity.interval->low), number(quantity.interval->high)};
    if (quantity.level) out["level"] = *quantity.level;
    return out;
}

json to_json(const Histogram& histogram) {
    json bins = json::array();
    for (uint32_t i = 0; i < histogram.bins().count; ++i)
        if (histogram.counts()[i] > 0) bins.push_back({i, histogram.counts()[i]});
    return {{"width_ns", histogram.bins().width}, {"top_ns", histogram.bins().top},
            {"bins", histogram.bins().count},     {"samples", histogram.samples()},
            {"least_ns", histogram.least()},      {"most_ns", histogram.most()},
            {"mean_ns", histogram.mean()},        {"clamped", histogram.clamped},
            {"above_top", histogram.above},       {"counts", bins}};
}

Histogram histogram_from(const json& from) try {
    Histogram histogram({from.at("width_ns").get<double>(), from.at("top_ns").get<double>(), from.at("bins").get<uint32_t>()});
    for (const json& bin : from.at("counts")) histogram.add_bin(bin.at(0).get<uint32_t>(), bin.at(1).get<uint64_t>());
    if (histogram.samples() != from.at("samples").get<uint64_t>())
        throw Error("a histogram has not as many samples as it says; the file is damaged");
    histogram.set_extremes(from.at("least_ns").get<double>(), from.at("most_ns").get<double>(),
                           from.at("mean_ns").get<double>() * static_cast<double>(histogram.samples()));
    histogram.clamped = from.at("clamped").get<uint64_t>();
    histogram.above = from.at("above_top").get<uint64_t>();
    return histogram;
} catch (const json::exception& error) {
    throw Error(std::string("a histogram is damaged, so make the result again (") + error.what() + ")");
}

json result_of(const std::string& schema, const std::vector<std::string>& warnings, const std::map<std::string, std::string>& provenance) {
    return {{"schema", schema}, {"warnings", warnings}, {"provenance", provenance}};
}

}  // namespace polter::samples
