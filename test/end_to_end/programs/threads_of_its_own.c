/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program that starts threads itself: threads_of_its_own CASE [ROUNDS WORK]. Each rank prints one line that is the same traced and
 * untraced.
 *
 * join: three threads at once, joined. turns: ROUNDS threads, one after the other, the work on CPU 1. detached: threads that nobody joins
 * and that outlive MPI_Finalize. cancelled: a thread that is cancelled while it sleeps, one by pthread_exit, and a join that is cancelled.
 * small: a stack of the least size. forked: a child of a thread starts a thread of its own, then another program. nested: a thread that
 * starts one. atexit: thread-specific data that is destroyed late calls MPI.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pinned_work.h"

static int rounds = 20, amount = 100000;
static volatile int finalized;
static pthread_key_t key;

static void* compute(void* sum) {
    *(uint64_t*)sum = work(amount);
    return sum;
}

static void* compute_there(void* sum) {
    pin(1);
    return compute(sum);
}

static void* nested(void* sum) {
    pthread_t inner;
    void* value = NULL;
    if (pthread_create(&inner, NULL, compute, sum)) return NULL;
    pthread_join(inner, &value);
    return value;
}

static void* outlive(void* unused) {
    (void)unused;
    while (!finalized) work(1000);
    work(amount);
    return NULL;
}

static void* sleeping(void* unused) {
    (void)unused;
    for (;;) usleep(1000);
    return NULL;
}

static void* leaving(void* sum) {
    work(amount);
    pthread_exit(sum);
}

static pthread_t endless;
static void* joining(void* unused) {
    (void)unused;
    pthread_join(endless, NULL);
    return NULL;
}

static void* forking(void* sum) {
    const pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        uint64_t own = 0;
        if (pthread_create(&thread, NULL, compute, &own) || pthread_join(thread, NULL) || !own) _exit(1);
        execlp("true", "true", (char*)NULL);
        _exit(2);
    }
    int status = -1;
    if (child > 0) waitpid(child, &status, 0);
    *(uint64_t*)sum = (uint64_t)status;
    return sum;
}

static void late(void* value) {
    int rank;
    (void)value;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
}

static void* with_data(void* sum) {
    pthread_setspecific(key, sum);
    return compute(sum);
}

static uint64_t start_and_join(void* (*function)(void*), const pthread_attr_t* attributes) {
    pthread_t thread;
    uint64_t sum = 0;
    void* value = NULL;
    if (pthread_create(&thread, attributes, function, &sum)) exit(3);
    if (pthread_join(thread, &value) || value != &sum) exit(4);
    return sum;
}

int main(int argc, char** argv) {
    const char* what = argc > 1 ? argv[1] : "join";
    if (argc > 2) rounds = atoi(argv[2]);
    if (argc > 3) amount = atoi(argv[3]);
    int provided;
    uint64_t sum = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (!strcmp(what, "join")) {
        pthread_t threads[3];
        uint64_t sums[3];
        for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, compute, &sums[i]);
        for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < 3; i++) sum += sums[i];
    } else if (!strcmp(what, "turns")) {
        pin(0);
        for (int i = 0; i < rounds; i++) sum += start_and_join(compute_there, NULL);
    } else if (!strcmp(what, "detached")) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_t thread;
        for (int i = 0; i < 3; i++) pthread_create(&thread, &attributes, outlive, NULL);
        usleep(20000);
    } else if (!strcmp(what, "cancelled")) {
        pthread_t joiner;
        void* value = NULL;
        sum = start_and_join(leaving, NULL);
        pthread_create(&endless, NULL, sleeping, NULL);
        pthread_create(&joiner, NULL, joining, NULL);
        usleep(20000);
        pthread_cancel(joiner);
        pthread_join(joiner, &value);
        sum += value == PTHREAD_CANCELED;
        pthread_cancel(endless);
        pthread_join(endless, &value);
        sum += value == PTHREAD_CANCELED;
    } else if (!strcmp(what, "small")) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
        sum = start_and_join(compute, &attributes);
    } else if (!strcmp(what, "forked")) {
        sum = start_and_join(forking, NULL);
    } else if (!strcmp(what, "nested")) {
        sum = start_and_join(nested, NULL);
    } else if (!strcmp(what, "atexit")) {
        pthread_key_create(&key, late);
        sum = start_and_join(with_data, NULL);
    } else {
        return 2;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    finalized = 1;
    if (!strcmp(what, "detached")) usleep(20000);
    printf("%s %llu\n", what, (unsigned long long)sum);
    return 0;
}
