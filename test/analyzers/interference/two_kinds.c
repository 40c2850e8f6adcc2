/* SPDX-License-Identifier: BSD-3-Clause */
/* Two kinds of segments in turn that call the same MPI functions and differ in the memory that they touch for the first time. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <sys/mman.h>

static void touch(size_t pages) {
    char* memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    madvise(memory, pages * 4096, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < pages; i++) *(volatile char*)(memory + i * 4096) = 1;
    munmap(memory, pages * 4096);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 41; i++) {
        touch(i % 2 ? 300 : 900);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
