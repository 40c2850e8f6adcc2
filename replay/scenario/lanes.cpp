// SPDX-License-Identifier: BSD-3-Clause
// The same source compiled for several processors; one is chosen at the first call. Not with the compiler's target_clones: its resolvers
// run before sanitizers are initialised.
#include "lanes.hpp"

#include <algorithm>

namespace polter::replay {

namespace {

// Lanes are independent even where vectors overlap (see LaneLoops): ivdep tells the compiler so.
#define POLTER_LANE_LOOP _Pragma("GCC ivdep") for (size_t i = 0; i < lanes; ++i)
#define POLTER_INLINE [[gnu::always_inline]] inline

POLTER_INLINE void remove_lanes(int64_t* d, const int64_t* mask, int64_t n, size_t lanes) {
    POLTER_LANE_LOOP d[i] += n & mask[i];
}

POLTER_INLINE void keep_lanes(int64_t* t, const int64_t* mask, int64_t n, size_t lanes) {
    POLTER_LANE_LOOP t[i] += n & ~mask[i];
}

POLTER_INLINE void raise_lanes(int64_t* d, const int64_t* other, size_t lanes) {
    POLTER_LANE_LOOP d[i] = other[i] > d[i] ? other[i] : d[i];
}

POLTER_INLINE void raise_lanes_and_add(int64_t* t, const int64_t* other, int64_t n, size_t lanes) {
    POLTER_LANE_LOOP t[i] = (other[i] > t[i] ? other[i] : t[i]) + n;
}

POLTER_INLINE void raise_lanes_to_time(int64_t* t, int64_t time, const int64_t* delay, size_t lanes) {
    POLTER_LANE_LOOP {
        const int64_t at = time - delay[i];
        t[i] = at > t[i] ? at : t[i];
    }
}

// Each vector is read once. Three is the number of a Wait that completes a receive.
POLTER_INLINE void least_lanes(int64_t* d, const LaneBound* bounds, size_t count, size_t lanes) {
    const int64_t *a = bounds[0].delay, ra = bounds[0].residual;
    if (count == 1) {
        POLTER_LANE_LOOP d[i] = a[i] + ra;
        return;
    }
    const int64_t *b = bounds[1].delay, rb = bounds[1].residual;
    if (count == 2) {
        POLTER_LANE_LOOP {
            const int64_t x = a[i] + ra, y = b[i] + rb;
            d[i] = y < x ? y : x;
        }
        return;
    }
    const int64_t *c = bounds[2].delay, rc = bounds[2].residual;
    POLTER_LANE_LOOP {
        const int64_t x = a[i] + ra, y = b[i] + rb, z = c[i] + rc, least = y < x ? y : x;
        d[i] = z < least ? z : least;
    }
    for (size_t k = 3; k < count; ++k) {
        const int64_t *e = bounds[k].delay, re = bounds[k].residual;
        POLTER_LANE_LOOP {
            const int64_t x = e[i] + re;
            d[i] = x < d[i] ? x : d[i];
        }
    }
}

#define POLTER_LANE_LOOPS(NAME, ...)                                                                                                    \
    __VA_ARGS__ void remove_##NAME(int64_t* d, const int64_t* mask, int64_t n, size_t lanes) {                                          \
        remove_lanes(d, mask, n, lanes);                                                                                                \
    }                                                                                                                                   \
    __VA_ARGS__ void keep_##NAME(int64_t* t, const int64_t* mask, int64_t n, size_t lanes) {                                            \
        keep_lanes(t, mask, n, lanes);                                                                                                  \
    }                                                                                                                                   \
    __VA_ARGS__ void raise_##NAME(int64_t* d, const int64_t* other, size_t lanes) {                                                     \
        raise_lanes(d, other, lanes);                                                                                                   \
    }                                                                                                                                   \
    __VA_ARGS__ void raise_and_add_##NAME(int64_t* t, const int64_t* other, int64_t n, size_t lanes) {                                  \
        raise_lanes_and_add(t, other, n, lanes);                                                                                        \
    }                                                                                                                                   \
    __VA_ARGS__ void raise_to_time_##NAME(int64_t* t, int64_t time, const int64_t* delay, size_t lanes) {                               \
        raise_lanes_to_time(t, time, delay, lanes);                                                                                     \
    }                                                                                                                                   \
    __VA_ARGS__ void least_##NAME(int64_t* d, const LaneBound* bounds, size_t count, size_t lanes) {                                    \
        least_lanes(d, bounds, count, lanes);                                                                                           \
    }                                                                                                                                   \
    constexpr LaneLoops loops_##NAME{#NAME,       remove_##NAME, keep_##NAME, raise_##NAME, raise_and_add_##NAME, raise_to_time_##NAME, \
                                     least_##NAME};

POLTER_LANE_LOOPS(plain)
#if defined(__x86_64__)
POLTER_LANE_LOOPS(avx2, [[gnu::target("avx2")]])
// Has a 64-bit minimum instruction. Vectors stay at 256 bits, as some processors lower their clock for longer ones.
POLTER_LANE_LOOPS(avx512, [[gnu::target("avx512f,avx512vl,prefer-vector-width=256")]])
#endif

}  // namespace

const std::vector<LaneLoops>& lane_loops() {
    static const std::vector<LaneLoops> all = [] {
        std::vector<LaneLoops> list{loops_plain};
#if defined(__x86_64__)
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx2")) list.push_back(loops_avx2);
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) list.push_back(loops_avx512);
#endif
        return list;
    }();
    return all;
}

const LaneLoops best_lane_loops = lane_loops().back();

}  // namespace polter::replay
