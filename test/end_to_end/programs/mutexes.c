/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program whose threads wait for each other by mutexes and condition variables: mutexes CASE [ROUNDS WORK]. Each rank prints one
 * line that is the same traced and untraced.
 *
 * mutex: in each round a thread on CPU 1 works while it has the mutex for which the main thread, on CPU 0, waits. condition: it works until
 * it signals the condition for which the main thread waits. kinds: what each kind of mutex and of wait returns. crowd: threads that meet at
 * barriers made of a mutex and a condition, and count under a mutex. free: a mutex that nobody else wants. mpi: threads that call MPI.
 * memory: threads that allocate.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pinned_work.h"

enum { THREADS = 4 };

static int rounds = 20, amount = 100000;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static _Atomic int begun, ended;
static int request, answer, come, turn, count;

static void await(_Atomic int* value, int least) {
    while (atomic_load(value) < least) sched_yield();
}

static void* works_in_mutex(void* sum) {
    pin(1);
    for (int round = 1; round <= rounds; round++) {
        pthread_mutex_lock(&mutex);
        atomic_store(&begun, round);
        *(uint64_t*)sum += work(amount);
        pthread_mutex_unlock(&mutex);
        await(&ended, round);
    }
    return sum;
}

static uint64_t by_mutex(void) {
    pthread_t thread;
    uint64_t sum = 0;
    pin(0);
    pthread_create(&thread, NULL, works_in_mutex, &sum);
    for (int round = 1; round <= rounds; round++) {
        await(&begun, round);
        pthread_mutex_lock(&mutex);
        sum += 1;
        pthread_mutex_unlock(&mutex);
        atomic_store(&ended, round);
    }
    pthread_join(thread, NULL);
    return sum;
}

static void* answers(void* sum) {
    pin(1);
    for (int round = 1; round <= rounds; round++) {
        pthread_mutex_lock(&mutex);
        while (request < round) pthread_cond_wait(&asked, &mutex);
        pthread_mutex_unlock(&mutex);
        *(uint64_t*)sum += work(amount);
        pthread_mutex_lock(&mutex);
        answer = round;
        pthread_cond_signal(&answered);
        pthread_mutex_unlock(&mutex);
    }
    return sum;
}

static uint64_t by_condition(void) {
    pthread_t thread;
    uint64_t sum = 0;
    pin(0);
    pthread_create(&thread, NULL, answers, &sum);
    for (int round = 1; round <= rounds; round++) {
        pthread_mutex_lock(&mutex);
        request = round;
        pthread_cond_signal(&asked);
        while (answer < round) pthread_cond_wait(&answered, &mutex);
        pthread_mutex_unlock(&mutex);
    }
    pthread_join(thread, NULL);
    return sum;
}

static void* in_crowd(void* unused) {
    (void)unused;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 100; i++) {
            pthread_mutex_lock(&mutex);
            count++;
            work(100);
            pthread_mutex_unlock(&mutex);
        }
        pthread_mutex_lock(&mutex);
        const int mine = turn;
        if (++come == THREADS) {
            come = 0;
            turn++;
            pthread_cond_broadcast(&answered);
        }
        while (turn == mine) pthread_cond_wait(&answered, &mutex);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void* allocates(void* unused) {
    (void)unused;
    for (int i = 0; i < 1000 * rounds; i++) {
        void* volatile memory = malloc(64);
        free(memory);
    }
    return NULL;
}

