/* SPDX-License-Identifier: BSD-3-Clause */
/* Every way to make a communicator, one message and one collective on each, freed and made again, so that handles come back. */
#include <mpi.h>
#include <stddef.h>

static int rank, size;

static void use(MPI_Comm comm) {
    int me, n, in = 0;
    if (comm == MPI_COMM_NULL) return;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % n, 3, &in, 1, MPI_INT, (me + n - 1) % n, 3, comm, MPI_STATUS_IGNORE);
    MPI_Allreduce(&me, &in, 1, MPI_INT, MPI_SUM, comm);
}

static void round_of_all(int round) {
    MPI_Comm dup, with_info, later, split, none, shared, created, group_only, cart, row, graph, dist, adjacent, between, merged, twice;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_set_name(dup, round ? "the same again" : "a \"copy\"\n");
    use(dup);
    MPI_Comm_dup_with_info(dup, MPI_INFO_NULL, &with_info);
    use(with_info);
    MPI_Request request;
    MPI_Comm_idup(dup, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    use(later);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &split);
    use(split);
    MPI_Comm_dup(split, &twice);
    use(twice);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, rank, &none);
    use(none);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &shared);
    use(shared);

    MPI_Group world, first;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    const int members[2] = {1, 0};
    MPI_Group_incl(world, size > 1 ? 2 : 1, size > 1 ? members : members + 1, &first);
    MPI_Comm_create(MPI_COMM_WORLD, first, &created);
    use(created);
    group_only = MPI_COMM_NULL;
    /* Twice with one tag: only the members know how often. */
    for (int i = 0; i < 2 && rank < 2; i++) {
        MPI_Comm_create_group(MPI_COMM_WORLD, first, 5, &group_only);
        use(group_only);
        MPI_Comm_free(&group_only);
    }
    MPI_Group_free(&first);
    MPI_Group_free(&world);

    const int dims[2] = {1, size}, periods[2] = {0, 1}, remain[2] = {0, 1};
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart);
    use(cart);
    MPI_Cart_sub(cart, remain, &row);
    use(row);
    int index[64], edges[64], weight = 1, next = (rank + 1) % size, previous = (rank + size - 1) % size, degree = 1;
    for (int i = 0; i < size; i++) index[i] = i + 1, edges[i] = (i + 1) % size;
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &graph);
    use(graph);
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &degree, &next, &weight, MPI_INFO_NULL, 0, &dist);
    use(dist);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &previous, &weight, 1, &next, &weight, MPI_INFO_NULL, 0, &adjacent);
    use(adjacent);

    if (size > 1) {
        MPI_Comm inter_dup;
        MPI_Intercomm_create(split, 0, MPI_COMM_WORLD, rank % 2 ? (size - 1) / 2 * 2 : (size - 2) / 2 * 2 + 1, 9, &between);
        MPI_Comm_dup(between, &inter_dup);
        MPI_Barrier(inter_dup);
        MPI_Comm_free(&inter_dup);
        MPI_Intercomm_merge(between, rank % 2, &merged);
        use(merged);
        MPI_Comm_disconnect(&merged);
        MPI_Comm_free(&between);
    }
    MPI_Comm self;
    MPI_Comm_dup(MPI_COMM_SELF, &self);
    use(self);
    MPI_Comm_free(&self);
    if (created != MPI_COMM_NULL) MPI_Comm_free(&created);
    if (none != MPI_COMM_NULL) MPI_Comm_free(&none);

    /* Freed with a receive still pending on it. */
    int in = 0;
    MPI_Irecv(&in, 1, MPI_INT, previous, 8, dup, &request);
    MPI_Send(&rank, 1, MPI_INT, next, 8, dup);
    MPI_Comm_free(&dup);
    MPI_Wait(&request, MPI_STATUS_IGNORE);

    MPI_Comm* rest[] = {&with_info, &later, &split, &twice, &shared, &cart, &row, &graph, &dist, &adjacent};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) MPI_Comm_free(rest[i]);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < 4; round++) round_of_all(round);
    MPI_Finalize();
    return 0;
}
