/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "noise.h"

/* A time namespace shifts CLOCK_MONOTONIC by what /proc/self/timens_offsets says ("monotonic SECONDS NANOSECONDS"; time_namespaces(7)).
 * The file shows the namespace that children enter, which is one's own but for the moment between unshare() and fork(). A kernel
 * without the file has no time namespaces. */
long long polter_noise_clock_offset(void) {
    FILE* file = fopen("/proc/self/timens_offsets", "re");
    if (!file) return 0;
    char line[128];
    long long seconds, nanoseconds, offset = 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "monotonic %lld %lld", &seconds, &nanoseconds) == 2) offset = -(seconds * 1000000000ll + nanoseconds);
    fclose(file);
    return offset;
}
