/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works, and reads and writes a file of its own in each round, by POSIX and by MPI-IO.
 *
 *     files FOLDER ROUNDS
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile double sink;

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char name[4096], data[4096] = {0};
    snprintf(name, sizeof name, "%s/posix.%d", argc > 2 ? argv[1] : ".", rank);
    const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    snprintf(name, sizeof name, "%s/mpi.%d", argc > 2 ? argv[1] : ".", rank);
    MPI_File file;
    if (fd < 0 || MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    int failed = 0;
    const int rounds = argc > 2 ? atoi(argv[2]) : 10;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 200000; i++) sink = sink * 0.999 + 1;
        failed |= pwrite(fd, data, sizeof data, 0) != sizeof data || pread(fd, data, sizeof data, 0) != sizeof data;
        failed |= MPI_File_write_at(file, 0, data, sizeof data, MPI_CHAR, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    close(fd);
    MPI_File_close(&file);
    MPI_Finalize();
    return failed;
}
