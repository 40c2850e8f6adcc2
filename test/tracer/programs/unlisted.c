/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that OTF2 has no operation for, as requests: of neighbourhoods, non-blocking and persistent, completed in any order and among
 * others; of files, beside those that a rank reads and writes alone. What they bring is checked. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static int rank, size;

static void expect(int found, int wanted) {
    if (found == wanted) return;
    fprintf(stderr, "rank %d: %d instead of %d\n", rank, found, wanted);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void neighbourhoods(void) {
    MPI_Comm ring, graph;
    int dims[1] = {size}, around[1] = {1}, one = 1, flag, index;
    const int before = (rank + size - 1) % size, next = (rank + 1) % size;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, around, 0, &ring);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    for (int round = 0; round < 6; round++) {
        int own = rank + 100 * round, to[2] = {own, own + 1}, around_me[2] = {-1, -1}, came = -1, sum = 0, word = rank, got = -1;
        const int counts[2] = {1, 1}, starts[2] = {0, 1};
        MPI_Request requests[4];
        MPI_Ineighbor_allgather(&own, 1, MPI_INT, &came, 1, MPI_INT, graph, &requests[0]);
        MPI_Ineighbor_alltoallv(to, counts, starts, MPI_INT, around_me, counts, starts, MPI_INT, ring, &requests[1]);
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, graph, &requests[2]);
        MPI_Irecv(&got, 1, MPI_INT, before, 3, graph, &requests[3]);
        MPI_Send(&word, 1, MPI_INT, next, 3, graph);
        switch (round % 3) {
            case 0:
                MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
                break;
            case 1:
                do MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE);
                while (index != MPI_UNDEFINED);
                break;
            case 2:
                for (int i = 4; i-- > 0;)
                    for (flag = 0; !flag;) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
                break;
        }
        expect(came, before + 100 * round);
        if (size > 2) expect(around_me[1], next + 100 * round);
        expect(sum, size);
        expect(got, before);
        MPI_Neighbor_allgather(&own, 1, MPI_INT, &came, 1, MPI_INT, graph);
    }
#if MPI_VERSION >= 4
    int own = 0, came = -1;
    MPI_Request again;
    MPI_Neighbor_allgather_init(&own, 1, MPI_INT, &came, 1, MPI_INT, graph, MPI_INFO_NULL, &again);
    for (int round = 0; round < 5; round++) {
        own = rank + round;
        MPI_Start(&again);
        MPI_Wait(&again, MPI_STATUS_IGNORE);
        expect(came, before + round);
    }
    MPI_Request_free(&again);
#endif
    MPI_Comm_free(&ring);
    MPI_Comm_free(&graph);
}

static void files(void) {
    char name[64] = "";
    if (rank == 0) snprintf(name, sizeof name, "/tmp/polter-unlisted-%d", (int)getpid());
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_File file;
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    for (int round = 0; round < 4; round++) {
        int own = 10 * round + rank, read = -1, alone = -1;
        MPI_Request requests[2];
        MPI_File_iwrite_at_all(file, rank * 4, &own, 1, MPI_INT, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_File_iread_at(file, rank * 4, &alone, 1, MPI_INT, &requests[1]);
        MPI_File_iread_at_all(file, (rank + 1) % size * 4, &read, 1, MPI_INT, &requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        expect(alone, own);
        expect(read, 10 * round + (rank + 1) % size);
        MPI_File_write_at_all_begin(file, rank * 4, &own, 1, MPI_INT);
        MPI_File_write_at_all_end(file, &own, MPI_STATUS_IGNORE);
        MPI_File_iwrite_at(file, rank * 4, &own, 1, MPI_INT, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_File_close(&file);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    neighbourhoods();
    files();
    MPI_Finalize();
    return 0;
}
