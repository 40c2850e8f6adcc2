// SPDX-License-Identifier: BSD-3-Clause
// libgomp's entry points (GCC 12, libgomp/libgomp_g.h) that begin parallel regions and barriers. Each passes its call on to the runtime of
// the code that called; while nothing is recorded that is all it does. LLVM's libomp has the same entry points for code of GCC.
//
// A region's function is wrapped, so that each thread's share is seen from the thread that executes it. The wrapper's data lies on the
// stack of the thread that begins the region, which does not leave before all members have come to the region's last barrier.
#include "gomp.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

EXPORT const struct polter_openmp_hooks* _Atomic polter_openmp_hooks;
_Atomic int polter_runtime_tells;

// ---- whose runtime ---------------------------------------------------------------------------------------------------------------------

static void* next_of_object(const char* name, const void* from, const void* ours) {
    void* function = NULL;
    Dl_info object;
    if (dladdr(from, &object) && object.dli_fname) {
        void* library = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (library) {
            function = dlsym(library, name);
            dlclose(library);  // it stays: its code is being executed
        }
    }
    if (function && function != ours) return function;
    void* volatile next = dlsym(RTLD_NEXT, name);  // no tail call: who asks is told from the return address
    return next;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void* polter_look_up(struct entry* entry, struct place* place, const void* from, const void* ours) {
    const int error = errno;
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    void* next = next_of_object(entry->name, from, ours);
    if (!next) abort();  // the program calls a function that no runtime of it has
    pthread_mutex_lock(&mutex);
    atomic_store_explicit(&place->from, NULL, memory_order_relaxed);
    atomic_store_explicit(&place->next, next, memory_order_release);
    atomic_store_explicit(&place->from, from, memory_order_release);
    pthread_mutex_unlock(&mutex);
    pthread_setcancelstate(cancel, NULL);
    errno = error;
    return next;
}

// ---- parallel regions ------------------------------------------------------------------------------------------------------------------

typedef void (*region_function)(void*);

struct share {
    void* reductions;  // GOMP_parallel_reductions reads the first word of the region's data
    region_function function;
    void* data;
    const struct polter_openmp_hooks* hooks;
    int (*number)(void);  // omp_get_thread_num, omp_get_num_threads of the runtime that executes the region
    int (*size)(void);
    struct polter_parallel parallel;
};

static void run_share(void* of) {
    struct share* share = of;
    share->hooks->begin_share(&share->parallel, share->number(), share->size());
    share->function(share->data);
    share->hooks->end_share(&share->parallel);
}

static bool fork_region(struct share* share, region_function function, void* data, const void* from, unsigned requested, int dynamic) {
    static struct entry number = {.name = "omp_get_thread_num"}, size = {.name = "omp_get_num_threads"};
    share->hooks = hooks_of_gomp();
    if (!share->hooks) return false;
    share->function = function;
    share->data = data;
    share->number = (int (*)(void))next_of(&number, from, NULL);
    share->size = (int (*)(void))next_of(&size, from, NULL);
    share->parallel = (struct polter_parallel){.from = from, .requested = requested, .dynamic = dynamic};
    return share->hooks->fork(&share->parallel);
}

static void join_region(struct share* share) {
    share->hooks->join(&share->parallel);
}

#define REGION(function_name, dynamic, parameters, ...)                                    \
    EXPORT void function_name parameters {                                                 \
        NEXT(function_name);                                                               \
        struct share share;                                                                \
        const bool recorded = fork_region(&share, function, data, from, threads, dynamic); \
        if (recorded) {                                                                    \
            function = run_share;                                                          \
            data = &share;                                                                 \
        }                                                                                  \
        next(function, data, __VA_ARGS__);                                                 \
        if (recorded) join_region(&share);                                                 \
    }

#define LOOP(kind, dynamic)                                                                                                                \
    REGION(GOMP_parallel_loop_##kind, dynamic,                                                                                             \
           (region_function function, void* data, unsigned threads, long start, long end, long step, long chunk, unsigned flags), threads, \
           start, end, step, chunk, flags)
#define LOOP_AT_RUN_TIME(kind)                                                                                                             \
    REGION(GOMP_parallel_loop_##kind, 1,                                                                                                   \
           (region_function function, void* data, unsigned threads, long start, long end, long step, unsigned flags), threads, start, end, \
           step, flags)

REGION(GOMP_parallel, 0, (region_function function, void* data, unsigned threads, unsigned flags), threads, flags)
REGION(GOMP_parallel_sections, 1, (region_function function, void* data, unsigned threads, unsigned count, unsigned flags), threads, count,
       flags)
LOOP(static, 0)
LOOP(dynamic, 1)
LOOP(guided, 1)
LOOP(nonmonotonic_dynamic, 1)
LOOP(nonmonotonic_guided, 1)
LOOP_AT_RUN_TIME(runtime)
LOOP_AT_RUN_TIME(nonmonotonic_runtime)
LOOP_AT_RUN_TIME(maybe_nonmonotonic_runtime)

EXPORT unsigned GOMP_parallel_reductions(region_function function, void* data, unsigned threads, unsigned flags) {
    NEXT(GOMP_parallel_reductions);
    struct share share;
    if (!fork_region(&share, function, data, from, threads, 0)) return next(function, data, threads, flags);
    share.reductions = *(void**)data;
    const unsigned result = next(run_share, &share, threads, flags);
    join_region(&share);
    return result;
}

// ---- barriers --------------------------------------------------------------------------------------------------------------------------

#define BARRIER(function_name, type, keep, give)                      \
    EXPORT type function_name(void) {                                 \
        NEXT(function_name);                                          \
        const struct polter_openmp_hooks* recorder = hooks_of_gomp(); \
        if (recorder) recorder->enter_barrier(from);                  \
        keep next();                                                  \
        if (recorder) recorder->leave_barrier();                      \
        give;                                                         \
    }

BARRIER(GOMP_barrier, void, , )
BARRIER(GOMP_loop_end, void, , )
BARRIER(GOMP_sections_end, void, , )
BARRIER(GOMP_barrier_cancel, bool, const bool result =, return result)
BARRIER(GOMP_loop_end_cancel, bool, const bool result =, return result)
BARRIER(GOMP_sections_end_cancel, bool, const bool result =, return result)
