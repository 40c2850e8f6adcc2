/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions of a program that appear in Poltergeist's traces, for C and C++. Nothing is linked: the functions are looked up once, when the
 * first region begins. Where the program is not traced a region costs a load and a comparison.
 *
 *     POLTER_REGION("solver");           from here to the end of the block; C++, and C with GCC or Clang
 *     POLTER_REGION_BEGIN("solver");     the same as a pair
 *     POLTER_REGION_END("solver");
 *     polter_region_begin(name);         the same with a name that is not a literal; slower
 *     polter_region_end(name);
 *
 * Regions nest. The same name is the same region. An end closes what began later and is still open; an end without a begin is ignored. Both
 * are a warning in the trace. Regions are recorded between MPI_Init and MPI_Finalize, in every thread, and not within callbacks of MPI.
 * With POLTER_NO_REGIONS defined nothing is compiled.
 */
#ifndef POLTER_H
#define POLTER_H

#if defined(POLTER_NO_REGIONS) || !defined(__GNUC__) || !defined(__linux__)

#define POLTER_REGION(name) ((void)0)
#define POLTER_REGION_BEGIN(name) ((void)0)
#define POLTER_REGION_END(name) ((void)0)
#define polter_region_begin(name) ((void)(name))
#define polter_region_end(name) ((void)(name))

#else

#ifdef __cplusplus
extern "C" {
#endif

/* One place in the source. `id` is the tracer's; it is 0 until the tracer has seen the place. Lives as long as the process. */
struct polter_region {
    const char* name;
    const char* file;
    unsigned line;
    unsigned id;
};

/* The C library's own; weak, since before glibc 2.34 it is in a library that the program may not have. */
extern void* polter_dlsym(void* handle, const char* name) __asm__("dlsym") __attribute__((weak));

typedef void (*polter_region_event)(struct polter_region* region, int begins);
static void polter_region_first(struct polter_region* region, int begins);
static polter_region_event polter_region_tracer __attribute__((unused)) = polter_region_first;

static __attribute__((unused, noinline, cold)) void polter_region_first(struct polter_region* region, int begins) {
    union {
        void* symbol;
        polter_region_event function;
    } found;
    found.symbol = polter_dlsym ? polter_dlsym((void*)0, "polter_region_event_1") : (void*)0;
    __atomic_store_n(&polter_region_tracer, found.function, __ATOMIC_RELAXED);
    if (found.function) found.function(region, begins);
}

static inline __attribute__((unused, always_inline)) void polter_region_tell(struct polter_region* region, int begins) {
    const polter_region_event tracer = __atomic_load_n(&polter_region_tracer, __ATOMIC_RELAXED);
    if (__builtin_expect(tracer != (polter_region_event)0, 0)) tracer(region, begins);
}

static inline __attribute__((unused)) void polter_region_begin(const char* name) {
    struct polter_region region = {name, (const char*)0, 0, 0};
    polter_region_tell(&region, 1);
}

static inline __attribute__((unused)) void polter_region_end(const char* name) {
    struct polter_region region = {name, (const char*)0, 0, 0};
    polter_region_tell(&region, 0);
}

static inline __attribute__((unused)) void polter_region_leave(struct polter_region** region) {
    polter_region_tell(*region, 0);
}

#ifdef __cplusplus
}
#endif

#define POLTER_REGION_TELL(text, begins)                                                \
    do {                                                                                \
        static struct polter_region polter_region_here = {text, __FILE__, __LINE__, 0}; \
        polter_region_tell(&polter_region_here, begins);                                \
    } while (0)
#define POLTER_REGION_BEGIN(text) POLTER_REGION_TELL(text, 1)
#define POLTER_REGION_END(text) POLTER_REGION_TELL(text, 0)

#define POLTER_REGION_JOIN_(a, b) a##b
#define POLTER_REGION_JOIN(a, b) POLTER_REGION_JOIN_(a, b)
#define POLTER_REGION_NAMED(text, place, scope)                        \
    static struct polter_region place = {text, __FILE__, __LINE__, 0}; \
    struct polter_region* scope __attribute__((unused, cleanup(polter_region_leave))) = (polter_region_tell(&place, 1), &place)
#define POLTER_REGION(text) \
    POLTER_REGION_NAMED(text, POLTER_REGION_JOIN(polter_region_place_, __LINE__), POLTER_REGION_JOIN(polter_region_scope_, __LINE__))

#endif
#endif
