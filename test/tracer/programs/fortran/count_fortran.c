/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The count of count.c for Fortran programs: what their calls come to in C, after the MPI itself has made C's arguments of Fortran's. Open
 * MPI's Fortran bindings, and parts of MPICH's, call the PMPI_ names; so both names of each function are counted here, and the real
 * one is the next definition of the PMPI_ name. A call that passes both is counted once.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>

static void* next(const char* name);
#define NEXT(name) \
    ({ static void* next_##name; if (!next_##name) next_##name = next("PMPI_" #name); (__typeof__(&PMPI_##name))next_##name; })

#include "../count.c"

static void* next(const char* name) {
    void* function = dlsym(RTLD_NEXT, name);
    if (!function) {
        fprintf(stderr, "count: no %s\n", name);
        abort();
    }
    return function;
}

#define BOTH(name) extern __typeof__(PMPI_##name) PMPI_##name __attribute__((alias("MPI_" #name)));
BOTH(Accumulate) BOTH(Allgather) BOTH(Allgatherv) BOTH(Allreduce) BOTH(Alltoall) BOTH(Alltoallv) BOTH(Alltoallw)
BOTH(Barrier) BOTH(Bcast) BOTH(Bsend) BOTH(Bsend_init) BOTH(Cart_create) BOTH(Cart_sub) BOTH(Comm_create)
BOTH(Comm_create_group) BOTH(Comm_disconnect) BOTH(Comm_dup) BOTH(Comm_dup_with_info) BOTH(Comm_free) BOTH(Comm_idup)
BOTH(Comm_split) BOTH(Comm_split_type) BOTH(Compare_and_swap) BOTH(Dist_graph_create) BOTH(Dist_graph_create_adjacent) BOTH(Exscan)
BOTH(File_close) BOTH(File_open) BOTH(File_set_size) BOTH(File_sync) BOTH(File_write_at_all) BOTH(Fetch_and_op) BOTH(Finalize)
BOTH(Gather) BOTH(Gatherv) BOTH(Get) BOTH(Get_accumulate) BOTH(Graph_create) BOTH(Iallgather) BOTH(Iallgatherv) BOTH(Iallreduce)
BOTH(Ialltoall) BOTH(Ialltoallv) BOTH(Ialltoallw) BOTH(Ibarrier) BOTH(Ibcast) BOTH(Ibsend) BOTH(Iexscan) BOTH(Igather)
BOTH(Igatherv) BOTH(Imrecv) BOTH(Intercomm_create) BOTH(Intercomm_merge) BOTH(Irecv) BOTH(Ireduce)
BOTH(Ireduce_scatter) BOTH(Ireduce_scatter_block) BOTH(Irsend) BOTH(Iscan) BOTH(Iscatter) BOTH(Iscatterv) BOTH(Isend)
BOTH(Issend) BOTH(Mrecv) BOTH(Neighbor_allgather) BOTH(Neighbor_alltoall) BOTH(Put) BOTH(Raccumulate) BOTH(Rget) BOTH(Rget_accumulate) BOTH(Rput) BOTH(Recv) BOTH(Recv_init) BOTH(Reduce) BOTH(Reduce_scatter)
BOTH(Reduce_scatter_block) BOTH(Request_free) BOTH(Rsend) BOTH(Rsend_init) BOTH(Scan) BOTH(Scatter) BOTH(Scatterv)
BOTH(Send) BOTH(Send_init) BOTH(Sendrecv) BOTH(Sendrecv_replace) BOTH(Ssend) BOTH(Ssend_init) BOTH(Start)
BOTH(Startall) BOTH(Test) BOTH(Testall) BOTH(Testany) BOTH(Testsome) BOTH(Wait) BOTH(Waitall) BOTH(Waitany)
BOTH(Waitsome) BOTH(Win_allocate) BOTH(Win_allocate_shared) BOTH(Win_complete) BOTH(Win_create)
BOTH(Win_create_dynamic) BOTH(Win_fence) BOTH(Win_free) BOTH(Win_lock) BOTH(Win_lock_all) BOTH(Win_post)
BOTH(Win_start) BOTH(Win_test) BOTH(Win_unlock) BOTH(Win_unlock_all) BOTH(Win_wait)
#if MPI_VERSION >= 4
BOTH(Allreduce_init) BOTH(Isendrecv)
#endif
