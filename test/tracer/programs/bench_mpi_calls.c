/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call takes: Send to nobody, Irecv + Send + Wait to oneself, ping-pong and Allreduce of 8 bytes between ranks. Rank 0 prints one
 * JSON line a case: the median over the repetitions, in nanoseconds a call. Run it with and without the tracer, interleaved. The first case
 * is the floor of what tracing a call adds: two readings of the processor's time-stamp counter, the second one after all that was before.
 *
 *     bench_mpi_calls [ROUNDS]     a repetition
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPETITIONS = 21 };
static int rank, size, rounds = 20000;
static double data, result;

#if defined(__x86_64__)
static volatile unsigned long long ticks;
static void two_clock_readings(void) {
    ticks = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    ticks = __builtin_ia32_rdtsc();
}
#endif
static void send_to_nobody(void) {
    MPI_Send(&data, 1, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
}
static void to_oneself(void) {
    MPI_Request request;
    MPI_Irecv(&result, 1, MPI_DOUBLE, rank, 1, MPI_COMM_WORLD, &request);
    MPI_Send(&data, 1, MPI_DOUBLE, rank, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void ping_pong(void) {
    if (rank == 0) {
        MPI_Send(&data, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(&result, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(&result, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&data, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
    }
}
static void allreduce(void) {
    MPI_Allreduce(&data, &result, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static int ascending(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return x < y ? -1 : x > y;
}

static void measure(const char* name, void (*round)(void), int calls_a_round) {
    double times[REPETITIONS];
    for (int i = 0; i < rounds / 10; i++) round();
    for (int r = 0; r < REPETITIONS; r++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        for (int i = 0; i < rounds; i++) round();
        times[r] = (MPI_Wtime() - start) / rounds / calls_a_round * 1e9;
    }
    qsort(times, REPETITIONS, sizeof *times, ascending);
    if (rank == 0)
        printf("{\"case\": \"%s\", \"ns_per_call\": %.1f, \"least\": %.1f, \"ranks\": %d}\n", name, times[REPETITIONS / 2], times[0], size);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    if (argc > 1 && atoi(argv[1]) > 0) rounds = atoi(argv[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
#if defined(__x86_64__)
    measure("two_clock_readings", two_clock_readings, 1);
#endif
    measure("send_to_nobody", send_to_nobody, 1);
    measure("irecv_send_wait_to_oneself", to_oneself, 3);
    if (size > 1) measure("ping_pong_8", ping_pong, 2);
    measure("allreduce_8", allreduce, 1);
    MPI_Finalize();
    return 0;
}
