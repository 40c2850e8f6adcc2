// SPDX-License-Identifier: BSD-3-Clause
// Shared memory through which a process that reads an archive tells its parent (trace/child_process.hpp) where in the OTF2 library it is,
// and what to remove if it crashes. Only the reader writes; without `watch` nobody reads it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>

namespace polter::replay {

enum class Reading : uint32_t { nothing, anchor, definitions, mappings, events };

struct Watch {
    std::atomic<uint64_t> steps;     // incremented when an OTF2 call begins or ends
    std::atomic<Reading> reading;    // nothing: outside OTF2
    std::atomic<uint64_t> location;  // for mappings and events
    char anchor[4096];
    char unfinished[4096];  // a directory to remove if the process crashes; empty: none
};

inline Watch* watch = nullptr;

inline void watch_path(char (&to)[4096], const std::string& path) {
    std::snprintf(to, sizeof to, "%s", path.c_str());
}

// Marks a call to OTF2 that reads, while it exists. Not nested.
class InOtf2 {
  public:
    explicit InOtf2(Reading reading, uint64_t location = 0) {
        if (!watch) return;
        watch->location.store(location, std::memory_order_relaxed);
        watch->reading.store(reading, std::memory_order_relaxed);
        watch->steps.fetch_add(1, std::memory_order_relaxed);
    }
    ~InOtf2() {
        if (!watch) return;
        watch->reading.store(Reading::nothing, std::memory_order_relaxed);
        watch->steps.fetch_add(1, std::memory_order_relaxed);
    }
    InOtf2(const InOtf2&) = delete;
    InOtf2& operator=(const InOtf2&) = delete;
};

}  // namespace polter::replay
