/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiled more than once, with another NAME each time: the same addresses, other functions. */
#include <mpi.h>

static __attribute__((noinline)) void NAME(void) {
    static double data;
    MPI_Bcast(&data, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD); /* line: plugin */
    data += 1;
}

void plugin_call(void);
void plugin_call(void) {
    NAME();
    __asm__ volatile("");
}
