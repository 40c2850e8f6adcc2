/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tier of last resort: the kernel's own sum of a thread's waits for a CPU (run_delay, the second word of /proc/thread-self/schedstat,
 * sched(7) of the kernel's documentation), read when the thread asks. No events, no culprits, and a single number for what the better
 * tiers distinguish: preemption by others or by the job's own tasks, waits after a wake-up, CPU quota.
 *
 * A reading costs a microsecond or more, which is a multiple of a short MPI call. So the tier knows what its readings cost, and does not
 * read again before INTERVAL times that have passed. Sums stay exact: what has not been read yet is in the next reading.
 *
 * What yields that are made known (polter_noise_yield) may have added, which is at most their own duration, is taken out.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../accounting/publish.h"
#include "../reader/noise.h"
#include "../reader/own.h"

/* Half of the 1 % is for the readings, half for what is written of them. */
enum { INTERVAL = 200 };

struct proc_own {
    struct polter_own base;
    int fd;
    polter_u64 accounted_ns; /* of run_delay: all that has been read */
    polter_u64 cost_ns;      /* of a reading, smoothed */
    polter_u64 due_ns;       /* no reading before this */
    polter_u64 yields_ns;    /* duration of the yields since the last reading */
    long long clock_offset;
};

static int parse_delay(const char* text, polter_u64* delay) {
    while (*text >= '0' && *text <= '9') text++;
    if (*text != ' ' || text[1] < '0' || text[1] > '9') return -1;
    polter_u64 value = 0;
    for (text++; *text >= '0' && *text <= '9'; text++) value = value * 10 + (polter_u64)(*text - '0');
    *delay = value;
    return 0;
}

static int read_delay(const struct proc_own* own, polter_u64* delay) {
    char text[96];
    const ssize_t n = pread(own->fd, text, sizeof text - 1, 0);
    if (n <= 0) return -1;
    text[n] = 0;
    return parse_delay(text, delay);
}

static polter_u64 now_ns(const struct proc_own* own) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (polter_u64)(now.tv_sec * 1000000000ll + now.tv_nsec + own->clock_offset);
}

/* Counts by how much run_delay has grown since the last reading. */
static void account(struct proc_own* own, polter_u64 delay_ns, polter_u64 time_ns) {
    struct polter_own* base = &own->base;
    const polter_u64 grown = delay_ns > own->accounted_ns ? delay_ns - own->accounted_ns : 0;
    const polter_u64 yielded = grown < own->yields_ns ? grown : own->yields_ns;
    own->yields_ns = 0;
    if (!grown) return;
    own->accounted_ns = delay_ns;
    const int outermost = polter_publish_begin(&base->account, POLTER_ALONE);
    base->account.master.after_yield_ns += yielded;
    base->account.master.yields += yielded > 0;
    if (grown > yielded) polter_publish_count(&base->account, POLTER_PREEMPT, grown - yielded, 1, POLTER_ALONE);
    polter_publish_end(&base->account, base->page, outermost, time_ns, POLTER_ALONE);
}

/* Reads, if it is time. Returns whether there was anything new. */
static int look(struct proc_own* own, polter_u64 began_ns) {
    const polter_u64 before = own->accounted_ns;
    polter_u64 delay;
    if (began_ns < own->due_ns || read_delay(own, &delay) < 0) return 0;
    const polter_u64 ended_ns = now_ns(own);
    account(own, delay, ended_ns);
    polter_u64 cost = ended_ns > began_ns ? ended_ns - began_ns : 1;
    if (!own->cost_ns) own->cost_ns = cost;
    /* What was taken off the CPU in its reading, or by a hypervisor, tells nothing of the cost. */
    if (cost > 4 * own->cost_ns) cost = 4 * own->cost_ns;
    if (own->accounted_ns == before) own->cost_ns = (15 * own->cost_ns + cost + 15) / 16;
    own->due_ns = ended_ns + INTERVAL * own->cost_ns;
    return own->accounted_ns != before;
}

static int moved(struct polter_own* base, polter_u64 time_ns) {
    struct proc_own* own = (struct proc_own*)base;
    if (time_ns < own->due_ns) return 0;
    if (time_ns != ~0ull) return look(own, time_ns);
    own->due_ns = 0;
    return look(own, now_ns(own));
}

static void update(struct polter_own* base) {
    struct proc_own* own = (struct proc_own*)base;
    look(own, now_ns(own));
}

static int yield(struct polter_own* base) {
    struct proc_own* own = (struct proc_own*)base;
    update(base);
    const polter_u64 began_ns = now_ns(own);
    const int result = (int)syscall(SYS_sched_yield);
    own->yields_ns += now_ns(own) - began_ns;
    update(base);
    return result;
}

static void release(struct polter_own* base) {
    close(((struct proc_own*)base)->fd);
    polter_own_free(base, sizeof(struct proc_own));
}

static const struct polter_own_tier tier = {"proc", moved, update, yield, release};

struct polter_own* polter_proc_own(char* error, size_t error_size) {
    struct proc_own* own =
        (struct proc_own*)polter_own_new(sizeof *own, &tier, POLTER_BACKEND_PROC, 1u << POLTER_PREEMPT, error, error_size);
    if (!own) return NULL;
    own->fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    own->clock_offset = polter_noise_clock_offset();
    if (own->fd < 0 || read_delay(own, &own->accounted_ns) < 0) {
        snprintf(error, error_size,
                 "/proc/thread-self/schedstat: %s; the kernel must be built with CONFIG_SCHED_INFO, and /proc be mounted",
                 own->fd < 0 ? strerror(errno) : "holds no two numbers");
        if (own->fd >= 0) close(own->fd);
        polter_own_free(&own->base, sizeof *own);
        return NULL;
    }
    return &own->base;
}