static void* calls_mpi(void* tag) {
    int got = 0;
    for (int round = 0; round < 10 * rounds; round++)
        MPI_Sendrecv(&round, 1, MPI_INT, 0, *(int*)tag, &got, 1, MPI_INT, 0, *(int*)tag, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    return NULL;
}

static int together(void* (*function)(void*)) {
    pthread_t threads[THREADS];
    int tags[THREADS];
    for (int i = 0; i < THREADS; i++) {
        tags[i] = i;
        pthread_create(&threads[i], NULL, function, &tags[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return count;
}

/* What another thread does with the mutex at hand. */
static pthread_mutex_t special;
static _Atomic int step;

static void* holds_it(void* twice) {
    pthread_mutex_lock(&special);
    if (twice) pthread_mutex_lock(&special);
    atomic_store(&step, 1);
    usleep(5000);
    if (twice) {
        pthread_mutex_unlock(&special); /* the main thread still waits */
        atomic_store(&step, 2);
        usleep(5000);
        atomic_store(&step, 3);
    }
    pthread_mutex_unlock(&special);
    return NULL;
}

static void* holds_it_until_told(void* unused) {
    (void)unused;
    pthread_mutex_lock(&special);
    atomic_store(&step, 1);
    await(&step, 2);
    pthread_mutex_unlock(&special);
    return NULL;
}

static void* dies_with_it(void* unused) {
    (void)unused;
    pthread_mutex_lock(&special);
    atomic_store(&step, 1);
    usleep(5000);
    return NULL;
}

static void unlock(void* result) {
    *(int*)result = pthread_mutex_unlock(&special); /* the thread has it again when it is cancelled */
}

static void* waits_for_ever(void* result) {
    pthread_mutex_lock(&special);
    pthread_cleanup_push(unlock, result);
    atomic_store(&step, 1);
    for (;;) pthread_cond_wait(&answered, &special);
    pthread_cleanup_pop(0);
    return NULL;
}

static struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += ms * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static pthread_t begin(void* (*function)(void*), void* argument) {
    pthread_t thread;
    atomic_store(&step, 0);
    pthread_create(&thread, NULL, function, argument);
    await(&step, 1);
    return thread;
}

static void make(int kind, int robust, int protocol) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, kind);
    pthread_mutexattr_setrobust(&attributes, robust);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    pthread_mutex_init(&special, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static char line[1024];
static void say(const char* name, int result) {
    const size_t at = strlen(line);
    snprintf(line + at, sizeof line - at, " %s=%d", name, result);
}

static void kinds(void) {
    struct timespec time;
    pthread_t thread;
    errno = 77;
    make(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    thread = begin(holds_it, NULL);
    say("not-owner", pthread_mutex_unlock(&special));
    say("contended", pthread_mutex_lock(&special));
    say("twice", pthread_mutex_lock(&special));
    say("unlock", pthread_mutex_unlock(&special));
    say("unlocked", pthread_mutex_unlock(&special));
    pthread_join(thread, NULL);
    pthread_mutex_destroy(&special);

    make(PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    thread = begin(holds_it, &step);
    say("recursive", pthread_mutex_lock(&special));
    say("step", atomic_load(&step)); /* it was not had before the outer unlock */
    say("again", pthread_mutex_lock(&special));
    say("inner", pthread_mutex_unlock(&special));
    say("outer", pthread_mutex_unlock(&special));
    pthread_join(thread, NULL);
    pthread_mutex_destroy(&special);

    for (int protocol = 0; protocol < 2; protocol++) {
        make(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, protocol ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
        thread = begin(dies_with_it, NULL);
        say("owner-dead", pthread_mutex_lock(&special));
        say("consistent", pthread_mutex_consistent(&special));
        say("unlock", pthread_mutex_unlock(&special));
        pthread_join(thread, NULL);
        thread = begin(dies_with_it, NULL);
        pthread_join(thread, NULL);
        say("owner-dead", pthread_mutex_lock(&special));
        say("unlock", pthread_mutex_unlock(&special));
        say("lost", pthread_mutex_lock(&special));
        pthread_mutex_destroy(&special);
    }

    make(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    thread = begin(holds_it_until_told, NULL);
    time = in_ms(CLOCK_REALTIME, 1);
    say("timed", pthread_mutex_timedlock(&special, &time));
    atomic_store(&step, 2);
    time = in_ms(CLOCK_REALTIME, 10000);
    say("timed", pthread_mutex_timedlock(&special, &time));
    say("try", pthread_mutex_trylock(&special));
    say("wait", (time = in_ms(CLOCK_REALTIME, 1), pthread_cond_timedwait(&answered, &special, &time)));
    time.tv_nsec = -1;
    say("wrong", pthread_cond_timedwait(&answered, &special, &time));
    say("unlock", pthread_mutex_unlock(&special));
    pthread_join(thread, NULL);
#if __GLIBC_PREREQ(2, 30)
    thread = begin(holds_it_until_told, NULL);
    time = in_ms(CLOCK_MONOTONIC, 1);
    say("clock", pthread_mutex_clocklock(&special, CLOCK_MONOTONIC, &time));
    atomic_store(&step, 2);
    time = in_ms(CLOCK_MONOTONIC, 10000);
    say("clock", pthread_mutex_clocklock(&special, CLOCK_MONOTONIC, &time));
    say("wait", (time = in_ms(CLOCK_MONOTONIC, 1), pthread_cond_clockwait(&answered, &special, CLOCK_MONOTONIC, &time)));
    say("unlock", pthread_mutex_unlock(&special));
    pthread_join(thread, NULL);
#endif
    int result = -1;
    void* value = NULL;
    thread = begin(waits_for_ever, &result);
    usleep(5000);
    say("signal", pthread_cond_signal(&answered)); /* it wakes, and waits again */
    usleep(5000);
    pthread_cancel(thread);
    pthread_join(thread, &value);
    say("cancelled", value == PTHREAD_CANCELED);
    say("had-it", result);
    say("free", pthread_mutex_trylock(&special));
    say("unlock", pthread_mutex_unlock(&special));
    say("errno", errno);
}

int main(int argc, char** argv) {
    const char* what = argc > 1 ? argv[1] : "kinds";
    if (argc > 2) rounds = atoi(argv[2]);
    if (argc > 3) amount = atoi(argv[3]);
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (!strcmp(what, "mutex")) {
        say("sum", (int)(by_mutex() & 0xFFFF));
    } else if (!strcmp(what, "condition")) {
        say("sum", (int)(by_condition() & 0xFFFF));
    } else if (!strcmp(what, "kinds")) {
        kinds();
    } else if (!strcmp(what, "crowd")) {
        say("count", together(in_crowd));
    } else if (!strcmp(what, "mpi")) {
        say("multiple", provided == MPI_THREAD_MULTIPLE);
        if (provided == MPI_THREAD_MULTIPLE) together(calls_mpi);
    } else if (!strcmp(what, "memory")) {
        together(allocates);
    } else if (!strcmp(what, "free")) {
        for (int i = 0; i < amount; i++) {
            pthread_mutex_lock(&mutex);
            pthread_mutex_unlock(&mutex);
            pthread_cond_signal(&answered);
        }
    } else {
        return 2;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    printf("%s%s\n", what, line);
    return 0;
}
