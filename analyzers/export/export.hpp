// SPDX-License-Identifier: BSD-3-Clause
// A trace in the formats of other tools. Units: nanoseconds. Errors: InputError (what, where, what to do), and nothing is left behind.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "timeline_reader.hpp"

namespace polter::exports {

enum class Format : uint8_t { perfetto, chrome, csv, loggopsim, goal };

// Viewers fail beyond that: Perfetto needs 2 to 4 times the file's size in a heap of 2 GB; a string of Chrome's holds 512 MB.
inline constexpr uint64_t most_perfetto_bytes = 400'000'000, most_chrome_bytes = 256'000'000;

struct ExportOptions {
    std::string trace;
    Format format = Format::perfetto;
    std::string output;  // a file, or for csv and loggopsim a directory; empty: default_output()
    Selection selection;
    size_t aggregate = 0;        // intervals of the timeline; 0: single events
    bool measured_only = false;  // without the approximated timeline, and so without a replay
    uint64_t most_bytes = 0;     // 0: the format's own limit
    std::function<void(double)> progress;
};

struct ExportResult {
    std::string trace, format, output;
    uint64_t files = 0, bytes = 0, events = 0;
    std::vector<std::pair<std::string, uint64_t>> counts;  // "calls", ...
    std::vector<std::string> timelines;                    // "measured", "approximated"
    std::vector<std::string> warnings;
};

std::string format_name(Format);
// In the current directory, by the trace's name.
std::string default_output(const std::string& trace, Format);
ExportResult export_trace(const ExportOptions&);

nlohmann::json to_json(const ExportResult&);  // schema polter.export/1
std::string to_text(const ExportResult&);

}  // namespace polter::exports
