// SPDX-License-Identifier: BSD-3-Clause
// Tasks of libgomp (GCC 12, libgomp/libgomp_g.h): a task's function is wrapped, so that it is seen on the thread that executes it. The
// wrapper's data stands before the task's own, which the runtime copies: with an alignment that suits both. What the runtime itself writes
// into a task's data, or reads there, is passed on between the two: the event of a task that may be detached, in its first word; first and
// last iteration of a loop's task, in the first two, and its reductions in the third.
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "gomp.h"

typedef void (*task_function)(void*);
typedef void (*copy_function)(void*, void*);

struct task {
    task_function function;
    const void* from;
    size_t offset;  // of its data
};
struct source {
    void* event;  // as the runtime writes it, if the task may be detached
    struct task task;
    void* data;
    bool detached;
    copy_function copy;
    size_t size;
};

static void copy_task(void* to, void* from) {
    const struct source* source = from;
    *(struct task*)to = source->task;
    if (source->detached) *(void**)source->data = source->event;
    char* data = (char*)to + source->task.offset;
    if (source->copy)
        source->copy(data, source->data);
    else
        memcpy(data, source->data, source->size);
}

static void run_task(void* of) {
    const struct task* task = of;
    const struct polter_openmp_hooks* recorder = hooks_of_gomp();
    const bool recorded = recorder && recorder->begin_task(task->from);
    task->function((char*)of + task->offset);
    if (recorded) recorder->end_task();
}

EXPORT void GOMP_task(task_function function, void* data, copy_function copy, long size, long alignment, bool deferred, unsigned flags,
                      void** depends, int priority, void* detach) {
    NEXT(GOMP_task);
    enum { may_be_detached = 1 << 13 };
    const long least = _Alignof(struct task);
    const struct polter_openmp_hooks* recorder = hooks_of_gomp();
    if (recorder && (flags & may_be_detached)) recorder->not_recorded(polter_detached_tasks);
    if (!recorder) {
        next(function, data, copy, size, alignment, deferred, flags, depends, priority, detach);
        return;
    }
    if (alignment < least) alignment = least;
    const long offset = ((long)sizeof(struct task) + alignment - 1) / alignment * alignment;
    struct source source = {.task = {function, from, (size_t)offset}, .data = data, .copy = copy, .size = (size_t)size};
    source.detached = (flags & may_be_detached) && data;
    next(run_task, &source, copy_task, offset + size, alignment, deferred, flags, depends, priority, detach);
}

// ---- loops of tasks --------------------------------------------------------------------------------------------------------------------

struct loop_task {
    uint64_t first, last;
    void* reductions;
    struct task task;
};
struct loop_source {
    struct loop_task head;
    void* data;
    copy_function copy;
};

static void copy_loop_task(void* to, void* from) {
    const struct loop_source* source = from;
    *(struct loop_task*)to = source->head;
    source->copy((char*)to + source->head.task.offset, source->data);
}

static void run_loop_task(void* of) {
    struct loop_task* loop = of;
    char* data = (char*)of + loop->task.offset;
    memcpy(data, &loop->first, 2 * sizeof loop->first);
    const struct polter_openmp_hooks* recorder = hooks_of_gomp();
    const bool recorded = recorder && recorder->begin_task(loop->task.from);
    loop->task.function(data);
    if (recorded) recorder->end_task();
}

// Without a function of the program's that copies, the runtime gets none either: it would keep all tasks at one time where it now has one.
// So head and data lie in one piece, as the runtime copies them.
#define TASKLOOP(function_name, number)                                                                                            \
    EXPORT void function_name(task_function function, void* data, copy_function copy, long size, long alignment, unsigned flags,   \
                              unsigned long tasks, int priority, number start, number end, number step) {                          \
        NEXT(function_name);                                                                                                       \
        enum { has_reductions = 1 << 12 };                                                                                         \
        _Static_assert(sizeof(number) == sizeof(uint64_t), "");                                                                    \
        if (!hooks_of_gomp()) {                                                                                                    \
            next(function, data, copy, size, alignment, flags, tasks, priority, start, end, step);                                 \
            return;                                                                                                                \
        }                                                                                                                          \
        const long least = _Alignof(struct loop_task), own_alignment = alignment < least ? least : alignment;                      \
        const long offset = ((long)sizeof(struct loop_task) + own_alignment - 1) / own_alignment * own_alignment;                  \
        const struct loop_task head = {.reductions = flags & has_reductions ? ((void**)data)[2] : NULL,                            \
                                       .task = {function, from, (size_t)offset}};                                                  \
        if (copy) {                                                                                                                \
            struct loop_source source = {head, data, copy};                                                                        \
            next(run_loop_task, &source, copy_loop_task, offset + size, own_alignment, flags, tasks, priority, start, end, step);  \
            return;                                                                                                                \
        }                                                                                                                          \
        char room[offset + size + own_alignment];                                                                                  \
        char* piece = room + (size_t)(own_alignment - (long)((uintptr_t)room % (uintptr_t)own_alignment)) % (size_t)own_alignment; \
        memcpy(piece, &head, sizeof head);                                                                                         \
        memcpy(piece + offset, data, (size_t)size);                                                                                \
        next(run_loop_task, piece, NULL, offset + size, own_alignment, flags, tasks, priority, start, end, step);                  \
    }
TASKLOOP(GOMP_taskloop, long)
TASKLOOP(GOMP_taskloop_ull, unsigned long long)

#define WAIT(function_name)                                               \
    EXPORT void function_name(void) {                                     \
        NEXT(function_name);                                              \
        const struct polter_openmp_hooks* recorder = hooks_of_gomp();     \
        const bool recorded = recorder && recorder->enter_taskwait(from); \
        next();                                                           \
        if (recorded) recorder->leave_taskwait();                         \
    }
WAIT(GOMP_taskwait)
WAIT(GOMP_taskgroup_end)

// LLVM's runtime, whose tool interface tells of the tasks themselves.
EXPORT void* __kmpc_task_allow_completion_event(void* where, int thread, void* task) {
    NEXT(__kmpc_task_allow_completion_event);
    const struct polter_openmp_hooks* recorder = any_hooks();
    if (recorder) recorder->not_recorded(polter_detached_tasks);
    return next(where, thread, task);
}
