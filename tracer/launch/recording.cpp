// SPDX-License-Identifier: BSD-3-Clause
#include "recording.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <mpi_regions.hpp>
#include <optional>

#include "../conventions.hpp"
#include "counters.hpp"

namespace polter::launch {
namespace {

constexpr uint64_t least_chunks = 2, most_chunks = 256;  // as the tracer takes them
constexpr double longest_window_s = 1e9, least_interval_s = 0.1;

bool matches(const std::string& pattern, const char* name) {
    return fnmatch(pattern.c_str(), name, 0) == 0;
}

bool local(const trace::Region& region) {
    return trace::is_local(region.recorded);
}

bool known(const std::string& pattern) {
    return std::any_of(std::begin(trace::regions), std::end(trace::regions),
                       [&](const trace::Region& region) { return matches(pattern, region.name); });
}

template <typename T>
std::optional<T> number(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return {};
    return value;
}

struct Window {
    uint64_t from_ns = 0, until_ns = 0;  // 0: to the end
};
std::optional<Window> window_of(const std::string& text) {
    const auto colon = text.find(':');
    if (colon == text.npos || text.size() == 1) return {};
    const auto nanoseconds = [](const std::string& seconds) -> std::optional<uint64_t> {
        if (seconds.empty()) return 0;
        const auto value = number<double>(seconds);
        if (!value || !(*value >= 0 && *value <= longest_window_s)) return {};
        return static_cast<uint64_t>(std::llround(*value * 1e9));
    };
    const auto from = nanoseconds(text.substr(0, colon)), until = nanoseconds(text.substr(colon + 1));
    if (!from || !until || (colon + 1 < text.size() && *until <= *from)) return {};
    return Window{*from, *until};
}

std::optional<uint64_t> interval_of(const std::string& text) {
    const auto value = number<double>(std::string_view(text).substr(0, text.size() - text.ends_with('s')));
    if (!value || !(*value >= least_interval_s && *value <= longest_window_s)) return {};
    return static_cast<uint64_t>(std::llround(*value * 1e9));
}

std::optional<uint64_t> chunks_of(const std::string& buffer) {
    if (buffer.empty()) return {};
    uint64_t unit = 1;
    std::string digits = buffer;
    for (const auto& [letter, bytes] : {std::pair{'K', uint64_t{1} << 10}, {'M', uint64_t{1} << 20}})
        if (std::toupper(static_cast<unsigned char>(buffer.back())) == letter) {
            unit = bytes;
            digits.pop_back();
        }
    const auto value = number<uint64_t>(digits);
    if (!value || *value > (uint64_t{1} << 40)) return {};
    const uint64_t chunks = (*value * unit + trace::event_chunk_size - 1) / trace::event_chunk_size;
    if (chunks < least_chunks || chunks > most_chunks) return {};
    return chunks;
}

bool matches_any(const std::vector<std::string>& patterns, const char* name) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) { return matches(pattern, name); });
}

}  // namespace

std::string wrong_include(const std::string& name) {
    return known(name) ? "" : fmt::format("{}: no function of MPI has this name", name);
}

std::string wrong_exclude(const std::string& name) {
    if (!known(name)) return wrong_include(name);
    for (const auto& region : trace::regions)
        if (matches(name, region.name) && local(region)) return "";
    return fmt::format(
        "{} cannot be excluded: other processes depend on such calls, and the replay would be wrong without them; those that can be "
        "excluded stand under \"Local\" in docs/support-matrix.md",
        name);
}

std::string wrong_ranks(const std::string& ranks) {
    std::string_view rest = ranks;
    bool right = !rest.empty();
    while (right && !rest.empty()) {
        const auto comma = rest.find(',');
        const auto item = rest.substr(0, comma);
        const auto dash = item.find('-');
        const auto first = number<uint32_t>(item.substr(0, dash));
        const auto last = dash == item.npos ? first : number<uint32_t>(item.substr(dash + 1));
        right = first && last && *first <= *last && (comma == rest.npos || comma + 1 < rest.size());
        rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
    }
    return right ? "" : fmt::format("{}: not a list of ranks such as 0-3,8", ranks);
}

std::string wrong_window(const std::string& window) {
    return window_of(window) ? "" : fmt::format("{}: not a window such as 1.5:3, 2: or :10 (seconds since MPI_Init)", window);
}

std::string wrong_buffer(const std::string& buffer) {
    if (chunks_of(buffer)) return "";
    return fmt::format("{}: not a size from {}K to {}M", buffer, (least_chunks * trace::event_chunk_size) >> 10,
                       (most_chunks * trace::event_chunk_size) >> 20);
}

std::string wrong_interval(const std::string& interval) {
    return interval_of(interval) ? "" : fmt::format("{}: not an interval such as 30s (seconds, {} or more)", interval, least_interval_s);
}

Environment recording_environment(const Recording& recording) {
    Environment out;
    std::string digits;
    unsigned four = 0;
    const bool all = recording.what == "all";
    bool as_usual = true;
    for (unsigned id = 0; id < trace::region_count; ++id) {
        const auto& region = trace::regions[id];
        const bool usually_out = region.recorded == trace::Recorded::on_request;
        const bool left_out = recording.include.empty() ? usually_out && !all : !matches_any(recording.include, region.name);
        const bool excluded = local(region) && (left_out || matches_any(recording.exclude, region.name));
        as_usual = as_usual && excluded == usually_out;
        if (excluded) four |= 1u << id % 4;
        if (id % 4 == 3 || id + 1 == trace::region_count) {
            digits += fmt::format("{:x}", four);
            four = 0;
        }
    }
    if (!as_usual) out.emplace_back(trace::env_exclude, digits);
    if (all) out.emplace_back(trace::env_each_poll, "1");
    if (!recording.ranks.empty()) out.emplace_back(trace::env_ranks, recording.ranks);
    if (const auto window = window_of(recording.window))
        out.emplace_back(trace::env_window, fmt::format("{}:{}", window->from_ns, window->until_ns));
    if (const auto chunks = chunks_of(recording.buffer)) out.emplace_back(trace::env_buffer_chunks, std::to_string(*chunks));
    if (const auto interval = interval_of(recording.clock_interval)) out.emplace_back(trace::env_clock_interval, std::to_string(*interval));
    if (const auto counters = counters_for_ranks(recording.perf, recording.papi); !counters.empty())
        out.emplace_back(trace::env_counters, counters);
    return out;
}

}  // namespace polter::launch
