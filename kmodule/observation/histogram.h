/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Logarithmic bins, four to a factor of two: compiled by the BPF program, which fills them, and by C++, which reads them.
 *
 * Bin 0…3 are 0…3 ns; from there on each power of two is cut into four equal bins. The last one takes all from 2^40 ns (18 minutes) on.
 * A value is at most an eighth (12.5 %) off the middle of its bin.
 */
#ifndef POLTER_HISTOGRAM_H
#define POLTER_HISTOGRAM_H

#include "../accounting/state.h"

#define POLTER_BINS 157u

/* The number of the highest bit. No instruction of BPF counts leading zeros. */
POLTER_CHECKED_ALONE polter_u32 polter_exponent_of(polter_u64 value) {
    polter_u32 exponent = 0;

    if (value >> 32) exponent += 32, value >>= 32;
    if (value >> 16) exponent += 16, value >>= 16;
    if (value >> 8) exponent += 8, value >>= 8;
    if (value >> 4) exponent += 4, value >>= 4;
    if (value >> 2) exponent += 2, value >>= 2;
    return exponent + (value >> 1 ? 1 : 0);
}

static inline __attribute__((always_inline)) polter_u32 polter_bin_of(polter_u64 ns) {
    polter_u32 exponent, bin;

    if (ns < 4) return (polter_u32)ns;
    exponent = polter_exponent_of(ns);
    bin = 4 * (exponent - 1) + (polter_u32)((ns >> ((exponent - 2) & 63)) & 3);
    return bin < POLTER_BINS ? bin : POLTER_BINS - 1;
}

/* The smallest value of a bin. */
static inline __attribute__((always_inline)) polter_u64 polter_bin_lower(polter_u32 bin) {
    return bin < 4 ? bin : (polter_u64)(4 + (bin & 3)) << (bin / 4 - 1);
}

#endif
