// SPDX-License-Identifier: BSD-3-Clause
#include "hidden_time.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

#include "replay/base/error.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"

namespace polter::replay {

std::vector<std::map<int64_t, int64_t>> hidden_by_account(const std::vector<HiddenTime>& hidden, const Definitions& definitions) {
    if (hidden.empty()) return {};
    std::vector<std::map<int64_t, int64_t>> by_account(definitions.accounts.size());
    for (const HiddenTime& one : hidden) {
        bool known = false;
        std::string names;
        for (size_t account = 0; account < definitions.accounts.size(); ++account) {
            const std::string name = display_name(definitions.accounts[account]);
            names += (names.empty() ? "" : ", ") + name;
            if (name != one.source) continue;
            known = true;
            for (int64_t rank = 0; rank < definitions.ranks; ++rank)
                if (one.ranks.empty() || one.ranks.contains(rank)) by_account[account][rank] += one.ns;
        }
        if (!known)
            throw InputError(fmt::format("the trace has no source {} to which hidden time can be added; it has: {}", printable(one.source),
                                         names.empty() ? "none" : names));
    }
    return by_account;
}

std::string text_of(const std::vector<HiddenTime>& hidden) {
    std::string text;
    for (const HiddenTime& one : hidden) {
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", one.source, short_time(one.ns));
        if (!one.ranks.empty()) text += fmt::format(" (ranks {})", fmt::join(one.ranks, ", "));
    }
    return text;
}

std::vector<HiddenTime> parse_hidden(const std::string& list) {
    constexpr double most_ns = 1e9;
    std::vector<HiddenTime> hidden;
    for (size_t begin = 0; begin <= list.size();) {
        const size_t end = std::min(list.find(',', begin), list.size()), equals = list.find('=', begin);
        const auto wrong = [&] {
            return InputError(fmt::format("--hidden: \"{}\" is not SOURCE=TIME, such as timer=35us (ns, us or ms; at most 1 s)",
                                          printable(list.substr(begin, end - begin))));
        };
        if (equals >= end || equals == begin) throw wrong();
        double value = 0;
        const auto [rest, error] = std::from_chars(list.data() + equals + 1, list.data() + end, value);
        const std::string unit(rest, list.data() + end);
        const double factor = unit == "ns" ? 1 : unit == "us" ? 1e3 : unit == "ms" ? 1e6 : 0;
        if (error != std::errc() || factor == 0 || !(value >= 0) || value * factor > most_ns) throw wrong();
        hidden.push_back({list.substr(begin, equals - begin), {}, std::llround(value * factor)});
        begin = end + 1;
    }
    return hidden;
}

}  // namespace polter::replay
