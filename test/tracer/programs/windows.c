/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided communication and files: every way to make a window, fences, post/start/complete/wait and test, locks, freed and made again, so
 * that handles come back; windows that fail, that are freed after their communicator, that nobody else shares; collectives of files. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rank, size;

static MPI_Group neighbours(void) {
    MPI_Group world, group;
    int ranks[2] = {(rank + 1) % size, (rank + size - 1) % size};
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, size > 2 ? 2 : 1, ranks, &group);
    MPI_Group_free(&world);
    return group;
}

static void use(MPI_Win win, int* data) {
    const int next = (rank + 1) % size;
    int own = rank;
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    MPI_Put(&own, 1, MPI_INT, next, 0, 1, MPI_INT, win);
    MPI_Put(&own, 1, MPI_INT, next, 1, 1, MPI_INT, win);
    MPI_Put(&own, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    MPI_Accumulate(&own, 1, MPI_INT, next, 0, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    (void)data;
}

static void general(MPI_Win win) {
    MPI_Group group = neighbours(), none = MPI_GROUP_EMPTY;
    int own = rank, done = 0;
    MPI_Win_post(group, 0, win);
    MPI_Win_start(group, 0, win);
    MPI_Put(&own, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    MPI_Win_post(group, 0, win);
    MPI_Win_start(group, 0, win);
    MPI_Win_complete(win);
    while (!done) MPI_Win_test(win, &done);
    /* Only the even ones offer, only to the one below; nobody else has anybody to wait for. */
    MPI_Group world, below;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, (int[]){1}, &below);
    MPI_Win_post(rank == 0 ? below : none, 0, win);
    MPI_Group_free(&below);
    MPI_Group_incl(world, 1, (int[]){0}, &below);
    MPI_Win_start(rank == 1 ? below : none, 0, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    MPI_Group_free(&below);
    MPI_Group_free(&world);
    MPI_Group_free(&group);
}

static void locks(MPI_Win win) {
    const int next = (rank + 1) % size;
    int own = rank, got = 0;
    for (int i = 0; i < 3; i++) {
        MPI_Win_lock(i == 0 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, next, 0, win);
        MPI_Put(&own, 1, MPI_INT, next, 0, 1, MPI_INT, win);
        MPI_Win_flush(next, win);
        MPI_Get(&got, 1, MPI_INT, next, 0, 1, MPI_INT, win);
        MPI_Win_unlock(next, win);
    }
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < size; i++) MPI_Get(&got, 1, MPI_INT, i, 0, 1, MPI_INT, win);
    MPI_Win_flush_all(win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Operations with requests, in all that completes one; and those that bring something back. */
static void requests(MPI_Win win) {
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    int own[2] = {rank, rank}, got[2], done = 0, index, nobody = 7;
    MPI_Request all[5];
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 3; i++) {
        MPI_Rput(own, 2, MPI_INT, next, 0, 2, MPI_INT, win, &all[0]);
        MPI_Wait(&all[0], MPI_STATUS_IGNORE);
        MPI_Rput(own, 1, MPI_INT, next, 0, 1, MPI_INT, win, &all[0]);
        MPI_Raccumulate(own, 1, MPI_INT, next, 4, 1, MPI_INT, MPI_SUM, win, &all[1]);
        MPI_Rget_accumulate(own, 1, MPI_INT, got, 1, MPI_INT, before, 4, 1, MPI_INT, MPI_SUM, win, &all[2]);
        MPI_Rput(own, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &all[3]);
        MPI_Irecv(&nobody, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &all[4]);
        MPI_Waitall(5, all, MPI_STATUSES_IGNORE);
        MPI_Rget(got, 2, MPI_INT, next, 0, 2, MPI_INT, win, &all[0]);
        for (done = 0; !done;) MPI_Test(&all[0], &done, MPI_STATUS_IGNORE);
        all[1] = MPI_REQUEST_NULL;
        MPI_Rget(got, 2, MPI_INT, next, 0, 2, MPI_INT, win, &all[0]);
        MPI_Waitany(2, all, &index, MPI_STATUS_IGNORE);
    }
    MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, got, 2, MPI_INT, next, 0, 2, MPI_INT, MPI_NO_OP, win);
    MPI_Fetch_and_op(own, got, MPI_INT, next, 4, MPI_SUM, win);
    MPI_Compare_and_swap(own, own, got, MPI_INT, next, 5, win);
    MPI_Fetch_and_op(own, got, MPI_INT, MPI_PROC_NULL, 4, MPI_SUM, win);
    MPI_Win_flush(next, win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void neighbourhoods(void) {
    MPI_Comm ring, line, graph, none;
    int own = rank, got[4] = {0}, dims[1] = {size}, periodic[1] = {1}, open[1] = {0};
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periodic, 0, &ring);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, open, 0, &line);
    /* To the next, twice; from the one before. */
    const int before = (rank + size - 1) % size, next = (rank + 1) % size, twice[2] = {next, next}, from[2] = {before, before};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, from, MPI_UNWEIGHTED, 2, twice, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &none);
    int out[2] = {rank, rank};
    for (int i = 0; i < 3; i++) {
        MPI_Neighbor_allgather(&own, 1, MPI_INT, got, 1, MPI_INT, ring);
        MPI_Neighbor_allgather(&own, 1, MPI_INT, got, 1, MPI_INT, line);
        MPI_Neighbor_alltoall(out, 1, MPI_INT, got, 1, MPI_INT, graph);
        MPI_Neighbor_alltoall(out, 1, MPI_INT, got, 1, MPI_INT, none);
    }
    MPI_Comm_free(&ring);
    MPI_Comm_free(&line);
    MPI_Comm_free(&graph);
    MPI_Comm_free(&none);
}

static void files(void) {
    char name[64] = "";
    if (rank == 0) snprintf(name, sizeof name, "/tmp/polter-windows-%d", (int)getpid());
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_File file;
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_set_size(file, 4096);
    MPI_File_write_at_all(file, rank * 4, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write_at(file, rank * 4, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_File_close(&file);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_File_open(MPI_COMM_WORLD, "/proc/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
}

int main(int argc, char** argv) {
    static int memory[4096];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < 2; round++) {
        MPI_Win created, allocated, dynamic, shared, late, alone;
        int *own = NULL, *with_all = NULL;
        MPI_Comm node, copy;
        MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &created);
        MPI_Win_set_name(created, "halo");
        MPI_Win_allocate(4096, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &own, &allocated);
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
        MPI_Win_allocate_shared(4096, sizeof(int), MPI_INFO_NULL, node, &with_all, &shared);
        /* Where an MPI has no transport for a process alone, this is a creation that fails. */
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        const int have_alone = MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &alone) == MPI_SUCCESS;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, copy, &late);
        MPI_Comm_free(&copy);
        use(created, memory);
        use(late, memory);
        use(allocated, own);
        general(allocated);
        locks(allocated);
        requests(allocated);
        if (have_alone) MPI_Win_fence(0, alone);
        MPI_Win_fence(0, dynamic);
        MPI_Win_free(&dynamic);
        MPI_Win_free(&shared);
        MPI_Win_free(&allocated);
        MPI_Win_free(&created);
        if (have_alone) MPI_Win_free(&alone);
        MPI_Win_free(&late);
        MPI_Comm_free(&node);
    }
    neighbourhoods();
    files();
    MPI_Finalize();
    return 0;
}
