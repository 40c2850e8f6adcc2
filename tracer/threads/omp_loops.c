// SPDX-License-Identifier: BSD-3-Clause
// Loops that hand out their iterations as threads ask, and loops whose threads wait for each other in the order of the iterations: of
// libgomp (GCC 12, libgomp/libgomp_g.h) and of LLVM's libomp, whose tool interface (ompt.c) does not tell of the former.
#include <stdbool.h>
#include <stdint.h>

#include "gomp.h"

typedef unsigned long long ull;

static void begin_loop(const struct polter_openmp_hooks* recorder, bool dynamic, bool ordered) {
    if (!recorder) return;
    if (dynamic) recorder->dynamic_loop();
    if (ordered) recorder->not_recorded(polter_ordered);
}

#define LOOP(function_name, type, dynamic, ordered, parameters, ...) \
    EXPORT type function_name parameters {                           \
        NEXT(function_name);                                         \
        begin_loop(any_hooks(), dynamic, ordered);                   \
        return next(__VA_ARGS__);                                    \
    }
#define WITH_CHUNK(kind, dynamic, ordered)                                                                                                \
    LOOP(GOMP_loop_##kind##_start, bool, dynamic, ordered, (long start, long end, long step, long chunk, long* first, long* last), start, \
         end, step, chunk, first, last)                                                                                                   \
    LOOP(GOMP_loop_ull_##kind##_start, bool, dynamic, ordered, (bool up, ull start, ull end, ull step, ull chunk, ull* first, ull* last), \
         up, start, end, step, chunk, first, last)
#define WITHOUT_CHUNK(kind, ordered)                                                                                                   \
    LOOP(GOMP_loop_##kind##_start, bool, true, ordered, (long start, long end, long step, long* first, long* last), start, end, step,  \
         first, last)                                                                                                                  \
    LOOP(GOMP_loop_ull_##kind##_start, bool, true, ordered, (bool up, ull start, ull end, ull step, ull* first, ull* last), up, start, \
         end, step, first, last)

WITH_CHUNK(dynamic, true, false)
WITH_CHUNK(guided, true, false)
WITH_CHUNK(nonmonotonic_dynamic, true, false)
WITH_CHUNK(nonmonotonic_guided, true, false)
WITHOUT_CHUNK(runtime, false)
WITHOUT_CHUNK(nonmonotonic_runtime, false)
WITHOUT_CHUNK(maybe_nonmonotonic_runtime, false)
WITH_CHUNK(ordered_static, false, true)
WITH_CHUNK(ordered_dynamic, true, true)
WITH_CHUNK(ordered_guided, true, true)
WITHOUT_CHUNK(ordered_runtime, true)
LOOP(GOMP_sections_start, unsigned, true, false, (unsigned count), count)
LOOP(GOMP_sections2_start, unsigned, true, false, (unsigned count, uintptr_t* reductions, void** memory), count, reductions, memory)

// With the schedule as an argument (reductions of tasks, scans): only a static one is dealt out in advance.
static bool is_dynamic(long schedule) {
    enum { runtime = 0, is_static = 1, automatic = 4, kind = 7 };
    return (schedule & kind) != is_static && (schedule & kind) != automatic;
}
#define WITH_SCHEDULE(kind, ordered)                                                                                                     \
    LOOP(GOMP_loop_##kind, bool, is_dynamic(schedule), ordered,                                                                          \
         (long start, long end, long step, long schedule, long chunk, long* first, long* last, uintptr_t* reductions, void** memory),    \
         start, end, step, schedule, chunk, first, last, reductions, memory)                                                             \
    LOOP(GOMP_loop_ull_##kind, bool, is_dynamic(schedule), ordered,                                                                      \
         (bool up, ull start, ull end, ull step, long schedule, ull chunk, ull* first, ull* last, uintptr_t* reductions, void** memory), \
         up, start, end, step, schedule, chunk, first, last, reductions, memory)
WITH_SCHEDULE(start, false)
WITH_SCHEDULE(ordered_start, true)

// Iterations that wait for others of their choice.
#define DOACROSS(prefix, type, kind, dynamic)                          \
    LOOP(GOMP_##prefix##_doacross_##kind##_start, bool, dynamic, true, \
         (unsigned count, type* counts, type chunk, type* first, type* last), count, counts, chunk, first, last)
#define DOACROSS_LOOPS(prefix, type)                                                                                                       \
    DOACROSS(prefix, type, static, false)                                                                                                  \
    DOACROSS(prefix, type, dynamic, true)                                                                                                  \
    DOACROSS(prefix, type, guided, true)                                                                                                   \
    LOOP(GOMP_##prefix##_doacross_runtime_start, bool, true, true, (unsigned count, type* counts, type* first, type* last), count, counts, \
         first, last)                                                                                                                      \
    LOOP(GOMP_##prefix##_doacross_start, bool, is_dynamic(schedule), true,                                                                 \
         (unsigned count, type* counts, long schedule, type chunk, type* first, type* last, uintptr_t* reductions, void** memory), count,  \
         counts, schedule, chunk, first, last, reductions, memory)
DOACROSS_LOOPS(loop, long)
DOACROSS_LOOPS(loop_ull, ull)

// ---- LLVM's runtime --------------------------------------------------------------------------------------------------------------------

enum { static_chunked = 33, static_whole = 34, ordered_static_chunked = 65, ordered_static = 66, schedule_bits = (1 << 29) - 1 };
static bool is_dynamic_of_llvm(int schedule) {
    const int kind = schedule & schedule_bits;
    return kind != static_chunked && kind != static_whole && kind != ordered_static_chunked && kind != ordered_static;
}
#define LOOP_OF_LLVM(function_name, type, signed_type)                                                                            \
    EXPORT void function_name(void* where, int thread, int schedule, type start, type end, signed_type step, signed_type chunk) { \
        NEXT(function_name);                                                                                                      \
        begin_loop(any_hooks(), is_dynamic_of_llvm(schedule), false);                                                             \
        next(where, thread, schedule, start, end, step, chunk);                                                                   \
    }
LOOP_OF_LLVM(__kmpc_dispatch_init_4, int, int)
LOOP_OF_LLVM(__kmpc_dispatch_init_4u, unsigned, int)
LOOP_OF_LLVM(__kmpc_dispatch_init_8, long, long)
LOOP_OF_LLVM(__kmpc_dispatch_init_8u, unsigned long, long)

#define ORDERED_OF_LLVM(function_name, parameters, ...) \
    EXPORT void function_name parameters {              \
        NEXT(function_name);                            \
        begin_loop(any_hooks(), false, true);           \
        next(__VA_ARGS__);                              \
    }
ORDERED_OF_LLVM(__kmpc_ordered, (void* where, int thread), where, thread)
ORDERED_OF_LLVM(__kmpc_doacross_init, (void* where, int thread, int count, void* bounds), where, thread, count, bounds)
