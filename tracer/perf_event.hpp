// SPDX-License-Identifier: BSD-3-Clause
// One event of perf_event as `polter run` has found it countable and as each thread opens it. The names are libpfm4's.
#pragma once

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace polter::trace {

struct PerfEvent {
    std::string name;
    uint32_t type = 0;
    uint64_t config = 0, config1 = 0, config2 = 0;
    bool user_only = false;  // the kernel's part is not counted
};

// For the calling thread, in the group of `leader` (-1: it leads one). The descriptor; -1 with errno.
inline int open_perf_event(const PerfEvent& event, int leader) {
    perf_event_attr attributes{};
    attributes.size = sizeof attributes;
    attributes.type = event.type;
    attributes.config = event.config;
    attributes.config1 = event.config1;
    attributes.config2 = event.config2;
    attributes.exclude_kernel = event.user_only;
    attributes.exclude_hv = event.user_only;
    attributes.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, leader, PERF_FLAG_FD_CLOEXEC));
}

// What a read of the leader gives. Not initialised: it is read at each call.
struct PerfGroup {
    static constexpr unsigned most = 32;
    uint64_t number, enabled_ns, running_ns;
    uint64_t values[most];
};

inline const char* unit_of(const PerfEvent& event) {
    const bool clock =
        event.type == PERF_TYPE_SOFTWARE && (event.config == PERF_COUNT_SW_CPU_CLOCK || event.config == PERF_COUNT_SW_TASK_CLOCK);
    return clock ? "ns" : "#";
}

}  // namespace polter::trace
