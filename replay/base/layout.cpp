// SPDX-License-Identifier: BSD-3-Clause
#include "layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "printable.hpp"

namespace polter::replay {

namespace {

constexpr std::string_view ellipsis = "...";

}  // namespace

std::string short_time(int64_t ns) {
    constexpr uint64_t us = 1000, ms = 1000 * us, s = 1000 * ms;
    if (ns == 0) return "0 s";
    uint64_t rounded = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns), step = 1;
    while (rounded / step >= 1000) step *= 10;
    rounded = (rounded / step + (rounded % step >= step - rounded % step && step > 1 ? 1 : 0)) * step;
    const auto [unit, name] = rounded >= s ? std::pair{s, "s"} : rounded >= ms ? std::pair{ms, "ms"} : std::pair{us, "us"};
    const double value = static_cast<double>(rounded) / static_cast<double>(unit);
    return fmt::format("{}{:.{}f} {}", ns < 0 ? "-" : "", value, value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3, name);
}

std::string short_percent(int64_t part, int64_t whole) {
    if (whole <= 0) return "-";
    const double percent = 100 * static_cast<double>(part) / static_cast<double>(whole);
    if (part == 0) return "0 %";
    if (std::abs(percent) < 0.1) return percent < 0 ? ">-0.1 %" : "<0.1 %";
    if (std::abs(percent) >= 999.95) return percent < 0 ? "<-999 %" : ">999 %";
    return fmt::format("{:.1f} %", percent);
}

std::string short_factor(double value) {
    if (std::abs(value) < 0.005) return "0";
    return fmt::format("{:.{}f}", value, std::abs(value) >= 100 ? 0 : std::abs(value) >= 10 ? 1 : 2);
}

bool below_threshold(double part, double whole) {
    return 1000 * part < whole;
}

std::string shortened(const std::string& text, size_t most) {
    if (prefix_of(text, most) == text.size()) return text;
    if (most <= ellipsis.size()) return text.substr(0, prefix_of(text, most));
    return text.substr(0, prefix_of(text, most - ellipsis.size())) + std::string(ellipsis);
}

std::string fold(std::string_view text, size_t indent, size_t columns) {
    std::string out;
    size_t left = columns;
    for (size_t most; (most = prefix_of(text, left)) < text.size();) {
        // Breaks after the last whole word; a word longer than the line is cut.
        size_t end = text.rfind(' ', most);
        const bool blank = end != text.npos && text.find_first_not_of(' ') < end;
        if (!blank) end = std::max<size_t>(1, most);
        out += text.substr(0, end);
        text.remove_prefix(end + (blank ? 1 : 0));
        out += "\n" + std::string(indent, ' ');
        left = columns - std::min(indent, columns - 1);
    }
    return out + std::string(text);
}

std::string bars(const std::vector<int64_t>& values, bool unicode) {
    static constexpr const char* blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static constexpr const char* characters[] = {".", ":", "-", "=", "+", "*", "#", "@"};
    constexpr int64_t levels = std::size(blocks);
    const int64_t most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
    std::string out;
    for (const int64_t value : values) {
        if (value <= 0) {
            out += ' ';
            continue;
        }
        const double level = std::ceil(static_cast<double>(value) / static_cast<double>(most) * levels) - 1;
        const auto at = static_cast<size_t>(std::clamp<double>(level, 0, levels - 1));
        out += unicode ? blocks[at] : characters[at];
    }
    return out;
}

}  // namespace polter::replay
