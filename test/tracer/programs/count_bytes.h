/* SPDX-License-Identifier: BSD-3-Clause */
/* Part of count.c: the bytes that a collective would pass if each pair of its ranks exchanged its data directly. */
struct sides {
    long long sent, received;
};
struct shape {
    int rank, ranks, mine, inter, is_root, takes_part; /* ranks: those of the other side; mine: of the own */
};
static struct shape shape_of(MPI_Comm comm, int root) {
    struct shape s;
    NEXT(Comm_rank)(comm, &s.rank);
    NEXT(Comm_size)(comm, &s.ranks);
    s.mine = s.ranks;
    NEXT(Comm_test_inter)(comm, &s.inter);
    if (s.inter) NEXT(Comm_remote_size)(comm, &s.ranks);
    s.is_root = s.inter ? root == MPI_ROOT : root == s.rank;
    s.takes_part = !(s.inter && (root == MPI_ROOT || root == MPI_PROC_NULL)); /* besides being root */
    return s;
}
/* Whether the rank exchanges data with itself: counted as the j-th of its peers. */
#define SKIPS(s, j, in_place) ((in_place) && !(s).inter && (j) == (s).rank)

static struct sides of_bcast(int count, MPI_Datatype type, int root, MPI_Comm comm) {
    struct shape s = shape_of(comm, root);
    struct sides b = {0, 0};
    for (int j = 0; s.is_root && j < s.ranks; j++) b.sent += count * size_of(type);
    if (s.takes_part) b.received = count * size_of(type);
    return b;
}
/* Everybody's data to the root. counts: of each rank, or NULL for `count`. */
static struct sides of_gather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int count, const int* counts, MPI_Datatype type,
                              int root, MPI_Comm comm) {
    struct shape s = shape_of(comm, root);
    struct sides b = {0, 0};
    int in_place = sendbuf == MPI_IN_PLACE;
    for (int j = 0; s.is_root && j < s.ranks; j++)
        if (!SKIPS(s, j, in_place)) b.received += (counts ? counts[j] : count) * size_of(type);
    if (s.takes_part && !(s.is_root && in_place)) b.sent = sendcount * size_of(sendtype);
    return b;
}
static struct sides of_scatter(int count, const int* counts, MPI_Datatype type, const void* recvbuf, int recvcount, MPI_Datatype recvtype,
                               int root, MPI_Comm comm) {
    struct sides b = of_gather(recvbuf, recvcount, recvtype, count, counts, type, root, comm), turned = {b.received, b.sent};
    return turned;
}
static struct sides of_allgather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int count, const int* counts, MPI_Datatype type,
                                 MPI_Comm comm) {
    struct shape s = shape_of(comm, 0);
    struct sides b = {0, 0};
    int in_place = sendbuf == MPI_IN_PLACE;
    for (int j = 0; j < s.ranks; j++) {
        if (SKIPS(s, j, in_place)) continue;
        b.sent += in_place ? (counts ? counts[s.rank] : count) * size_of(type) : sendcount * size_of(sendtype);
        b.received += (counts ? counts[j] : count) * size_of(type);
    }
    return b;
}
static struct sides of_alltoall(const void* sendbuf, int sendcount, const int* sendcounts, MPI_Datatype sendtype,
                                const MPI_Datatype* sendtypes, int recvcount, const int* recvcounts, MPI_Datatype recvtype,
                                const MPI_Datatype* recvtypes, MPI_Comm comm) {
    struct shape s = shape_of(comm, 0);
    struct sides b = {0, 0};
    int in_place = sendbuf == MPI_IN_PLACE;
    for (int j = 0; j < s.ranks; j++) {
        if (SKIPS(s, j, in_place)) continue;
        long long in = (recvcounts ? recvcounts[j] : recvcount) * size_of(recvtypes ? recvtypes[j] : recvtype);
        b.received += in;
        b.sent += in_place ? in : (sendcounts ? sendcounts[j] : sendcount) * size_of(sendtypes ? sendtypes[j] : sendtype);
    }
    return b;
}
/* Each rank's contribution goes to all, as in an exchange of equal pieces. */
static struct sides of_exchange(const void* sendbuf, int count, MPI_Datatype type, MPI_Comm comm) {
    return of_alltoall(sendbuf, count, NULL, type, NULL, count, NULL, type, NULL, comm);
}
static struct sides of_reduce_scatter(const void* sendbuf, const int* counts, MPI_Datatype type, MPI_Comm comm) {
    struct shape s = shape_of(comm, 0);
    struct sides b = {0, 0};
    int in_place = sendbuf == MPI_IN_PLACE;
    for (int j = 0; j < s.mine; j++)
        if (!SKIPS(s, j, in_place)) b.sent += counts[j] * size_of(type);
    for (int j = 0; j < s.ranks; j++)
        if (!SKIPS(s, j, in_place)) b.received += counts[s.rank] * size_of(type);
    return b;
}
static struct sides of_scan(const void* sendbuf, int count, MPI_Datatype type, int with_own, MPI_Comm comm) {
    struct shape s = shape_of(comm, 0);
    struct sides b = {0, 0};
    for (int j = 0; j < s.ranks; j++) {
        int own = j == s.rank;
        if (own && (!with_own || sendbuf == MPI_IN_PLACE)) continue;
        if (j >= s.rank) b.sent += count * size_of(type);
        if (j <= s.rank) b.received += count * size_of(type);
    }
    return b;
}
static struct sides of_barrier(MPI_Comm comm) {
    (void)comm;
    return (struct sides){0, 0};
}
