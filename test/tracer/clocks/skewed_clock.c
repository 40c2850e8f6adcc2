// SPDX-License-Identifier: BSD-3-Clause
// Preloaded by tests: gives the processes of one host another CLOCK_MONOTONIC than that of the machine, as if it were another machine.
//   SKEWED_CLOCK="HOST BEGAN_NS OFFSET_NS RATE_PPM STEP_NS AT_NS"
// On the host of that name, with t the time since BEGAN: clock + OFFSET + RATE · t, and STEP more from t = AT on (0: no step).
// Hosts of one machine read one clock by their boot id: POLTER_CLOCK gets the host's name, so that the tracer takes them for different
// ones.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int (*real)(clockid_t, struct timespec*);
static int skewed;
static long long began, offset, step, at;
static double rate;

__attribute__((constructor)) static void prepare(void) {
    char self[256] = "", host[256] = "";
    const char* how = getenv("SKEWED_CLOCK");
    real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
    if (!how || sscanf(how, "%255s %lld %lld %lf %lld %lld", host, &began, &offset, &rate, &step, &at) != 6) return;
    gethostname(self, sizeof self - 1);
    setenv("POLTER_CLOCK", self, 1);
    skewed = strcmp(self, host) == 0;
}

int clock_gettime(clockid_t clock, struct timespec* out) {
    if (!real) prepare();
    const int result = real(clock, out);
    if (result != 0 || clock != CLOCK_MONOTONIC || !skewed) return result;
    const long long now = (long long)out->tv_sec * 1000000000 + out->tv_nsec, since = now - began;
    const long long ns = now + offset + (long long)((double)since * rate * 1e-6) + (at > 0 && since > at ? step : 0);
    out->tv_sec = ns / 1000000000;
    out->tv_nsec = ns % 1000000000;
    return 0;
}
