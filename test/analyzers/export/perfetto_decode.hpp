// SPDX-License-Identifier: BSD-3-Clause
// Reads a Perfetto trace with protozero's reader, and checks what every trace must hold to.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace polter::test {

struct PerfettoEvent {
    int64_t time = 0;
    int type = 0;  // 1 begin, 2 end, 3 instant, 4 counter
    uint64_t track = 0;
    std::string name, category, culprit;
    std::map<std::string, uint64_t> annotations;
    std::vector<uint64_t> flows, ending_flows;
    std::optional<double> value;
};

struct PerfettoTrack {
    std::string name, process, thread, unit;
    uint64_t parent = 0;
    int32_t process_id = 0, thread_id = 0;
    bool counter = false;
};

struct PerfettoSlice {
    int64_t begin = 0, end = 0;
    std::string name, category, culprit;
    size_t depth = 0;
};

struct PerfettoTrace {
    std::vector<PerfettoEvent> events;
    std::map<uint64_t, PerfettoTrack> tracks;
    std::vector<std::string> faults;  // a name that was not defined before its use, a slice that does not nest, …

    std::vector<uint64_t> tracks_of(const std::string& process, const std::string& name) const;  // by thread name or own name
    std::vector<PerfettoSlice> slices(uint64_t track) const;                                     // by begin
};

PerfettoTrace decode_perfetto(const std::string& path);

}  // namespace polter::test
