/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program with one kind of OpenMP's constructs, ten times over, for three threads. It prints the sum that it computed, and ends with
 * 1 where that is not the right one.
 *
 *     openmp_kinds nested|ordered|doacross|taskloop|aligned|copied|unsigned|reduction|detach|dynamic|teams|target
 *
 * taskloop, aligned, copied, unsigned, reduction: loops of six tasks; with data that is aligned to 64 bytes; with an array of variable
 * length for each; with an unsigned index and without a group; with a reduction. detach: six tasks whose events are fulfilled by one thread
 * after all have ended. dynamic: a dynamic loop with an unsigned index. teams: a region of three threads in each of two teams. target: the
 * same in a target region, which the host executes.
 */
#include <mpi.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TIMES = 10, ITERATIONS = 12, TASKS = 6, SUM_OF_ITERATIONS = ITERATIONS * (ITERATIONS - 1) / 2 };
static long sum;
static volatile unsigned long iterations = ITERATIONS; /* unknown to the compiler, which else takes a signed index */

static void add(long value) {
#pragma omp atomic
    sum += value;
}

static long nested(void) {
#pragma omp parallel num_threads(3)
#pragma omp parallel num_threads(2)
    add(1);
    return 3 * 2;
}

static long ordered(void) {
    long next = 0;
#pragma omp parallel for ordered schedule(dynamic, 1) num_threads(3)
    for (int i = 0; i < ITERATIONS; i++) {
#pragma omp ordered
        if (next++ == i) add(i);
    }
    return SUM_OF_ITERATIONS;
}

static long doacross(void) {
    long values[ITERATIONS + 1] = {0};
#pragma omp parallel for ordered(1) schedule(static, 1) num_threads(3)
    for (int i = 0; i < ITERATIONS; i++) {
#pragma omp ordered depend(sink : i - 1)
        values[i + 1] = values[i] + i;
#pragma omp ordered depend(source)
    }
    add(values[ITERATIONS]);
    return SUM_OF_ITERATIONS;
}

static long taskloop(void) {
    const long factor = 3;
#pragma omp parallel num_threads(3)
#pragma omp single
#pragma omp taskloop grainsize(2)
    for (int i = 0; i < ITERATIONS; i++) add(factor * i);
    return 3 * SUM_OF_ITERATIONS;
}

struct wide {
    _Alignas(64) long values[16];
};
static long aligned(void) {
    struct wide wide;
    for (int i = 0; i < 16; i++) wide.values[i] = 7;
#pragma omp parallel num_threads(3)
#pragma omp single
#pragma omp taskloop grainsize(2) firstprivate(wide)
    for (int i = 0; i < ITERATIONS; i++) {
        if ((uintptr_t)&wide % 64 != 0) add(1);
        add(i * wide.values[i]);
    }
    return 7 * SUM_OF_ITERATIONS;
}

static long copied(void) {
#ifdef __clang__ /* which has no such arrays there */
    long values[ITERATIONS];
#else
    long values[iterations];
#endif
    for (unsigned long i = 0; i < iterations; i++) values[i] = 7;
#pragma omp parallel num_threads(3)
#pragma omp single
#pragma omp taskloop grainsize(2) firstprivate(values)
    for (int i = 0; i < ITERATIONS; i++) {
        add(i * values[i]);
        values[i] = 0;
    }
    return 7 * SUM_OF_ITERATIONS;
}

static long without_sign(void) {
    const unsigned long first = iterations - ITERATIONS, last = iterations;
#pragma omp parallel num_threads(3)
#pragma omp single
#pragma omp taskloop grainsize(2) nogroup
    for (unsigned long i = first; i < last; i++) add((long)i);
    return SUM_OF_ITERATIONS;
}

static long reduction(void) {
    long all = 5;
#pragma omp parallel num_threads(3)
#pragma omp single
#pragma omp taskloop grainsize(2) reduction(+ : all)
    for (int i = 0; i < ITERATIONS; i++) all += i;
    add(all);
    return SUM_OF_ITERATIONS + 5;
}

static long detach(void) {
    omp_event_handle_t events[TASKS];
    atomic_int over = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    {
        for (int i = 0; i < TASKS; i++) {
            omp_event_handle_t event;
#pragma omp task detach(event) firstprivate(i) shared(events, over)
            {
                events[i] = event;
                add(i);
                over++;
            }
        }
#pragma omp task shared(events, over)
        {
            while (over < TASKS) {
#pragma omp taskyield
            }
            for (int i = 0; i < TASKS; i++) omp_fulfill_event(events[i]);
        }
    }
    return TASKS * (TASKS - 1) / 2;
}

static long dynamic(void) {
    const unsigned long first = iterations - ITERATIONS, last = iterations;
#pragma omp parallel num_threads(3)
#pragma omp for schedule(dynamic)
    for (unsigned long i = first; i < last; i++) add((long)i);
    return SUM_OF_ITERATIONS;
}

/* Some runtimes give a team fewer threads than are asked for. */
static long teams(void) {
    long threads = 0;
#pragma omp teams num_teams(2) thread_limit(3) shared(threads)
#pragma omp parallel num_threads(3) shared(threads)
    {
        add(1);
#pragma omp single
#pragma omp atomic
        threads += omp_get_num_threads();
    }
    return threads;
}

static long target(void) {
    long count = 0, threads = 0;
#pragma omp target teams num_teams(2) thread_limit(3) map(tofrom : count, threads)
#pragma omp parallel num_threads(3)
    {
#pragma omp atomic
        count++;
#pragma omp single
#pragma omp atomic
        threads += omp_get_num_threads();
    }
    add(count);
    return threads;
}

static const struct {
    const char* name;
    long (*run)(void);
} kinds[] = {{"nested", nested},   {"ordered", ordered}, {"doacross", doacross},     {"taskloop", taskloop},
             {"aligned", aligned}, {"copied", copied},   {"unsigned", without_sign}, {"reduction", reduction},
             {"detach", detach},   {"dynamic", dynamic}, {"teams", teams},           {"target", target}};

int main(int argc, char** argv) {
    int provided;
    long expected = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    omp_set_max_active_levels(2);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int i = 0; argc > 1 && strcmp(argv[1], kinds[k].name) == 0 && i < TIMES; i++) expected += kinds[k].run();
    printf("sum %ld of %ld\n", sum, expected);
    MPI_Finalize();
    return sum != expected || expected == 0;
}
