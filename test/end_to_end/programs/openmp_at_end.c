/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program whose threads are in OpenMP's runtime when MPI_Finalize comes, and behind it. It prints "done".
 *
 *     openmp_at_end within|beside|after|stuck
 *
 * within: the master calls MPI_Finalize in a parallel region whose other threads have critical sections, locks, tasks and regions of their
 * own all the time. beside: a thread of the program begins regions, and has barriers, all the time, while the main thread calls it.
 * after: regions before and behind it. stuck: a thread of the program is held for two seconds while it writes an event, as MPI_Finalize
 * comes.
 */
#define _GNU_SOURCE
#include <link.h>
#include <mpi.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static atomic_int begun, over, held;
static atomic_long sum;
static omp_lock_t lock;

static void pause_for(int milliseconds) {
    const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000l};
    nanosleep(&time, NULL);
}

static void use_runtime(void) {
#pragma omp critical
    sum++;
    omp_set_lock(&lock);
    sum++;
    omp_unset_lock(&lock);
#pragma omp task
    sum++;
#pragma omp taskwait
#pragma omp parallel num_threads(2)
    sum++;
}

static void within(void) {
#pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 0) {
            while (begun < 2) pause_for(1);
            pause_for(20);
            MPI_Finalize();
            pause_for(20);
            over = 1;
        } else {
            begun++;
            do use_runtime();
            while (!over);
        }
#pragma omp barrier
        use_runtime();
    }
}

static void* regions(void* unused) {
    begun++;
    while (!over) {
#pragma omp parallel num_threads(3)
        {
            sum++;
#pragma omp barrier
            use_runtime();
        }
    }
    return unused;
}

/* Where OTF2's library is. The handler must not ask the dynamic loader: the thread that it interrupts may hold, or be waiting for, its
 * lock. */
static uintptr_t writer_begin, writer_end;

static int find_writer(struct dl_phdr_info* object, size_t size, void* unused) {
    (void)size, (void)unused;
    if (!strstr(object->dlpi_name, "open-trace-format2")) return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr)* part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        writer_begin = object->dlpi_addr + part->p_vaddr;
        writer_end = writer_begin + part->p_memsz;
    }
    return 1;
}

/* In the middle of a record. */
static void hold(int number, siginfo_t* info, void* context) {
    (void)number, (void)info;
    const uintptr_t at = (uintptr_t)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
    if (held || at < writer_begin || at >= writer_end) return;
    held = 1;
    pause_for(2000);
}

static void* locks(void* unused) {
#pragma omp parallel num_threads(1)
    {
        begun++;
        while (!over) use_runtime();
    }
    return unused;
}

static void with_thread(void* (*function)(void*), int is_held) {
    pthread_t thread;
    pthread_create(&thread, NULL, function, NULL);
    while (!begun) pause_for(1);
    pause_for(20);
    /* On a busy machine most signals find it where it waits for a processor: up to a quarter of a minute. */
    for (int i = 0; is_held && !held && i < 100000; i++) {
        pthread_kill(thread, SIGUSR1);
        const struct timespec time = {0, 100000 + i % 100 * 1000};
        nanosleep(&time, NULL);
    }
    MPI_Finalize();
    pause_for(is_held ? 1500 : 20);
    over = 1;
    pthread_join(thread, NULL);
}

int main(int argc, char** argv) {
    const char* kind = argc > 1 ? argv[1] : "within";
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    omp_init_lock(&lock);
    omp_set_max_active_levels(2);
    if (strcmp(kind, "within") == 0) {
        within();
    } else if (strcmp(kind, "after") == 0) {
        over = 1;
        for (int i = 0; i < 5; i++) {
#pragma omp parallel num_threads(2)
            use_runtime();
        }
        MPI_Finalize();
        for (int i = 0; i < 5; i++) {
#pragma omp parallel num_threads(2)
            use_runtime();
        }
    } else {
        const struct sigaction action = {.sa_sigaction = hold, .sa_flags = SA_SIGINFO | SA_RESTART};
        const int is_held = strcmp(kind, "stuck") == 0;
        dl_iterate_phdr(find_writer, NULL);
        sigaction(SIGUSR1, &action, NULL);
        with_thread(is_held ? locks : regions, is_held);
    }
    puts(held || strcmp(kind, "stuck") != 0 ? "done" : "never held");
    return 0;
}
