/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The writer's side of the page protocol (page.h): begin, any number of records, end.
 *
 * Writers of one thread's page run on one CPU at a time and nest: an inner one runs from begin to end while the outer one stands still.
 * So plain program order suffices between them; the atomics are against an inner writer between a load and a store, and order the
 * stores for readers on other CPUs.
 */
#ifndef POLTER_PUBLISH_H
#define POLTER_PUBLISH_H

#include "state.h"

#define POLTER_PUBLISH_TRIES 4
#define POLTER_NO_PAGE(page) (!(page))

/* Constant for the last argument of these functions: only non-maskable interrupts can nest in this writer (interrupts are off). They do
 * not write the page (polter_publish_nmi), so the writer needs no atomic instructions. */
enum { POLTER_NESTED = 0, POLTER_ALONE = 1 };

/* 1 for the outermost writer, which publishes at its end; 0 for one nested in it. */
POLTER_INLINE int polter_publish_begin(struct polter_thread* thread, int alone) {
    polter_u64 taken;

    if (!alone) return POLTER_SWAP(thread->pub, 1ull) == 0;
    taken = POLTER_LOAD(thread->pub);
    POLTER_STORE(thread->pub, 1ull);
    return taken == 0;
}

/* Which accounts have changed since a publication: none, one (its number + 1), or more than one. Only those are copied, nearly always
 * one: a page has more cache lines than everything else an event touches. */
#define POLTER_CHANGED_NONE 0ull
#define POLTER_CHANGED_SOME ~0ull

/* To the master; only between begin and end. */
POLTER_INLINE void polter_publish_count(struct polter_thread* thread, polter_u32 account, polter_u64 duration_ns, polter_u64 count,
                                        int alone) {
    polter_u64 this_one = account + 1ull, had;

    if (alone) {
        POLTER_ADD_ALONE(thread->master.ns[account], duration_ns);
        POLTER_ADD_ALONE(thread->master.count[account], count);
        had = POLTER_LOAD(thread->changed);
        POLTER_STORE(thread->changed, had == POLTER_CHANGED_NONE || had == this_one ? this_one : POLTER_CHANGED_SOME);
        return;
    }
    POLTER_ADD(thread->master.ns[account], duration_ns);
    if (count) POLTER_ADD(thread->master.count[account], count);
    had = POLTER_SWAP_IF(thread->changed, POLTER_CHANGED_NONE, this_one);
    if (had != POLTER_CHANGED_NONE && had != this_one) POLTER_STORE(thread->changed, POLTER_CHANGED_SOME);
}

/* Counts an event without publishing; call outside of begin and end. The next publication shows it. */
POLTER_INLINE void polter_publish_later(struct polter_thread* thread, polter_u32 account) {
    POLTER_ADD(thread->master.count[account], 1ull);
    POLTER_STORE(thread->changed, POLTER_CHANGED_SOME);
}

/* One noise event into counters and ring; only between begin and end. `count` is 0 for the further parts of one wait. */
POLTER_INLINE void polter_publish_record(struct polter_thread* thread, struct polter_page* page, polter_u64 end_ns, polter_u64 duration_ns,
                                         polter_u32 account, polter_u64 count, const struct polter_culprit* culprit, int alone) {
    polter_u64 index;
    struct polter_ring_entry* entry;

    POLTER_HIDE(culprit);
    account &= POLTER_ACCOUNT_SLOTS - 1;
    /* Reserve the entry before writing it: a reader of the slot's old entry sees from `reserved` that the slot is being overwritten. */
    polter_publish_count(thread, account, duration_ns, count, alone);
    if (alone) {
        index = POLTER_LOAD(page->header.reserved);
        POLTER_ADD_ALONE(page->header.reserved, 1ull);
    } else {
        index = POLTER_FETCH_ADD(page->header.reserved, 1ull);
    }
    entry = &page->ring[index & (POLTER_RING_ENTRIES - 1)];
    POLTER_STORE(entry->index, index);
    entry->end_ns = end_ns;
    entry->duration_ns = duration_ns;
    entry->account = account;
    entry->culprit_pid = culprit->pid;
    __builtin_memcpy(entry->culprit, culprit->name, POLTER_CULPRIT_LEN);
}

/* Notes a non-maskable interrupt that has ended. It may have interrupted a writer between any two instructions, so the next writer
 * records it. */
POLTER_INLINE void polter_publish_nmi(struct polter_thread* thread, polter_u64 end_ns, polter_u64 duration_ns) {
    POLTER_ADD(thread->nmi_ns, duration_ns);
    POLTER_STORE(thread->nmi_end_ns, end_ns);
    POLTER_ADD(thread->nmi_count, 1ull);
}

POLTER_INLINE int polter_publish_has_nmi(struct polter_thread* thread) {
    return POLTER_LOAD(thread->nmi_count) != 0;
}

/* Records the noted non-maskable interrupts as one event. Call between begin and end. */
POLTER_INLINE void polter_publish_noted_nmi(struct polter_thread* thread, struct polter_page* page, const struct polter_culprit* culprit,
                                            int alone) {
    polter_u64 count = POLTER_SWAP(thread->nmi_count, 0ull), ns = POLTER_SWAP(thread->nmi_ns, 0ull);

    polter_publish_record(thread, page, POLTER_LOAD(thread->nmi_end_ns), ns, POLTER_NMI, count, culprit, alone);
}

