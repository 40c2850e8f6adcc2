/* SPDX-License-Identifier: BSD-3-Clause */
/* Checking and reading a page; the protocol stands at the top of page.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "handle.h"
#include "own.h"

/* A try fails only if a writer publishes during it, which takes an interrupt each time. */
enum { SNAPSHOT_TRIES = 100 };

static polter_u64 load_acquire(const polter_u64* p) {
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

#if defined(__SANITIZE_THREAD__)
/* The thread sanitizer knows no fences; word-wise acquire loads order the same. */
static void copy_words(void* to, const void* from, size_t bytes) {
    for (size_t i = 0; i < bytes / sizeof(polter_u64); i++) ((polter_u64*)to)[i] = load_acquire((const polter_u64*)from + i);
}
static void acquire_fence(void) {}
#else
static void copy_words(void* to, const void* from, size_t bytes) {
    memcpy(to, from, bytes);
}
static void acquire_fence(void) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}
#endif

static int power_of_two(polter_u64 n) {
    return n && !(n & (n - 1));
}

static int check(const void* page, size_t size, char* error, size_t error_size) {
    struct polter_page_header h;
    if (!page || size < sizeof h) {
        snprintf(error, error_size, "noise page: %zu bytes, too short for a header of %zu; it is truncated", size, sizeof h);
        return -1;
    }
    if ((uintptr_t)page % _Alignof(struct polter_page_header)) {
        snprintf(error, error_size, "noise page: at an address that is not aligned to 8 bytes");
        return -1;
    }
    memcpy(&h, page, sizeof h);
    if (h.magic != POLTER_PAGE_MAGIC) {
        snprintf(error, error_size, "noise page: begins with %#llx, not with the magic number; it is no page", (unsigned long long)h.magic);
        return -1;
    }
    if (h.version != POLTER_PAGE_VERSION) {
        snprintf(error, error_size, "noise page: version %u, this reader knows %u; exporter and reader must be of one installation",
                 h.version, POLTER_PAGE_VERSION);
        return -1;
    }
    if (h.size > size || h.size < sizeof h) {
        snprintf(error, error_size, "noise page: says it has %u bytes, but %zu are there; it is truncated", h.size, size);
        return -1;
    }
    polter_u64 copies_end = (polter_u64)h.copy_offset + 2ull * h.copy_stride;
    polter_u64 ring_end = (polter_u64)h.ring_offset + (polter_u64)h.ring_entries * sizeof(struct polter_ring_entry);
    if (h.copy_stride != sizeof(struct polter_counters) || h.copy_offset < sizeof h || h.copy_offset % 8 || copies_end > h.ring_offset ||
        h.ring_offset % 8 || !power_of_two(h.ring_entries) || ring_end > h.size) {
        snprintf(error, error_size, "noise page: its parts do not fit into its %u bytes (copies at %u by %u, ring of %u at %u)", h.size,
                 h.copy_offset, h.copy_stride, h.ring_entries, h.ring_offset);
        return -1;
    }
    if (h.state != POLTER_PAGE_LIVE && h.state != POLTER_PAGE_FROZEN) {
        snprintf(error, error_size, "noise page: in state %u, neither live nor frozen; no thread is registered on it", h.state);
        return -1;
    }
    return 0;
}

polter_noise* polter_handle_new(char* error, size_t error_size) {
    size_t unit = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = (sizeof(polter_noise) + unit - 1) / unit * unit;
    void* memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        snprintf(error, error_size, "no memory for a noise page's handle: %s", strerror(errno));
        return NULL;
    }
    polter_noise* noise = memory;
    noise->handle_size = size;
    return noise;
}

void polter_handle_free(polter_noise* noise) {
    size_t unit = (size_t)sysconf(_SC_PAGESIZE);
    munmap(noise, (sizeof *noise + unit - 1) / unit * unit); /* its own word for it is wiped in a child */
}

int polter_handle_attach(polter_noise* noise, const void* page, size_t size, char* error, size_t error_size) {
    if (check(page, size, error, error_size) < 0) return -1;
    const struct polter_page_header* h = page;
    noise->copies = (const void*)((const char*)page + h->copy_offset);
    noise->ring = (const void*)((const char*)page + h->ring_offset);
    noise->ring_mask = h->ring_entries - 1;
    noise->seen_seq = ~0ull; /* so that a first look always finds something */
    noise->header = h;
    return 0;
}

