/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI calls from places that the test knows: a call's line ends with "line: NAME". call_sites [PLUGIN…]: each is loaded, called and unloaded.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static double data, sum;

static inline __attribute__((always_inline)) void inlined(void) {
    MPI_Allreduce(&data, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* line: inlined */
    data += sum;
}

__attribute__((noinline)) static void exchange(int rank) {
    MPI_Send(&data, 1, MPI_DOUBLE, rank, 1, MPI_COMM_SELF == MPI_COMM_NULL ? MPI_COMM_SELF : MPI_COMM_WORLD); /* line: exchange */
    data += 1;
}

static void* in_thread(void* nothing) {
    int flag;
    MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE); /* line: in_thread */
    data += flag;
    return nothing;
}

static int plugin(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void (*call)(void) = NULL;
    if (library) *(void**)&call = dlsym(library, "plugin_call");
    if (!call) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    call();
    return dlclose(library) != 0;
}

int main(int argc, char** argv) {
    int provided, failed = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided); /* line: init */
    for (int i = 0; i < 20; i++) {
        inlined();
        exchange(MPI_PROC_NULL);
        if (i % 3 == 0) MPI_Barrier(MPI_COMM_WORLD); /* line: barrier */
        exchange(MPI_PROC_NULL);
    }
    for (int i = 1; i < argc; i++) failed |= plugin(argv[i]);
    if (provided == MPI_THREAD_MULTIPLE) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_join(thread, NULL);
    }
    MPI_Finalize(); /* line: finalize */
    return failed;
}
