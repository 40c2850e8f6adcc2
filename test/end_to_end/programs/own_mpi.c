/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that has an MPI of its own in it, as one that was linked with libmpich.a has: nothing preloaded comes before that. */
#include <stdio.h>

int MPI_Init(int* argc, char*** argv);
int MPI_Init(int* argc, char*** argv) {
    return argc && argv ? 0 : 1;
}

int main(int argc, char** argv) {
    if (MPI_Init(&argc, &argv) != 0) return 1;
    puts("with its own");
    return 0;
}
