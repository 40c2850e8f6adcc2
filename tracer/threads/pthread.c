// SPDX-License-Identifier: BSD-3-Clause
// pthread_create and pthread_join of the C library. While nothing is recorded a call is passed on: two loads.
//
// A recorded thread begins in begin(), which calls the program's function. Its end is seen by the tracer's thread-specific data, so
// pthread_exit and a cancelled thread end as they do untraced.
#include <pthread.h>
#include <stdlib.h>

#include "c_library.h"

EXPORT const struct polter_thread_hooks* _Atomic polter_thread_hooks;

static void* next_of(_Atomic(void*)* known, const char* name) {
    void* next = next_if_any(known, name, NULL);
    if (!next) abort();  // no C library is without it
    return next;
}

static void* begin(void* of) {
    const struct polter_started started = *(struct polter_started*)of;
    free(of);
    const struct polter_thread_hooks* recorder = hooks();
    if (recorder) recorder->begin(&started);
    return started.start(started.argument);
}

EXPORT int pthread_create(pthread_t* restrict thread, const pthread_attr_t* restrict attributes, void* (*start)(void*),
                          void* restrict argument) {
    static _Atomic(void*) known;
    int (*const next)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) =
        (int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))next_of(&known, "pthread_create");
    const struct polter_thread_hooks* recorder = hooks();
    struct polter_started* started = recorder ? malloc(sizeof *started) : NULL;
    if (!started) return next(thread, attributes, start, argument);
    *started = (struct polter_started){.start = start, .argument = argument};
    if (!recorder->create(started, attributes, __builtin_return_address(0))) {
        free(started);
        return next(thread, attributes, start, argument);
    }
    const int result = next(thread, attributes, begin, started);
    if (result) free(started);
    return result;
}

struct joining {
    const struct polter_thread_hooks* recorder;
    pthread_t thread;
};
static void leave_cancelled(void* of) {
    const struct joining* joining = of;
    joining->recorder->leave_join(joining->thread, 0);
}

EXPORT int pthread_join(pthread_t thread, void** value) {
    static _Atomic(void*) known;
    int (*const next)(pthread_t, void**) = (int (*)(pthread_t, void**))next_of(&known, "pthread_join");
    struct joining joining = {.recorder = hooks(), .thread = thread};
    if (!joining.recorder || !joining.recorder->enter_join(thread, __builtin_return_address(0))) return next(thread, value);
    int result;
    pthread_cleanup_push(leave_cancelled, &joining);
    result = next(thread, value);
    pthread_cleanup_pop(0);
    joining.recorder->leave_join(thread, result == 0);
    return result;
}
