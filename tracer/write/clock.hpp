// SPDX-License-Identifier: BSD-3-Clause
// The trace's clock: nanoseconds of CLOCK_MONOTONIC of the initial time namespace, which is also that of the noise pages.
#pragma once

#include <cstdint>
#include <ctime>

namespace polter::write {

// What to add to this process's CLOCK_MONOTONIC. Set once, before the first event.
inline int64_t clock_offset_ns = 0;

inline uint64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);  // the vDSO: no system call
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec) + static_cast<uint64_t>(clock_offset_ns);
}

}  // namespace polter::write
