/* SPDX-License-Identifier: BSD-3-Clause */
/* An MPI library with a limit: exchanges with the first 16 partners that a rank meets are as quick as the network, all others take 10 us
 * more. SMPI's ranks share globals, so what a rank has met lies in a table by rank. */
#include <mpi.h>
#include <simgrid/actor.h>

enum { RANKS = 64, QUICK = 16 };
static int met[RANKS][RANKS], count[RANKS];

int MPI_Sendrecv(const void* out, int n, MPI_Datatype type, int to, int tag, void* in, int m, MPI_Datatype of, int from, int got,
                 MPI_Comm comm, MPI_Status* status) {
    int rank;
    PMPI_Comm_rank(comm, &rank);
    if (!met[rank][to]) met[rank][to] = ++count[rank];
    if (met[rank][to] > QUICK) sg_actor_sleep_for(10e-6);
    return PMPI_Sendrecv(out, n, type, to, tag, in, m, of, from, got, comm, status);
}
