/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread ends inside of MPI: cancel CASE. What the MPI itself survives is seen untraced. */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank;
static MPI_Comm comm;
static atomic_int inside;

static void leave_thread(MPI_Comm* on, int* code, ...) {
    (void)on, (void)code;
    pthread_exit(NULL);
}

static void cancelled_here(MPI_Comm* on, int* code, ...) {
    (void)on, (void)code;
    pthread_cancel(pthread_self());
    pthread_testcancel();
}

/* Through the error handler, so that no lock of the MPI's is held. */
static void* failing(void* unused) {
    (void)unused;
    int data = 0;
    MPI_Send(&data, 1, MPI_INT, 1 << 20, 1, comm);
    return &inside; /* never */
}

static void* receiving(void* unused) {
    (void)unused;
    int data;
    inside = 1;
    MPI_Recv(&data, 1, MPI_INT, rank, 1, comm, MPI_STATUS_IGNORE); /* nobody sends */
    return &inside;
}

static void* probing(void* unused) {
    (void)unused;
    inside = 1;
    for (;;) {
        int found;
        MPI_Iprobe(rank, 1, comm, &found, MPI_STATUS_IGNORE);
        pthread_testcancel();
    }
    return NULL;
}

int main(int argc, char** argv) {
    const char* what = argc > 1 ? argv[1] : "";
    int level, sum = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level != MPI_THREAD_MULTIPLE) return 77;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    const int by_handler = !strcmp(what, "exit") || !strcmp(what, "self");
    if (by_handler) {
        MPI_Errhandler handler;
        MPI_Comm_create_errhandler(!strcmp(what, "exit") ? leave_thread : cancelled_here, &handler);
        MPI_Comm_set_errhandler(comm, handler);
    }
    for (int i = 0; i < (by_handler ? 100 : 1); i++) {
        pthread_t thread;
        void* end = NULL;
        inside = 0;
        if (pthread_create(&thread, NULL, by_handler ? failing : !strcmp(what, "receive") ? receiving : probing, NULL)) return 2;
        if (!by_handler) {
            while (!inside) usleep(100);
            pthread_cancel(thread);
        }
        pthread_join(thread, &end);
        if (end == &inside) return 3;
    }
    printf("ended inside\n");
    fflush(stdout);
    if (!strcmp(what, "receive")) _exit(0); /* the MPI may have kept its locks */
    for (int i = 0; i < 1000; i++) MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
