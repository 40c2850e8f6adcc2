/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A competitor for one CPU: busy for PERCENT of each PERIOD, asleep for the rest, until it is killed. Its name is the culprit that a
 * trace must show. Periods are kept by the clock, and the busy time is CPU time, so its share does not depend on who else runs.
 *
 *     polter-rival N PERCENT [PERIOD_US]    N: the N-th of the CPUs that this process may use
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static long long read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int main(int argc, char** argv) {
    if (argc < 3) {
        fprintf(stderr, "polter-rival N PERCENT [PERIOD_US]\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int n = atoi(argv[1]);
    long long period = (argc > 3 ? atoll(argv[3]) : 10000) * 1000, busy = period * atoi(argv[2]) / 100;
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    n %= CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || n-- > 0) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one) != 0) return 1;
        break;
    }
    long long next = read_clock(CLOCK_MONOTONIC);
    for (;;) {
        long long until = read_clock(CLOCK_THREAD_CPUTIME_ID) + busy;
        while (read_clock(CLOCK_THREAD_CPUTIME_ID) < until) {
        }
        next += period;
        long long now = read_clock(CLOCK_MONOTONIC);
        if (next < now) next = now; /* it did not get its share: no catching up in bursts */
        struct timespec t = {next / 1000000000ll, next % 1000000000ll};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    }
}
