/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many short MPI calls: each rank sends COUNT empty messages to itself. Then it writes to FOLDER/<rank> how often the thread read a file
 * in those calls, as the kernel counts it; -1 where it does not.
 *
 *     messages COUNT FOLDER
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static long long file_reads(void) {
    char line[128];
    long long reads = -1;
    FILE* io = fopen("/proc/thread-self/io", "r");
    if (!io) return -1;
    while (fgets(line, sizeof line, io)) {
        if (sscanf(line, "syscr: %lld", &reads) == 1) break;
    }
    fclose(io);
    return reads;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 3) MPI_Abort(MPI_COMM_WORLD, 2);
    const long long before = file_reads();
    for (long left = atol(argv[1]); left > 0; left--) {
        MPI_Request requests[2];
        MPI_Irecv(NULL, 0, MPI_CHAR, 0, 0, MPI_COMM_SELF, &requests[0]);
        MPI_Isend(NULL, 0, MPI_CHAR, 0, 0, MPI_COMM_SELF, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    const long long after = file_reads();
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", argv[2], rank);
    FILE* file = fopen(path, "w");
    if (file) {
        fprintf(file, "%lld\n", before < 0 || after < 0 ? -1 : after - before);
        fclose(file);
    }
    MPI_Finalize();
    return 0;
}
