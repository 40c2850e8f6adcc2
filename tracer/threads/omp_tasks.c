// SPDX-License-Identifier: BSD-3-Clause
// Tasks of libgomp (GCC 12, libgomp/libgomp_g.h): a task's function is wrapped, so that it is seen on the thread that executes it. The
// wrapper's data stands before the task's own, which the runtime copies: with an alignment that suits both.
//
// Not wrapped: tasks that may be detached (the runtime writes into their data) and loops of tasks.
#include <stdbool.h>
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
    struct task task;
    void* data;
    copy_function copy;
    size_t size;
};

static void copy_task(void* to, void* from) {
    const struct source* source = from;
    *(struct task*)to = source->task;
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
    if (!hooks_of_gomp() || (flags & may_be_detached)) {
        next(function, data, copy, size, alignment, deferred, flags, depends, priority, detach);
        return;
    }
    if (alignment < least) alignment = least;
    const long offset = ((long)sizeof(struct task) + alignment - 1) / alignment * alignment;
    struct source source = {.task = {function, from, (size_t)offset}, .data = data, .copy = copy, .size = (size_t)size};
    next(run_task, &source, copy_task, offset + size, alignment, deferred, flags, depends, priority, detach);
}

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
