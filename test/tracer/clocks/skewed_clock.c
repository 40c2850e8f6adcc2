// SPDX-License-Identifier: BSD-3-Clause
// Preloaded by tests: gives a process another CLOCK_MONOTONIC than that of its machine, as one on another host would have.
//   SKEWED_CLOCK="OFFSET_NS RATE_PPM [STEP_NS AT_NS]"
// Where SKEWED_CLOCK_BEGAN (ns) is set, rate and step count from there; AT_NS: that long after it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int (*real)(clockid_t, struct timespec*);
static double offset, rate, step, at, began;

__attribute__((constructor)) static void prepare(void) {
    real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
    const char* how = getenv("SKEWED_CLOCK");
    const char* since = getenv("SKEWED_CLOCK_BEGAN");
    if (how) sscanf(how, "%lf %lf %lf %lf", &offset, &rate, &step, &at);
    if (since) began = atof(since);
}

int clock_gettime(clockid_t clock, struct timespec* out) {
    if (!real) prepare();
    const int result = real(clock, out);
    if (result != 0 || clock != CLOCK_MONOTONIC) return result;
    const double now = (double)out->tv_sec * 1e9 + (double)out->tv_nsec - began;
    const long long more = (long long)offset + (long long)(now * rate * 1e-6) + (at > 0 && now > at ? (long long)step : 0);
    const long long ns = (long long)out->tv_nsec + more;
    long long seconds = ns / 1000000000;
    if (ns % 1000000000 < 0) seconds--;
    out->tv_sec += seconds;
    out->tv_nsec = ns - seconds * 1000000000;
    return 0;
}
