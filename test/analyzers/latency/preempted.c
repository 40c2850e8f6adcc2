/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 1 is preempted for 100 us every 10 ms of simulated time: 1 %. */
#include <mpi.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>

int MPI_Sendrecv(const void* out, int n, MPI_Datatype type, int to, int tag, void* in, int m, MPI_Datatype of, int from, int got,
                 MPI_Comm comm, MPI_Status* status) {
    static double next = 10e-3; /* of rank 1 alone: SMPI's ranks share globals */
    int rank;
    PMPI_Comm_rank(comm, &rank);
    if (rank == 1 && simgrid_get_clock() >= next) {
        while (next <= simgrid_get_clock()) next += 10e-3;
        sg_actor_sleep_for(100e-6);
    }
    return PMPI_Sendrecv(out, n, type, to, tag, in, m, of, from, got, comm, status);
}
