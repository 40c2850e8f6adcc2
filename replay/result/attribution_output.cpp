// SPDX-License-Identifier: BSD-3-Clause
#include "attribution_output.hpp"

#include <nlohmann/json.hpp>

namespace polter::replay {

nlohmann::json attribution_json(const Attribution& attribution) {
    nlohmann::json rows = nlohmann::json::array();
    for (const AttributionRow& row : attribution.rows) {
        nlohmann::json entry = {{"source", row.source},       {"where", row.where},   {"caller", row.caller},
                                {"call_site", row.call_site}, {"window", row.window}, {"ns", row.ns}};
        if (attribution.by_origin) entry.update({{"culprit", row.culprit}, {"rank", row.rank}});
        rows.push_back(std::move(entry));
    }
    return {{"paid_on_rank", attribution.paid_on}, {"windows", attribution.windows}, {"rows", rows}};
}

}  // namespace polter::replay
