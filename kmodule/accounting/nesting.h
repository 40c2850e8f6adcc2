/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Interruptions that nest, each net of those nested in it: a stack of frames a CPU.
 *
 * An interruption may begin and end between any two instructions here; it leaves the stack as it found it, but for the time it adds to
 * `child_ns` of the frame below it. Where a nested one falls between the reading of the clock and the change of the stack, it is booked so
 * that no nanosecond counts twice.
 * The includer defines POLTER_NOW(): nanoseconds of CLOCK_MONOTONIC; and may define POLTER_OUTERMOST_HOOK(cpu, gross_ns), called with the
 * gross duration of each interruption that is nested in no other.
 */
#ifndef POLTER_NESTING_H
#define POLTER_NESTING_H

#include "state.h"

#ifndef POLTER_OUTERMOST_HOOK
#define POLTER_OUTERMOST_HOOK(cpu, gross_ns) (void)0
#endif

/* Adds the duration of a nested interruption to the frame that was running: the topmost one that has begun. A frame that has not begun
 * yet starts after it. */
POLTER_INLINE void polter_nesting_charge(struct polter_cpu* cpu, polter_u32 depth, polter_u64 gross_ns) {
    if (depth && !POLTER_LOAD(cpu->frame[(depth - 1) & (POLTER_NESTING - 1)].start_ns)) depth--;
    if (depth)
        POLTER_ADD(cpu->frame[(depth - 1) & (POLTER_NESTING - 1)].child_ns, gross_ns);
    else
        POLTER_OUTERMOST_HOOK(cpu, gross_ns);
}

/* Pops the frames from `to` on: their ends were lost. The time of interruptions nested in them is kept. */
POLTER_INLINE void polter_nesting_drop(struct polter_cpu* cpu, struct polter_thread* thread, polter_u32 depth, polter_u32 to) {
    polter_u32 dropped = (1u << (depth & 31)) - (1u << (to & 31)); /* bits */
    polter_u64 nested = 0;

    POLTER_UNROLL
    for (polter_u32 i = 0; i < POLTER_NESTING; i++) {
        if (!(dropped >> i & 1)) continue;
        if (POLTER_LOAD(cpu->frame[i].start_ns)) nested += POLTER_LOAD(cpu->frame[i].child_ns);
        POLTER_STORE(cpu->frame[i].start_ns, 0ull);
    }
    POLTER_BARRIER();
    POLTER_STORE(cpu->depth, to);
    if (thread) POLTER_ADD(thread->master.unbalanced, (polter_u64)(depth - to));
    if (nested) polter_nesting_charge(cpu, to, nested);
}

/* A frame outside the stack has start_ns 0 (not begun), however often nested interruptions have used it. So claim a frame first, then
 * fill it in. */
POLTER_INLINE void polter_nesting_enter(struct polter_cpu* cpu, struct polter_thread* thread, polter_u32 kind, polter_u32 id) {
    polter_u32 depth = POLTER_LOAD(cpu->depth);
    struct polter_frame* frame;

    if (depth >= POLTER_NESTING) { /* exits were lost: nothing on the stack can be trusted */
        polter_nesting_drop(cpu, thread, POLTER_NESTING, 0);
        depth = 0;
    }
    frame = &cpu->frame[depth & (POLTER_NESTING - 1)];
    POLTER_STORE(cpu->depth, depth + 1);
    POLTER_BARRIER();
    frame->kind = kind;
    frame->id = id;
    frame->tid = thread->tid;
    POLTER_STORE(frame->child_ns, 0ull);
    frame->began_ns = POLTER_NOW();
    POLTER_BARRIER();
    POLTER_STORE(frame->start_ns, frame->began_ns);
}

/* The depth of an interruption below the topmost frame; POLTER_NESTING if it is not on the stack. */
POLTER_CHECKED_ALONE polter_u32 polter_nesting_find(const struct polter_cpu* cpu, polter_s32 tid, polter_u32 kind, polter_u32 id) {
    polter_u32 depth, at = POLTER_NESTING;

    if (!cpu) return at;
    depth = POLTER_LOAD(cpu->depth);
    POLTER_UNROLL
    for (polter_u32 i = 0; i + 1 < POLTER_NESTING; i++)
        if (i + 1 < depth && cpu->frame[i].kind == kind && cpu->frame[i].id == id && cpu->frame[i].tid == tid) at = i;
    return at;
}

/* Ends the interruption that was entered last. Returns 1 with its end and net duration, or 0 if the reading is inconsistent and dropped. */
POLTER_INLINE int polter_nesting_exit(struct polter_cpu* cpu, struct polter_thread* thread, polter_u32 kind, polter_u32 id,
                                      polter_u64* end_ns, polter_u64* net_ns) {
    polter_u32 depth = POLTER_LOAD(cpu->depth), i;
    polter_u64 child, now, gross, late, start;
    struct polter_frame* frame;

    if (depth == 0 || depth > POLTER_NESTING) {
        POLTER_ADD(thread->master.unbalanced, 1ull);
        return 0;
    }
    frame = &cpu->frame[(depth - 1) & (POLTER_NESTING - 1)];
    if (frame->kind != kind || frame->id != id || frame->tid != thread->tid) {
        /* If it lies deeper, the exits above it were lost and its net duration is not known. */
        polter_u32 at = polter_nesting_find(cpu, thread->tid, kind, id);
        if (at < POLTER_NESTING)
            polter_nesting_drop(cpu, thread, depth, at);
        else
            POLTER_ADD(thread->master.unbalanced, 1ull);
        return 0;
    }
    /* Read the clock and the nested time at one moment. */
    for (i = 0; i < 3; i++) {
        child = POLTER_LOAD(frame->child_ns);
        now = POLTER_NOW();
        if (POLTER_LOAD(frame->child_ns) == child) break;
    }
    start = POLTER_LOAD(frame->start_ns);
    POLTER_STORE(frame->start_ns, 0ull); /* from here on nested ones interrupt the frame below */
    POLTER_BARRIER();
    late = POLTER_LOAD(frame->child_ns) - child; /* it came after that moment, so it also interrupted the frame below */
    POLTER_BARRIER();
    POLTER_STORE(cpu->depth, depth - 1);
    POLTER_BARRIER();
    gross = start && now > start ? now - start : 0;
    polter_nesting_charge(cpu, depth - 1, gross + late);
    *end_ns = now;
    *net_ns = gross > child ? gross - child : 0;
    return 1;
}

/* No interruption survives a switch of tasks. */
POLTER_INLINE void polter_nesting_reset(struct polter_cpu* cpu, struct polter_thread* thread) {
    polter_u32 depth = POLTER_LOAD(cpu->depth);
    if (depth) polter_nesting_drop(cpu, thread, depth, 0);
}

#endif
