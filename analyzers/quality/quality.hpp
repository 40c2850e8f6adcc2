// SPDX-License-Identifier: BSD-3-Clause
// Was a job as fast as it should have been, and if not, why? From the jobs of the same application before it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "online.hpp"
#include "reasons.hpp"
#include "store.hpp"

namespace polter::quality {

struct Compared {
    Inputs inputs = Inputs::attributes;
    std::optional<double> left_out_error;  // unset: too few jobs
    size_t components = 0;
    std::string why;  // there is none
};

struct Assessment {
    Job job;
    size_t history = 0;
    std::optional<Prediction> prediction;
    std::vector<std::pair<std::string, double>> coefficients;
    double between = 0;  // Model::between()
    Verdict verdict = Verdict::no_basis;
    std::string why;        // no basis
    double difference = 0;  // (run time - expected) / expected
    double own_share = 0;   // reasons.hpp
    std::vector<Cause> because;
    std::vector<Difference> differences;  // largest first
    std::vector<Compared> models;
    Online online;
    std::vector<std::string> warnings;
};

// `history`: jobs of the same application, without this one. `interval_ns` as in follow().
Assessment assess(const Job&, const std::vector<Job>& history, int64_t interval_ns = 0);
nlohmann::json to_json(const Assessment&);  // schema polter.quality/1, docs/quality.schema.json
std::string to_text(const Assessment&, size_t columns);

}  // namespace polter::quality
