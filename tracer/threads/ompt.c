// SPDX-License-Identifier: BSD-3-Clause
// For runtimes with OpenMP's tool interface (OpenMP 5.0, chapter 4; LLVM's libomp): the same as gomp.c, as the runtime itself tells it.
//
// A runtime has one tool. Another tool's definition of ompt_start_tool, or OMP_TOOL_LIBRARIES, goes before ours.
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "../conventions.h"
#include "gomp.h"
#include "openmp_hooks.h"

// ---- of the interface, what is used here (OpenMP 5.0, sections 4.2 to 4.5)
// ---------------------------------------------------------------

typedef union {
    uint64_t value;
    void* ptr;
} ompt_data_t;
typedef void (*ompt_interface_fn_t)(void);
typedef ompt_interface_fn_t (*ompt_function_lookup_t)(const char* name);
typedef int (*ompt_set_callback_t)(int event, ompt_interface_fn_t callback);
typedef struct {
    int (*initialize)(ompt_function_lookup_t lookup, int device, ompt_data_t* tool);
    void (*finalize)(ompt_data_t* tool);
    ompt_data_t tool;
} ompt_start_tool_result_t;

enum { parallel_begin = 3, parallel_end = 4, task_create = 5, task_schedule = 6, implicit_task = 7, sync_region = 23 };  // events
enum { scope_begin = 1 };
enum { parallel_league = 0x40000000 };  // flag: the region is that of a teams construct, and its threads are teams
enum { task_implicit = 2, task_explicit = 4 };                 // flags
enum { task_complete = 1, task_cancel = 3, task_detach = 4 };  // status: it is over, but for its event
enum { task_made = 1, task_running = 2, task_bits = 2 };       // ours, in a task's data, below where it was made
enum {                                                         // kinds of synchronisation; the last two are of OpenMP 5.1
    barrier_implicit = 2,
    barrier_implementation = 4,  // all up to this one are barriers
    taskwait = 5,
    taskgroup = 6,
    barrier_implicit_workshare = 8,
    barrier_implicit_parallel = 9
};

// ---- callbacks -------------------------------------------------------------------------------------------------------------------------

static const struct polter_openmp_hooks* hooks(void) {
    return atomic_load_explicit(&polter_openmp_hooks, memory_order_acquire);
}

static void on_parallel_begin(ompt_data_t* task, const void* frame, ompt_data_t* region, unsigned requested, int flags, const void* from) {
    (void)task, (void)frame;
    region->ptr = NULL;
    const struct polter_openmp_hooks* recorder = hooks();
    if (flags & parallel_league) {
        if (recorder && requested != 1) recorder->not_recorded(polter_teams);
        return;
    }
    struct polter_parallel* parallel = recorder ? calloc(1, sizeof *parallel) : NULL;
    if (!parallel) return;
    parallel->from = from;
    parallel->requested = requested;
    if (recorder->fork(parallel))
        region->ptr = parallel;
    else
        free(parallel);
}

static void on_parallel_end(ompt_data_t* region, ompt_data_t* task, int flags, const void* from) {
    (void)task, (void)flags, (void)from;
    const struct polter_openmp_hooks* recorder = hooks();
    if (!region->ptr) return;
    if (recorder) recorder->join(region->ptr);
    free(region->ptr);
    region->ptr = NULL;
}

static void on_implicit_task(int scope, ompt_data_t* region, ompt_data_t* task, unsigned size, unsigned number, int flags) {
    (void)task;
    const struct polter_openmp_hooks* recorder = hooks();
    if (recorder && scope == scope_begin && (flags & task_implicit) && region && region->ptr)
        recorder->begin_share(region->ptr, (int)number, (int)size);
}

// The region's last barrier; workers are not seen to leave it before the next region begins. OpenMP 5.0 has one kind for all implicit
// barriers: that one has no call of its own, but the region's.
static bool is_last(int kind, const ompt_data_t* region, const void* from) {
    const struct polter_parallel* parallel = region ? region->ptr : NULL;
    return kind == barrier_implicit_parallel || (kind == barrier_implicit && (!region || !from || (parallel && from == parallel->from)));
}

static void on_task_create(ompt_data_t* task, const void* frame, ompt_data_t* made, int flags, int depends, const void* from) {
    (void)task, (void)frame, (void)depends;
    made->value = flags & task_explicit ? (uint64_t)(uintptr_t)from << task_bits | task_made : 0;
}

static void on_task_schedule(ompt_data_t* before, int status, ompt_data_t* next) {
    const struct polter_openmp_hooks* recorder = hooks();
    if (!recorder) return;
    const bool is_over = status == task_complete || status == task_cancel || status == task_detach;
    if (is_over && before && before->value == task_running) {
        before->value = 0;
        recorder->end_task();
    }
    if (!next || (next->value & ((1 << task_bits) - 1)) != task_made) return;
    if (recorder->begin_task((const void*)(uintptr_t)(next->value >> task_bits))) next->value = task_running;
}

static void on_sync_region(int kind, int scope, ompt_data_t* region, ompt_data_t* task, const void* from) {
    (void)task;
    const struct polter_openmp_hooks* recorder = hooks();
    const bool is_barrier = kind <= barrier_implementation || kind == barrier_implicit_workshare || kind == barrier_implicit_parallel;
    static _Thread_local int waits = 0;  // for tasks, recorded
    if (recorder && (kind == taskwait || kind == taskgroup)) {
        if (scope == scope_begin)
            waits += recorder->enter_taskwait(from);
        else if (waits > 0 && --waits >= 0)
            recorder->leave_taskwait();
    }
    if (!recorder || !is_barrier) return;
    if (is_last(kind, region, from)) {
        if (scope == scope_begin && region && region->ptr) recorder->end_share(region->ptr);
    } else if (scope == scope_begin) {
        recorder->enter_barrier(from);
    } else {
        recorder->leave_barrier();
    }
}

static int initialize(ompt_function_lookup_t lookup, int device, ompt_data_t* tool) {
    (void)device, (void)tool;
    const ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    if (!set) return 0;
    set(parallel_begin, (ompt_interface_fn_t)on_parallel_begin);
    set(parallel_end, (ompt_interface_fn_t)on_parallel_end);
    set(task_create, (ompt_interface_fn_t)on_task_create);
    set(task_schedule, (ompt_interface_fn_t)on_task_schedule);
    set(implicit_task, (ompt_interface_fn_t)on_implicit_task);
    set(sync_region, (ompt_interface_fn_t)on_sync_region);
    atomic_store_explicit(&polter_runtime_tells, 1, memory_order_release);
    return 1;
}

static void finalize(ompt_data_t* tool) {
    (void)tool;
}

__attribute__((visibility("default"))) ompt_start_tool_result_t* ompt_start_tool(unsigned version, const char* runtime) {
    static ompt_start_tool_result_t ours = {initialize, finalize, {0}};
    ompt_start_tool_result_t* (*next)(unsigned, const char*) =
        (ompt_start_tool_result_t * (*)(unsigned, const char*)) dlsym(RTLD_NEXT, "ompt_start_tool");
    ompt_start_tool_result_t* theirs = next ? next(version, runtime) : NULL;
    if (theirs || !getenv(POLTER_ENV_EXPERIMENT)) return theirs;
    const char* libraries = getenv("OMP_TOOL_LIBRARIES");
    return libraries && *libraries ? NULL : &ours;
}