POLTER_INLINE void polter_publish_copy_one(struct polter_thread* thread, struct polter_counters* back, polter_u64 changed) {
    polter_u64 account = changed - 1;

    if (changed == POLTER_CHANGED_NONE) return;
    POLTER_HIDE(account); /* without this the compiler drops the mask, and the verifier does not see the bound */
    account &= POLTER_ACCOUNT_SLOTS - 1;
    POLTER_STORE(back->ns[account], POLTER_LOAD(thread->master.ns[account]));
    POLTER_STORE(back->count[account], POLTER_LOAD(thread->master.count[account]));
}

/* Brings the back copy up to date with these changes. */
POLTER_INLINE void polter_publish_copy(struct polter_thread* thread, struct polter_page* page, struct polter_counters* back,
                                       polter_u64 now_ns, polter_u64 changed, polter_u64 changed_last) {
    /* A wait may be recorded late, and a nested writer may publish between an event and its publication, so the last published event is
     * not always the latest. */
    polter_u64 updated = POLTER_LOAD(thread->master.updated_ns);
    if (updated < now_ns) updated = now_ns;

    if (changed == POLTER_CHANGED_SOME || changed_last == POLTER_CHANGED_SOME) {
        /* Word by word: the BPF back end has no memcpy for lengths like this. */
        POLTER_UNROLL
        for (int i = 0; i < POLTER_ACCOUNTS; i++) {
            POLTER_STORE(back->ns[i], POLTER_LOAD(thread->master.ns[i]));
            POLTER_STORE(back->count[i], POLTER_LOAD(thread->master.count[i]));
        }
    } else {
        polter_publish_copy_one(thread, back, changed);
        if (changed_last != changed) polter_publish_copy_one(thread, back, changed_last);
    }
    POLTER_STORE(thread->master.updated_ns, updated);
    back->updated_ns = updated;
    back->after_yield_ns = POLTER_LOAD(thread->master.after_yield_ns);
    back->yields = POLTER_LOAD(thread->master.yields);
    back->unbalanced = POLTER_LOAD(thread->master.unbalanced);
    back->give_ups = POLTER_LOAD(thread->master.give_ups);
    back->dropped = POLTER_LOAD(thread->master.dropped);
    /* Writers nested in this one have completed their entries, and this writer has completed its own. */
    back->recorded = POLTER_LOAD(page->header.reserved);
}

/* `changed` may miss a nested writer's change, but that writer has then set `dirty`, and a writer that finds `dirty` set copies all
 * accounts. */
POLTER_INLINE void polter_publish_end(struct polter_thread* thread, struct polter_page* page, int outermost, polter_u64 now_ns, int alone) {
    polter_u64 changed;

    if (!outermost) {
        POLTER_STORE(thread->dirty, 1ull);
        return;
    }
    if (alone) { /* no nested writer can set `dirty` now; an outer writer that has just released the page may have left it set */
        changed = POLTER_LOAD(thread->dirty) ? POLTER_CHANGED_SOME : POLTER_LOAD(thread->changed);
        polter_publish_copy(thread, page, &page->copy[(POLTER_LOAD(page->header.seq) + 1) & 1], now_ns, changed,
                            POLTER_LOAD(thread->changed_last));
        POLTER_BARRIER();
        POLTER_ADD_ALONE(page->header.seq, 1ull);
        POLTER_STORE(thread->changed_last, changed);
        POLTER_STORE(thread->changed, POLTER_CHANGED_NONE);
        POLTER_STORE(thread->dirty, 0ull);
        POLTER_STORE(thread->pub, 0ull);
        return;
    }
    POLTER_NO_UNROLL
    for (int i = 0; i < POLTER_PUBLISH_TRIES; i++) {
        polter_u64 seq = POLTER_LOAD(page->header.seq);
        POLTER_STORE(thread->dirty, 0ull);
        POLTER_BARRIER();
        changed = i ? POLTER_CHANGED_SOME : POLTER_LOAD(thread->changed);
        polter_publish_copy(thread, page, &page->copy[(seq + 1) & 1], now_ns, changed, POLTER_LOAD(thread->changed_last));
        POLTER_BARRIER();
        if (POLTER_LOAD(thread->dirty)) continue; /* a nested writer changed the master while it was copied */
        POLTER_ADD(page->header.seq, 1ull);
        POLTER_STORE(thread->changed_last, changed);
        POLTER_STORE(thread->changed, POLTER_CHANGED_NONE);
        POLTER_BARRIER();
        POLTER_STORE(thread->pub, 0ull);
        POLTER_BARRIER();
        /* Between the check of `dirty` and the release of `pub` a nested writer can only set `dirty`, not publish. */
        if (!POLTER_LOAD(thread->dirty)) return;
        if (POLTER_SWAP(thread->pub, 1ull) != 0) return;
    }
    POLTER_ADD(thread->master.give_ups, 1ull);
    POLTER_STORE(thread->changed, POLTER_CHANGED_SOME);
    POLTER_STORE(thread->pub, 0ull);
}

#endif
