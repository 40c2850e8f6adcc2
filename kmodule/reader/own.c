/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "own.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "noise.h"

struct polter_own* polter_own_new(size_t size, const struct polter_own_tier* tier, polter_u32 backend, polter_u32 seen, char* error,
                                  size_t error_size) {
    /* mmap instead of malloc: this may run before the program has set up its own allocator. */
    void* memory = mmap(NULL, size + POLTER_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        snprintf(error, error_size, "no memory for a thread's noise page: %s", strerror(errno));
        return NULL;
    }
    struct polter_own* own = (struct polter_own*)((char*)memory + POLTER_PAGE_SIZE);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    own->tier = tier;
    own->page = memory;
    own->account.tid = (polter_s32)syscall(SYS_gettid);
    own->account.tgid = (polter_u32)getpid();
    own->account.job = own->account.tgid;
    own->account.off = POLTER_RUNNING;
    struct polter_page_header* h = &own->page->header;
    polter_page_layout(h, backend, seen);
    h->tid = own->account.tid;
    h->pid = (polter_s32)own->account.tgid;
    h->state = POLTER_PAGE_LIVE;
    h->start_ns = (polter_u64)(now.tv_sec * 1000000000ll + now.tv_nsec + polter_noise_clock_offset());
    return own;
}

void polter_own_free(struct polter_own* own, size_t size) {
    munmap(own->page, size + POLTER_PAGE_SIZE);
}
