// SPDX-License-Identifier: BSD-3-Clause
#include "measured_by.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace polter::replay {

std::vector<std::string> measured_by(const std::map<std::string, std::string>& properties, size_t ranks) {
    const auto all = properties.find("EXPORTER"), each = properties.find("EXPORTER_BY_RANK");
    std::vector<std::string> out(ranks, all == properties.end() ? "" : all->second);
    if (each == properties.end()) return out;
    size_t left = 2 * ranks;  // limit of the length: a list that names each rank once takes half of it
    std::istringstream exporters(each->second);
    for (std::string one; std::getline(exporters, one, ';');) {
        const size_t colon = one.find(':');
        if (colon == std::string::npos) continue;
        std::istringstream list(one.substr(colon + 1));
        for (std::string range; std::getline(list, range, ',');) {
            size_t first = 0, last = 0;
            const char* const end = range.data() + range.size();
            auto [at, error] = std::from_chars(range.data(), end, first);
            if (error != std::errc{}) continue;
            last = first;
            if (at != end && std::from_chars(at + 1, end, last).ec != std::errc{}) continue;
            for (size_t rank = first; rank <= last && rank < ranks && left > 0; ++rank, --left) out[rank] = one.substr(0, colon);
        }
    }
    return out;
}

std::string unmeasured_ranks(const std::vector<std::string>& measured_by, size_t& count) {
    std::string out;
    const auto unmeasured = [&](size_t rank) { return rank < measured_by.size() && measured_by[rank] == "none"; };
    count = 0;
    for (size_t rank = 0; rank < measured_by.size(); ++rank) {
        if (!unmeasured(rank)) continue;
        const size_t first = rank;
        while (unmeasured(rank + 1)) ++rank;
        out += (out.empty() ? "" : ",") + std::to_string(first) + (rank > first ? "-" + std::to_string(rank) : "");
        count += rank - first + 1;
    }
    if (count == measured_by.size()) count = 0;
    return count ? out : "";
}

}  // namespace polter::replay
