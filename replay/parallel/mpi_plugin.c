/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi_plugin.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request must fit into what polter keeps of it");

static MPI_Comm comm;
static const int tag = 1;

/* Open MPI looks for fast networks first, which takes 0.2 s: ten times as long as the rest of MPI_Init. On one host there is none to use.
 */
static void look_for_no_network(void) {
    const char *size = getenv("OMPI_COMM_WORLD_SIZE"), *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (size && here && strcmp(size, here) == 0) setenv("OMPI_MCA_pml", "ob1", 0);
}

static int start(int* rank, int* size) {
    look_for_no_network();
    int error = MPI_Init(NULL, NULL);
    if (error == MPI_SUCCESS) error = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (error == MPI_SUCCESS) error = MPI_Comm_rank(comm, rank);
    if (error == MPI_SUCCESS) error = MPI_Comm_size(comm, size);
    return error;
}

static int send_(int to, const void* bytes, int count, uint64_t* request) {
    MPI_Request begun;
    const int error = MPI_Isend(bytes, count, MPI_BYTE, to, tag, comm, &begun);
    memcpy(request, &begun, sizeof begun);
    return error;
}

static int sent(uint64_t* request, int* done) {
    MPI_Request begun;
    memcpy(&begun, request, sizeof begun);
    const int error = MPI_Test(&begun, done, MPI_STATUS_IGNORE);
    memcpy(request, &begun, sizeof begun);
    return error;
}

static int probe(int* from, int* count) {
    MPI_Status status;
    int there = 0;
    int error = MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &there, &status);
    *count = -1;
    if (error != MPI_SUCCESS || !there) return error;
    *from = status.MPI_SOURCE;
    return MPI_Get_count(&status, MPI_BYTE, count);
}

static int receive(int from, void* bytes, int count) {
    return MPI_Recv(bytes, count, MPI_BYTE, from, tag, comm, MPI_STATUS_IGNORE);
}

static int finish(void) {
    MPI_Comm_free(&comm);
    return MPI_Finalize();
}

static void abort_(int code) {
    MPI_Abort(comm, code);
}

__attribute__((visibility("default"))) const struct polter_group_mpi polter_group_mpi = {start, send_, sent, probe, receive, finish, abort_};
