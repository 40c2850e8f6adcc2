// SPDX-License-Identifier: BSD-3-Clause
// Random numbers from numbers alone, without a generator's state: any one can be drawn without those before it.
#pragma once

#include <cstdint>

namespace polter::prediction {

enum class Drawn : uint64_t { host, block, sample, permutation, length, law, distance };

inline uint64_t mixed(uint64_t seed, uint64_t draw, Drawn what, uint64_t a, uint64_t b) {
    uint64_t x = seed;
    for (const uint64_t next : {draw, static_cast<uint64_t>(what), a, b}) {
        x += next + 0x9e3779b97f4a7c15u;
        x ^= x >> 30;
        x *= 0xbf58476d1ce4e5b9u;
        x ^= x >> 27;
        x *= 0x94d049bb133111ebu;
        x ^= x >> 31;
    }
    return x;
}

inline double within_0_1(uint64_t random) {
    return (static_cast<double>(random >> 11) + 0.5) * 0x1.0p-53;
}

}  // namespace polter::prediction
