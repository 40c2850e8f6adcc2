// SPDX-License-Identifier: BSD-3-Clause
#include "window.hpp"

#include <cmath>
#include <regex>
#include <stdexcept>

#include "replay/trace/metric_value.hpp"

namespace polter::exports {

namespace {

int64_t nanoseconds(const std::string& number, const std::string& unit) {
    const double factor = unit == "ns" ? 1 : unit == "us" || unit == "µs" ? 1e3 : unit == "ms" ? 1e6 : 1e9;
    const double value = std::stod(number) * factor;
    if (!(value <= static_cast<double>(replay::most_ns))) throw std::invalid_argument(number + unit + " is longer than any trace");
    return std::llround(value);
}

}  // namespace

std::pair<int64_t, int64_t> parse_window(const std::string& text) {
    static const std::regex form(R"(\s*([0-9]+\.?[0-9]*)\s*(ns|us|µs|ms|s)?\s*-\s*([0-9]+\.?[0-9]*)\s*(ns|us|µs|ms|s)?\s*)");
    std::smatch parts;
    if (text.size() > 100 || !std::regex_match(text, parts, form))
        throw std::invalid_argument("give two times since the first event, like 1.2s-1.3s or 800-950ms");
    const std::string unit = parts[4];
    const int64_t begin = nanoseconds(parts[1], parts[2].matched ? parts[2].str() : unit), end = nanoseconds(parts[3], unit);
    if (begin >= end) throw std::invalid_argument("the window ends before it begins; give the earlier time first");
    return {begin, end};
}

std::vector<bool> parse_ranks(const std::string& text) {
    static const std::regex form("[0-9]{1,7}(-[0-9]{1,7})?(,[0-9]{1,7}(-[0-9]{1,7})?)*"), range("([0-9]+)(?:-([0-9]+))?");
    if (text.size() > 10000 || !std::regex_match(text, form)) throw std::invalid_argument("give ranks and ranges of ranks, like 0,3,8-15");
    std::vector<bool> ranks;
    for (auto part = std::sregex_iterator(text.begin(), text.end(), range); part != std::sregex_iterator(); ++part) {
        const size_t first = std::stoul((*part)[1]), last = (*part)[2].matched ? std::stoul((*part)[2]) : first;
        if (last < first) throw std::invalid_argument((*part)[0].str() + ": the range ends before it begins");
        if (ranks.size() <= last) ranks.resize(last + 1, false);
        for (size_t rank = first; rank <= last; ++rank) ranks[rank] = true;
    }
    return ranks;
}

}  // namespace polter::exports