polter_noise* polter_noise_open_memory(const void* page, size_t size, char* error, size_t error_size) {
    polter_noise* noise = polter_handle_new(error, error_size);
    if (noise && polter_handle_attach(noise, page, size, error, error_size) < 0) {
        polter_handle_free(noise);
        return NULL;
    }
    return noise;
}

const struct polter_page_header* polter_noise_header(const polter_noise* noise) {
    return noise->header;
}

static void update(const polter_noise* noise) {
    struct polter_own* own = noise->own;
    if (!own || own->busy) return;
    own->busy = 1;
    own->tier->update(own);
    own->busy = 0;
}

int polter_noise_moved_at(const polter_noise* noise, polter_u64 now_ns) {
    const struct polter_page_header* h = noise->header;
    if (__builtin_expect(!h, 0)) return 0;
    const int moved = load_acquire(&h->seq) != noise->seen_seq;
    if (__builtin_expect(!noise->own, 1)) return moved; /* the way that must cost next to nothing */
    struct polter_own* own = noise->own;
    if (moved || own->busy) return moved;
    own->busy = 1;
    const int more = own->tier->moved(own, now_ns);
    own->busy = 0;
    return more;
}

int polter_noise_moved(const polter_noise* noise) {
    return polter_noise_moved_at(noise, ~0ull);
}

int polter_noise_yield(polter_noise* noise) {
    struct polter_own* own = noise && noise->header ? noise->own : NULL;
    if (!own || own->busy) return (int)syscall(SYS_sched_yield);
    own->busy = 1;
    const int result = own->tier->yield(own);
    own->busy = 0;
    return result;
}

int polter_noise_snapshot(polter_noise* noise, struct polter_counters* out) {
    const struct polter_page_header* h = noise->header;
    if (h) update(noise);
    for (int i = 0; h && i < SNAPSHOT_TRIES; i++) {
        polter_u64 seq = load_acquire(&h->seq);
        copy_words(out, &noise->copies[seq & 1], sizeof *out);
        acquire_fence();
        if (__atomic_load_n(&h->seq, __ATOMIC_RELAXED) == seq) {
            noise->seen_seq = seq;
            noise->last = *out;
            return 0;
        }
    }
    *out = noise->last;
    return -1;
}

static polter_u64 recorded(const polter_noise* noise) {
    for (int i = 0; i < SNAPSHOT_TRIES; i++) {
        polter_u64 seq = load_acquire(&noise->header->seq);
        polter_u64 n = load_acquire(&noise->copies[seq & 1].recorded);
        if (__atomic_load_n(&noise->header->seq, __ATOMIC_RELAXED) == seq) return n;
    }
    return noise->taken;
}

polter_u64 polter_noise_waiting(const polter_noise* noise) {
    return noise->header ? load_acquire(&noise->header->reserved) - noise->taken : 0;
}

size_t polter_noise_drain(polter_noise* noise, polter_u64 until_ns, struct polter_ring_entry* out, size_t capacity, polter_u64* lost) {
    if (!noise->header) return 0;
    update(noise);
    polter_u64 end = recorded(noise), size = noise->ring_mask + 1;
    size_t n = 0;
    while (n < capacity && noise->taken < end) {
        /* Slots below reserved - size are being written over or have been. */
        polter_u64 reserved = load_acquire(&noise->header->reserved);
        if (reserved < end) {
            end = reserved; /* recorded > reserved cannot happen on a valid page: stop instead of searching a damaged one forever */
            continue;
        }
        if (reserved > noise->taken + size) {
            polter_u64 oldest = reserved - size < end ? reserved - size : end;
            *lost += oldest - noise->taken;
            noise->taken = oldest;
            continue;
        }
        copy_words(&out[n], &noise->ring[noise->taken & noise->ring_mask], sizeof *out);
        acquire_fence();
        if (load_acquire(&noise->header->reserved) > noise->taken + size) continue; /* overtaken while copying */
        if (out[n].index != noise->taken) {
            /* The slot holds another index than the protocol requires: drop the entry. */
            ++*lost;
            ++noise->taken;
            continue;
        }
        if (out[n].end_ns > until_ns) break;
        out[n].culprit[POLTER_CULPRIT_LEN - 1] = 0;
        ++noise->taken;
        ++n;
    }
    return n;
}
