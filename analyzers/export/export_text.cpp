// SPDX-License-Identifier: BSD-3-Clause
// What an export has written, for people and for scripts.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "export.hpp"
#include "replay/base/printable.hpp"

namespace polter::exports {

namespace {

std::string size_text(uint64_t bytes) {
    if (bytes < 1000) return fmt::format("{} bytes", bytes);
    const bool large = bytes >= 1'000'000;
    const double value = static_cast<double>(bytes) / (large ? 1e6 : 1e3);
    return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, large ? "MB" : "kB");
}

}  // namespace

nlohmann::json to_json(const ExportResult& result) {
    nlohmann::json json{{"schema", "polter.export/1"}, {"trace", result.trace},
                        {"format", result.format},     {"output", result.output},
                        {"files", result.files},       {"events", result.events},
                        {"bytes", result.bytes},       {"timelines", result.timelines},
                        {"warnings", result.warnings}, {"counts", nlohmann::json::object()}};
    for (const auto& [what, number] : result.counts) json["counts"][what] = number;
    return json;
}

std::string to_text(const ExportResult& result) {
    std::string counts;
    for (const auto& [what, number] : result.counts) {
        std::string words = what;
        for (char& character : words) character = character == '_' ? ' ' : character;
        counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", number, words);
    }
    std::string out = fmt::format("{}: {}{}\n  {}\n", replay::printable(result.output), size_text(result.bytes),
                                  result.files > 1 ? fmt::format(" in {} files", result.files) : "", counts);
    for (const auto& timeline : result.timelines)
        out += fmt::format("{}{}", &timeline == result.timelines.data() ? "  timelines: " : ", ", timeline);
    if (!result.timelines.empty()) out += "\n";
    return out;
}

}  // namespace polter::exports
