// SPDX-License-Identifier: BSD-3-Clause
// The form in which analyzers give a value: with unit, interval and number of samples; and what every result of an analyzer has.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bins.hpp"
#include "statistics.hpp"

namespace polter::samples {

struct Quantity {
    double value = 0;
    std::string unit;
    std::optional<Interval> interval = {};
    std::optional<double> level = {};  // of the interval; unset: its ends are bounds
    uint64_t samples = 0;
};

// What is no number, or does not exist, is null.
nlohmann::json to_json(const Quantity&);
nlohmann::json to_json(const Histogram&);         // bins that have samples only
Histogram histogram_from(const nlohmann::json&);  // throws Error

// What every result has; values are added to it.
nlohmann::json result_of(const std::string& schema, const std::vector<std::string>& warnings,
                         const std::map<std::string, std::string>& provenance);

}  // namespace polter::samples
