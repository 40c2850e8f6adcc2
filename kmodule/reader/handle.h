/* SPDX-License-Identifier: BSD-3-Clause */
/* What a polter_noise is. Internal. */
#ifndef POLTER_HANDLE_H
#define POLTER_HANDLE_H

#include "noise.h"

/* Lies in memory of its own that the kernel wipes in a forked child, where the page is not mapped: there `header` reads NULL. */
struct polter_noise {
    const struct polter_page_header* header;
    const struct polter_counters* copies;
    const struct polter_ring_entry* ring;
    polter_u64 ring_mask;
    struct polter_own* own;      /* the tier whose page this thread writes itself; NULL: another does */
    polter_u64 seen_seq;         /* of the last snapshot or drain */
    polter_u64 taken;            /* index of the next ring entry to drain */
    struct polter_counters last; /* the last consistent copy */

    polter_session* session; /* NULL: the page is the caller's memory */
    void* mapping;
    size_t mapping_size;
    size_t handle_size;
    polter_u32 slot;
    polter_s32 tid;
};

polter_noise* polter_handle_new(char* error, size_t error_size);
void polter_handle_free(polter_noise*);
/* Checks the page and points the handle at it. 0, or -1 with the reason. */
int polter_handle_attach(polter_noise*, const void* page, size_t size, char* error, size_t error_size);

#endif
