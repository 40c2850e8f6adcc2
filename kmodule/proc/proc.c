/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tier of last resort: the kernel's own sum of a thread's waits for a CPU (run_delay, the second word of /proc/thread-self/schedstat,
 * sched(7) of the kernel's documentation), read when the thread asks. No events, no culprits, and one number for all that the better
 * tiers tell apart: preempted by others or by the job's own tasks, woken and waiting, held by a quota. What it grew by over a yield that
 * the program asked for is taken out, where yields are made known (polter_noise_yield).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../accounting/publish.h"
#include "../reader/noise.h"
#include "../reader/own.h"

struct proc_own {
    struct polter_own base;
    int fd;
    polter_u64 accounted_ns; /* of run_delay */
    polter_u64 delay_ns;     /* as last read */
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

static int read_delay(struct proc_own* own) {
    char text[96];
    const ssize_t n = pread(own->fd, text, sizeof text - 1, 0);
    if (n <= 0) return -1;
    text[n] = 0;
    return parse_delay(text, &own->delay_ns);
}

static int moved(struct polter_own* base) {
    struct proc_own* own = (struct proc_own*)base;
    return read_delay(own) == 0 && own->delay_ns > own->accounted_ns;
}

static polter_u64 now_ns(const struct proc_own* own) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (polter_u64)(now.tv_sec * 1000000000ll + now.tv_nsec + own->clock_offset);
}

static void update(struct polter_own* base) {
    struct proc_own* own = (struct proc_own*)base;
    if (!moved(base)) return;
    polter_own_add(base, POLTER_PREEMPT, own->delay_ns - own->accounted_ns, now_ns(own));
    own->accounted_ns = own->delay_ns;
}

static void update_after_yield(struct polter_own* base) {
    struct proc_own* own = (struct proc_own*)base;
    if (!moved(base)) return;
    const int outermost = polter_publish_begin(&base->account, POLTER_ALONE);
    base->account.master.after_yield_ns += own->delay_ns - own->accounted_ns;
    base->account.master.yields++;
    own->accounted_ns = own->delay_ns;
    polter_publish_end(&base->account, base->page, outermost, now_ns(own), POLTER_ALONE);
}

static void release(struct polter_own* base) {
    close(((struct proc_own*)base)->fd);
    polter_own_free(base, sizeof(struct proc_own));
}

static const struct polter_own_tier tier = {"proc", moved, update, update_after_yield, release};

struct polter_own* polter_proc_own(char* error, size_t error_size) {
    struct proc_own* own =
        (struct proc_own*)polter_own_new(sizeof *own, &tier, POLTER_BACKEND_PROC, 1u << POLTER_PREEMPT, error, error_size);
    if (!own) return NULL;
    own->fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    own->clock_offset = polter_noise_clock_offset();
    if (own->fd < 0 || read_delay(own) < 0) {
        snprintf(error, error_size,
                 "/proc/thread-self/schedstat: %s; the kernel must be built with CONFIG_SCHED_INFO, and /proc be mounted",
                 own->fd < 0 ? strerror(errno) : "holds no two numbers");
        if (own->fd >= 0) close(own->fd);
        polter_own_free(&own->base, sizeof *own);
        return NULL;
    }
    own->accounted_ns = own->delay_ns;
    return &own->base;
}
