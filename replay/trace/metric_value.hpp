// SPDX-License-Identifier: BSD-3-Clause
// The value of a noise metric, in nanoseconds.
#pragma once

#include <otf2/otf2.h>

#include <algorithm>
#include <cstdint>

#include "definitions.hpp"

namespace polter::replay {

inline constexpr int64_t most_ns = int64_t{1} << 58;  // nine years; larger values are damage, and their sums would overflow

// In ns; −1: not a possible time.
inline int64_t metric_ns(const MetricSlot& slot, OTF2_Type type, const OTF2_MetricValue& value) {
    __int128 given = value.signed_int;
    if (type == OTF2_TYPE_UINT64) given = value.unsigned_int;
    if (type == OTF2_TYPE_DOUBLE) {
        const double number = value.floating_point;
        given = number > -1e18 && number < 1e18 ? static_cast<int64_t>(number) : INT64_MAX;
    }
    if (slot.numerator != slot.denominator) given = given * slot.numerator / slot.denominator;
    return given < 0 || given > most_ns ? -1 : static_cast<int64_t>(given);
}

// Subtracts so many ns.
inline void lessen(const MetricSlot& slot, OTF2_Type type, OTF2_MetricValue& value, int64_t ns) {
    const auto units = static_cast<int64_t>(static_cast<__int128>(ns) * slot.denominator / slot.numerator);
    if (type == OTF2_TYPE_DOUBLE)
        value.floating_point -= static_cast<double>(units);
    else
        value.unsigned_int -= static_cast<uint64_t>(units);  // the same bits for a signed one
}

inline int64_t ticks_in_ns(int64_t ticks, uint64_t ticks_per_second) {
    if (ticks_per_second == 1'000'000'000) return ticks;
    const __int128 ns = static_cast<__int128>(ticks) * 1'000'000'000 / static_cast<__int128>(ticks_per_second);
    return static_cast<int64_t>(std::clamp<__int128>(ns, INT64_MIN, INT64_MAX));
}

inline int64_t ns_in_ticks(int64_t ns, uint64_t ticks_per_second) {  // rounded to the nearest tick
    if (ticks_per_second == 1'000'000'000) return ns;
    return static_cast<int64_t>((static_cast<__int128>(ns) * static_cast<int64_t>(ticks_per_second) + 500'000'000) / 1'000'000'000);
}

// The end of noise that is recorded `ago` ticks after it ended; `time` and result in ns.
inline int64_t noise_ended(int64_t time, uint64_t ago, uint64_t ticks_per_second) {
    return time - std::min(ticks_in_ns(static_cast<int64_t>(std::min<uint64_t>(ago, INT64_MAX)), ticks_per_second), most_ns);
}

}  // namespace polter::replay
