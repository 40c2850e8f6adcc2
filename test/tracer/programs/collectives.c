/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective, blocking and not, with each root, with and without MPI_IN_PLACE, with unequal counts; the same between two groups. */
#include <mpi.h>
#include <stdlib.h>

enum { MOST = 64 };
static int out[MOST * MOST], in[MOST * MOST];
static int counts[MOST], mine[MOST], steps[MOST], byte_steps[MOST];
static MPI_Datatype types[MOST];

/* Both forms of an operation: blocking, then with a request. */
#define BOTH(Name, Iname, ...)                 \
    do {                                       \
        MPI_Request request;                   \
        MPI_##Name(__VA_ARGS__);               \
        MPI_##Iname(__VA_ARGS__, &request);    \
        MPI_Wait(&request, MPI_STATUS_IGNORE); \
    } while (0)

/* `root` as this rank has to name it. */
static void rooted(MPI_Comm comm, int root, int own_count) {
    BOTH(Bcast, Ibcast, out, 5, MPI_INT, root, comm);
    BOTH(Gather, Igather, out, 3, MPI_INT, in, 12, MPI_BYTE, root, comm);
    BOTH(Gatherv, Igatherv, out, own_count, MPI_INT, in, counts, steps, MPI_INT, root, comm);
    BOTH(Scatter, Iscatter, out, 2, MPI_INT, in, 2, MPI_INT, root, comm);
    BOTH(Scatterv, Iscatterv, out, counts, steps, MPI_INT, in, own_count, MPI_INT, root, comm);
    BOTH(Reduce, Ireduce, out, in, 7, MPI_INT, MPI_MAX, root, comm);
}

/* `block`: of a rank in a reduce-scatter, where both groups must come to the same total. */
static void unrooted(MPI_Comm comm, int own_count, int block) {
    BOTH(Allgather, Iallgather, out, 4, MPI_INT, in, 4, MPI_INT, comm);
    BOTH(Allgatherv, Iallgatherv, out, own_count, MPI_INT, in, counts, steps, MPI_INT, comm);
    BOTH(Alltoall, Ialltoall, out, 1, MPI_INT, in, 1, MPI_INT, comm);
    BOTH(Alltoallv, Ialltoallv, out, mine, steps, MPI_INT, in, mine, steps, MPI_INT, comm);
    BOTH(Alltoallw, Ialltoallw, out, mine, byte_steps, types, in, mine, byte_steps, types, comm);
    BOTH(Allreduce, Iallreduce, out, in, 9, MPI_INT, MPI_SUM, comm);
    BOTH(Reduce_scatter_block, Ireduce_scatter_block, out, in, block, MPI_INT, MPI_SUM, comm);
}

static void in_place(MPI_Comm comm, int rank, int size) {
    for (int root = 0; root < size; root++) {
        const int is_root = rank == root;
        BOTH(Gather, Igather, is_root ? MPI_IN_PLACE : out, 3, MPI_INT, in, 3, MPI_INT, root, comm);
        BOTH(Gatherv, Igatherv, is_root ? MPI_IN_PLACE : out, rank + 1, MPI_INT, in, counts, steps, MPI_INT, root, comm);
        BOTH(Scatter, Iscatter, out, 2, MPI_INT, is_root ? MPI_IN_PLACE : in, 2, MPI_INT, root, comm);
        BOTH(Scatterv, Iscatterv, out, counts, steps, MPI_INT, is_root ? MPI_IN_PLACE : in, rank + 1, MPI_INT, root, comm);
        BOTH(Reduce, Ireduce, is_root ? MPI_IN_PLACE : out, in, 7, MPI_INT, MPI_MAX, root, comm);
    }
    BOTH(Allgather, Iallgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 4, MPI_INT, comm);
    BOTH(Allgatherv, Iallgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, counts, steps, MPI_INT, comm);
    BOTH(Alltoall, Ialltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 1, MPI_INT, comm);
    BOTH(Alltoallv, Ialltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in, mine, steps, MPI_INT, comm);
    BOTH(Alltoallw, Ialltoallw, MPI_IN_PLACE, NULL, NULL, NULL, in, mine, byte_steps, types, comm);
    BOTH(Allreduce, Iallreduce, MPI_IN_PLACE, in, 9, MPI_INT, MPI_SUM, comm);
    BOTH(Reduce_scatter, Ireduce_scatter, MPI_IN_PLACE, in, counts, MPI_INT, MPI_SUM, comm);
    BOTH(Reduce_scatter_block, Ireduce_scatter_block, MPI_IN_PLACE, in, 2, MPI_INT, MPI_SUM, comm);
    BOTH(Scan, Iscan, MPI_IN_PLACE, in, 3, MPI_INT, MPI_SUM, comm);
    BOTH(Exscan, Iexscan, MPI_IN_PLACE, in, 3, MPI_INT, MPI_SUM, comm);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < MOST; i++) {
        counts[i] = i + 1; /* what rank i contributes */
        steps[i] = i * MOST;
        byte_steps[i] = i * MOST * (int)sizeof(int);
        types[i] = MPI_INT;
        mine[i] = 2; /* what each pair exchanges */
    }

    BOTH(Barrier, Ibarrier, MPI_COMM_WORLD);
    for (int root = 0; root < size; root++) rooted(MPI_COMM_WORLD, root, rank + 1);
    unrooted(MPI_COMM_WORLD, rank + 1, 2);
    BOTH(Reduce_scatter, Ireduce_scatter, out, in, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    BOTH(Scan, Iscan, out, in, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    BOTH(Exscan, Iexscan, out, in, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    in_place(MPI_COMM_WORLD, rank, size);
    BOTH(Allreduce, Iallreduce, out, in, 2, MPI_INT, MPI_SUM, MPI_COMM_SELF);

    /* Several at once, completed together. */
    MPI_Request several[3];
    MPI_Ibarrier(MPI_COMM_WORLD, &several[0]);
    MPI_Iallreduce(out, in, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &several[1]);
    MPI_Ibcast(out, 4, MPI_INT, 0, MPI_COMM_WORLD, &several[2]);
    MPI_Waitall(3, several, MPI_STATUSES_IGNORE);

    /* Between the first rank and the others. */
    if (size > 1) {
        MPI_Comm group, between;
        const int side = rank > 0;
        MPI_Comm_split(MPI_COMM_WORLD, side, rank, &group);
        MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, side ? 0 : 1, 77, &between);
        int own;
        MPI_Comm_rank(group, &own);
        for (int i = 0; i < MOST; i++) counts[i] = mine[i] = 2;
        BOTH(Barrier, Ibarrier, between);
        /* A root on either side; the root's neighbours name nobody. */
        rooted(between, side == 0 ? MPI_ROOT : 0, 2);
        rooted(between, side == 0 ? 0 : own == 0 ? MPI_ROOT : MPI_PROC_NULL, 2);
        unrooted(between, 2, side ? 2 : 2 * (size - 1));
        int data = rank;
        MPI_Status status;
        if (side == 0) {
            for (int i = 0; i < size - 1; i++) MPI_Send(&data, 1, MPI_INT, i, 5, between);
        } else {
            MPI_Recv(&data, 1, MPI_INT, 0, 5, between, &status);
        }
        MPI_Comm_free(&between);
        MPI_Comm_free(&group);
    }
    MPI_Finalize();
    return 0;
}
