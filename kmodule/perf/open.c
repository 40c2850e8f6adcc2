/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening of perf events (perf_event_open(2)) for the calling thread. */
#define _GNU_SOURCE
#include "open.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "perf.h"

static int perf_open(struct perf_event_attr* attr) {
    return (int)syscall(SYS_perf_event_open, attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static struct perf_event_attr common(void) {
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME;
    attr.sample_id_all = 1;
    attr.use_clockid = 1;
    attr.clockid = CLOCK_MONOTONIC;
    /* No thread sleeps on these events, so wake up only when the ring is full: each wake-up would be an interrupt. */
    attr.watermark = 1;
    attr.wakeup_watermark = ~0u;
    return attr;
}

int polter_perf_open_switches(void) {
    struct perf_event_attr attr = common();
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_DUMMY;
    attr.context_switch = 1;
    attr.exclude_kernel = 1;
    attr.exclude_hv = 1;
    return perf_open(&attr);
}

int polter_perf_open_tracepoint(polter_u64 config) {
    struct perf_event_attr attr = common();
    attr.type = PERF_TYPE_TRACEPOINT;
    attr.config = config;
    attr.sample_type |= PERF_SAMPLE_RAW;
    attr.sample_period = 1;
    return perf_open(&attr);
}

void* polter_perf_map(int fd, size_t* size) {
    const size_t unit = (size_t)sysconf(_SC_PAGESIZE);
    /* Users may lock little memory (kernel.perf_event_mlock_kb): try smaller rings before giving up. */
    for (size_t data = *size; data >= unit; data /= 2) {
        void* ring = mmap(NULL, data + unit, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (ring == MAP_FAILED) continue;
        *size = data + unit;
        return ring;
    }
    return NULL;
}

/* Translates the errors that users meet into what to do about them. */
static void explain(int e, char* error, size_t error_size) {
    FILE* file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
    int level = 99;
    if (file) {
        if (fscanf(file, "%d", &level) != 1) level = 99;
        fclose(file);
    }
    if (e == ENOSYS || !file)
        snprintf(error, error_size, "this kernel, or this container, has no perf_event_open: %s", strerror(e));
    else if ((e == EACCES || e == EPERM) && level > 2)
        snprintf(error, error_size,
                 "kernel.perf_event_paranoid is %d, which refuses users any perf event; as root: sysctl kernel.perf_event_paranoid=2",
                 level);
    else if (e == EACCES || e == EPERM)
        snprintf(error, error_size,
                 "perf_event_open is refused (%s) though kernel.perf_event_paranoid is %d: a security filter, as containers have; run the "
                 "container with "
                 "--cap-add PERFMON or --security-opt seccomp=unconfined",
                 strerror(e), level);
    else if (e == EMFILE)
        snprintf(error, error_size, "no descriptor left for a perf event; raise the limit: ulimit -n");
    else
        snprintf(error, error_size, "perf_event_open: %s", strerror(e));
}

int polter_perf_switches(int* error_number, char* error, size_t error_size) {
    const int fd = polter_perf_open_switches();
    *error_number = fd < 0 ? errno : 0;
    if (fd < 0) {
        explain(*error_number, error, error_size);
        return -1;
    }
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void* ring = polter_perf_map(fd, &size);
    if (ring) munmap(ring, size);
    close(fd);
    if (ring) return 0;
    *error_number = ENOMEM;
    snprintf(error, error_size,
             "no memory may be locked for a perf ring; as root: sysctl kernel.perf_event_mlock_kb=4096 (or raise ulimit -l)");
    return -1;
}

int polter_perf_tracepoint_allowed(polter_u64 config, char* error, size_t error_size) {
    const int fd = polter_perf_open_tracepoint(config);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    snprintf(error, error_size, "its records are refused: %s; they need CAP_PERFMON, or kernel.perf_event_paranoid=-1", strerror(errno));
    return -1;
}
