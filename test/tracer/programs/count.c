/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An independent count of what a program does with MPI, to compare traces with. Preloaded behind the tracer it sees the same calls.
 * Deliberately plain: requests stand in a list that is searched from its beginning, bytes of a collective are added up rank by rank.
 * At MPI_Finalize each rank writes $COUNT_OUTPUT/<rank>.json.
 *
 * "messages": sends when they are begun, receives when they are complete. "collectives": calls (non-blocking ones when complete), and
 * the bytes that would pass if each pair of ranks exchanged its data directly, the own share included unless it is in place.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Where a call goes on. count_fortran.c says otherwise. */
#ifndef NEXT
#define NEXT(name) PMPI_##name
#endif

/* ---- what is counted ---- */

struct tally {
    const char* name;
    long long calls, sent, received;
};
static struct tally tallies[64];
static long long sends, sent_bytes, receives, received_bytes;
static __thread int depth; /* an MPI may call itself by its public names */

static struct tally* tally_of(const char* name) {
    for (int i = 0; i < 64; i++) {
        if (!tallies[i].name) tallies[i].name = name;
        if (strcmp(tallies[i].name, name) == 0) return &tallies[i];
    }
    abort();
}

static void count_collective(const char* name, long long sent, long long received) {
    pthread_mutex_lock(&lock);
    struct tally* t = tally_of(name);
    t->calls++;
    t->sent += sent;
    t->received += received;
    pthread_mutex_unlock(&lock);
}

static long long size_of(MPI_Datatype type) {
    int size;
    NEXT(Type_size)(type, &size);
    return size;
}

static void count_send(int dest, int count, MPI_Datatype type) {
    if (dest == MPI_PROC_NULL) return;
    pthread_mutex_lock(&lock);
    sends++;
    sent_bytes += count * size_of(type);
    pthread_mutex_unlock(&lock);
}

static void count_receive(const MPI_Status* status) {
    if (status->MPI_SOURCE == MPI_PROC_NULL) return;
    int count;
    NEXT(Get_count)((MPI_Status*)status, MPI_BYTE, &count);
    pthread_mutex_lock(&lock);
    receives++;
    received_bytes += count;
    pthread_mutex_unlock(&lock);
}

/* ---- requests ---- */

enum kind { NOTHING, SEND, RECEIVE, COLLECTIVE };
struct open_request {
    MPI_Request handle;
    MPI_Request* variable;
    enum kind kind;
    int used, persistent, active;
    const char* name;         /* of a collective */
    long long sent, received; /* of a collective */
    int dest, count;          /* of a persistent send */
    MPI_Datatype type;
};
enum { MOST = 100000 };
static struct open_request* requests;
static int used_to;

static struct open_request* open_request(MPI_Request* variable, enum kind kind) {
    if (!requests) requests = calloc(MOST, sizeof *requests);
    int i = 0;
    while (requests[i].used) i++;
    if (i + 1 > used_to) used_to = i + 1;
    memset(&requests[i], 0, sizeof *requests);
    requests[i].used = requests[i].active = 1;
    requests[i].handle = *variable;
    requests[i].variable = variable;
    requests[i].kind = kind;
    return &requests[i];
}

static struct open_request* find_request(MPI_Request handle, MPI_Request* variable) {
    struct open_request* found = NULL;
    for (int i = 0; i < used_to; i++) {
        if (requests[i].used != 1 || requests[i].handle != handle) continue;
        if (requests[i].variable == variable) return &requests[i];
        if (!found) found = &requests[i];
    }
    return found;
}

static void complete(struct open_request* r, const MPI_Status* status) {
    if (!r) return;
    pthread_mutex_lock(&lock);
    struct open_request was = *r;
    if (r->persistent)
        r->active = 0;
    else
        r->used = 0;
    pthread_mutex_unlock(&lock);
    if (!was.active) return;
    int cancelled = 0;
    NEXT(Test_cancelled)((MPI_Status*)status, &cancelled);
    if (was.kind == RECEIVE && !cancelled) count_receive(status);
    if (was.kind == COLLECTIVE) count_collective(was.name, was.sent, was.received);
}

#define LOCKED(statement)            \
    do {                             \
        pthread_mutex_lock(&lock);   \
        statement;                   \
        pthread_mutex_unlock(&lock); \
    } while (0)

/* ---- point to point ---- */

#define SEND_FUNCTION(name)                                                                           \
    int MPI_##name(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) { \
        if (depth == 0) count_send(dest, count, type);                                                \
        depth++;                                                                                      \
        int result = NEXT(name)(buf, count, type, dest, tag, comm);                                   \
        depth--;                                                                                      \
        return result;                                                                                \
    }
SEND_FUNCTION(Send)
SEND_FUNCTION(Bsend)
SEND_FUNCTION(Ssend)
SEND_FUNCTION(Rsend)

#define ISEND_FUNCTION(name)                                                                                                \
    int MPI_##name(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request* request) { \
        int result;                                                                                                         \
        if (depth == 0) count_send(dest, count, type);                                                                      \
        result = NEXT(name)(buf, count, type, dest, tag, comm, request);                                                    \
        LOCKED(open_request(request, SEND));                                                                                \
        return result;                                                                                                      \
    }
ISEND_FUNCTION(Isend)
ISEND_FUNCTION(Ibsend)
ISEND_FUNCTION(Issend)
ISEND_FUNCTION(Irsend)

#define SEND_INIT_FUNCTION(name)                                                                                            \
    int MPI_##name(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request* request) { \
        int result = NEXT(name)(buf, count, type, dest, tag, comm, request);                                                \
        pthread_mutex_lock(&lock);                                                                                          \
        struct open_request* r = open_request(request, SEND);                                                               \
        r->persistent = 1, r->active = 0, r->dest = dest, r->count = count, r->type = type;                                 \
        pthread_mutex_unlock(&lock);                                                                                        \
        return result;                                                                                                      \
    }
SEND_INIT_FUNCTION(Send_init)
SEND_INIT_FUNCTION(Bsend_init)
SEND_INIT_FUNCTION(Ssend_init)
SEND_INIT_FUNCTION(Rsend_init)

int MPI_Recv_init(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request) {
    int result = NEXT(Recv_init)(buf, count, type, source, tag, comm, request);
    pthread_mutex_lock(&lock);
    struct open_request* r = open_request(request, source == MPI_PROC_NULL ? NOTHING : RECEIVE);
    r->persistent = 1, r->active = 0;
    pthread_mutex_unlock(&lock);
    return result;
}

static void started(MPI_Request* request) {
    struct open_request* r;
    LOCKED(r = find_request(*request, request));
    if (!r) return;
    r->active = 1;
    if (r->kind == SEND) count_send(r->dest, r->count, r->type);
}
int MPI_Start(MPI_Request* request) {
    started(request);
    return NEXT(Start)(request);
}
int MPI_Startall(int count, MPI_Request requests_[]) {
    for (int i = 0; i < count; i++) started(&requests_[i]);
    return NEXT(Startall)(count, requests_);
}

int MPI_Recv(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status) {
    MPI_Status own;
    if (status == MPI_STATUS_IGNORE) status = &own;
    depth++;
    int result = NEXT(Recv)(buf, count, type, source, tag, comm, status);
    depth--;
    if (depth == 0 && result == MPI_SUCCESS) count_receive(status);
    return result;
}
int MPI_Irecv(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request) {
    int result = NEXT(Irecv)(buf, count, type, source, tag, comm, request);
    LOCKED(open_request(request, source == MPI_PROC_NULL ? NOTHING : RECEIVE));
    return result;
}
int MPI_Sendrecv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void* recvbuf, int recvcount,
                 MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status* status) {
    MPI_Status own;
    if (status == MPI_STATUS_IGNORE) status = &own;
    count_send(dest, sendcount, sendtype);
    depth++;
    int result = NEXT(Sendrecv)(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag, comm, status);
    depth--;
    count_receive(status);
    return result;
}
int MPI_Sendrecv_replace(void* buf, int count, MPI_Datatype type, int dest, int sendtag, int source, int recvtag, MPI_Comm comm,
                         MPI_Status* status) {
    MPI_Status own;
    if (status == MPI_STATUS_IGNORE) status = &own;
    count_send(dest, count, type);
    depth++;
    int result = NEXT(Sendrecv_replace)(buf, count, type, dest, sendtag, source, recvtag, comm, status);
    depth--;
    count_receive(status);
    return result;
}
int MPI_Mrecv(void* buf, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status) {
    MPI_Status own;
    if (status == MPI_STATUS_IGNORE) status = &own;
    int result = NEXT(Mrecv)(buf, count, type, message, status);
    count_receive(status);
    return result;
}
int MPI_Imrecv(void* buf, int count, MPI_Datatype type, MPI_Message* message, MPI_Request* request) {
    const int none = *message == MPI_MESSAGE_NO_PROC;
    int result = NEXT(Imrecv)(buf, count, type, message, request);
    LOCKED(open_request(request, none ? NOTHING : RECEIVE));
    return result;
}

/* ---- completion ---- */

struct waited {
    struct open_request** open;
    MPI_Status* statuses;
};
static struct waited look_up(int count, MPI_Request* handles, MPI_Status* statuses) {
    struct waited w;
    w.open = calloc((size_t)count + 1, sizeof *w.open);
    w.statuses = statuses ? statuses : calloc((size_t)count + 1, sizeof *statuses);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++) {
        if (handles[i] == MPI_REQUEST_NULL) continue;
        w.open[i] = find_request(handles[i], &handles[i]);
        if (w.open[i]) w.open[i]->used = 2; /* neither free nor to be found: not for a twin of this handle, not by another thread */
    }
    pthread_mutex_unlock(&lock);
    return w;
}
static void put_back(struct waited w, int count, MPI_Status* given) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++)
        if (w.open[i] && w.open[i]->used == 2) w.open[i]->used = 1;
    pthread_mutex_unlock(&lock);
    free(w.open);
    if (!given) free(w.statuses);
}
#define WANTED(statuses) ((statuses) == MPI_STATUSES_IGNORE || (statuses) == MPI_STATUS_IGNORE ? NULL : (statuses))

int MPI_Waitall(int count, MPI_Request handles[], MPI_Status* statuses) {
    struct waited w = look_up(count, handles, WANTED(statuses));
    int result = NEXT(Waitall)(count, handles, w.statuses);
    for (int i = 0; i < count; i++) complete(w.open[i], &w.statuses[i]);
    put_back(w, count, WANTED(statuses));
    return result;
}
int MPI_Wait(MPI_Request* handle, MPI_Status* status) {
    struct waited w = look_up(1, handle, WANTED(status));
    int result = NEXT(Wait)(handle, w.statuses);
    complete(w.open[0], w.statuses);
    put_back(w, 1, WANTED(status));
    return result;
}
int MPI_Waitany(int count, MPI_Request handles[], int* index, MPI_Status* status) {
    struct waited w = look_up(count, handles, WANTED(status));
    int result = NEXT(Waitany)(count, handles, index, w.statuses);
    if (*index != MPI_UNDEFINED) complete(w.open[*index], w.statuses);
    put_back(w, count, WANTED(status));
    return result;
}
int MPI_Waitsome(int count, MPI_Request handles[], int* outcount, int indices[], MPI_Status* statuses) {
    struct waited w = look_up(count, handles, WANTED(statuses));
    int result = NEXT(Waitsome)(count, handles, outcount, indices, w.statuses);
    for (int i = 0; *outcount != MPI_UNDEFINED && i < *outcount; i++) complete(w.open[indices[i]], &w.statuses[i]);
    put_back(w, count, WANTED(statuses));
    return result;
}
int MPI_Test(MPI_Request* handle, int* flag, MPI_Status* status) {
    struct waited w = look_up(1, handle, WANTED(status));
    int result = NEXT(Test)(handle, flag, w.statuses);
    if (*flag) complete(w.open[0], w.statuses);
    put_back(w, 1, WANTED(status));
    return result;
}
int MPI_Testall(int count, MPI_Request handles[], int* flag, MPI_Status* statuses) {
    struct waited w = look_up(count, handles, WANTED(statuses));
    int result = NEXT(Testall)(count, handles, flag, w.statuses);
    for (int i = 0; *flag && i < count; i++) complete(w.open[i], &w.statuses[i]);
    put_back(w, count, WANTED(statuses));
    return result;
}
int MPI_Testany(int count, MPI_Request handles[], int* index, int* flag, MPI_Status* status) {
    struct waited w = look_up(count, handles, WANTED(status));
    int result = NEXT(Testany)(count, handles, index, flag, w.statuses);
    if (*flag && *index != MPI_UNDEFINED) complete(w.open[*index], w.statuses);
    put_back(w, count, WANTED(status));
    return result;
}
int MPI_Testsome(int count, MPI_Request handles[], int* outcount, int indices[], MPI_Status* statuses) {
    struct waited w = look_up(count, handles, WANTED(statuses));
    int result = NEXT(Testsome)(count, handles, outcount, indices, w.statuses);
    for (int i = 0; *outcount != MPI_UNDEFINED && i < *outcount; i++) complete(w.open[indices[i]], &w.statuses[i]);
    put_back(w, count, WANTED(statuses));
    return result;
}
int MPI_Request_free(MPI_Request* handle) {
    pthread_mutex_lock(&lock);
    struct open_request* r = find_request(*handle, handle);
    if (r) r->used = 0;
    pthread_mutex_unlock(&lock);
    return NEXT(Request_free)(handle);
}

/* ---- collectives ---- */

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

#define UNPACK(...) __VA_ARGS__
/* op, its non-blocking name, bytes, parameters, arguments */
#define COLLECTIVE_PAIR(op, Name, Iname, bytes, parameters, arguments) \
    int MPI_##Name(UNPACK parameters) {                                \
        if (depth == 0) {                                              \
            struct sides b = bytes;                                    \
            count_collective(op, b.sent, b.received);                  \
        }                                                              \
        depth++;                                                       \
        int result = NEXT(Name)(UNPACK arguments);                     \
        depth--;                                                       \
        return result;                                                 \
    }                                                                  \
    int MPI_##Iname(UNPACK parameters, MPI_Request* request) {         \
        struct sides b = bytes;                                        \
        int result = NEXT(Iname)(UNPACK arguments, request);           \
        pthread_mutex_lock(&lock);                                     \
        struct open_request* r = open_request(request, COLLECTIVE);    \
        r->name = op, r->sent = b.sent, r->received = b.received;      \
        pthread_mutex_unlock(&lock);                                   \
        return result;                                                 \
    }

COLLECTIVE_PAIR("BARRIER", Barrier, Ibarrier, of_barrier(comm), (MPI_Comm comm), (comm))
COLLECTIVE_PAIR("BCAST", Bcast, Ibcast, of_bcast(count, type, root, comm),
                (void* buf, int count, MPI_Datatype type, int root, MPI_Comm comm), (buf, count, type, root, comm))
COLLECTIVE_PAIR("GATHER", Gather, Igather, of_gather(sb, sc, st, rc, NULL, rt, root, comm),
                (const void* sb, int sc, MPI_Datatype st, void* rb, int rc, MPI_Datatype rt, int root, MPI_Comm comm),
                (sb, sc, st, rb, rc, rt, root, comm))
COLLECTIVE_PAIR("GATHERV", Gatherv, Igatherv, of_gather(sb, sc, st, 0, rc, rt, root, comm),
                (const void* sb, int sc, MPI_Datatype st, void* rb, const int rc[], const int rd[], MPI_Datatype rt, int root,
                 MPI_Comm comm),
                (sb, sc, st, rb, rc, rd, rt, root, comm))
COLLECTIVE_PAIR("SCATTER", Scatter, Iscatter, of_scatter(sc, NULL, st, rb, rc, rt, root, comm),
                (const void* sb, int sc, MPI_Datatype st, void* rb, int rc, MPI_Datatype rt, int root, MPI_Comm comm),
                (sb, sc, st, rb, rc, rt, root, comm))
COLLECTIVE_PAIR("SCATTERV", Scatterv, Iscatterv, of_scatter(0, sc, st, rb, rc, rt, root, comm),
                (const void* sb, const int sc[], const int sd[], MPI_Datatype st, void* rb, int rc, MPI_Datatype rt, int root,
                 MPI_Comm comm),
                (sb, sc, sd, st, rb, rc, rt, root, comm))
COLLECTIVE_PAIR("ALLGATHER", Allgather, Iallgather, of_allgather(sb, sc, st, rc, NULL, rt, comm),
                (const void* sb, int sc, MPI_Datatype st, void* rb, int rc, MPI_Datatype rt, MPI_Comm comm), (sb, sc, st, rb, rc, rt, comm))
COLLECTIVE_PAIR("ALLGATHERV", Allgatherv, Iallgatherv, of_allgather(sb, sc, st, 0, rc, rt, comm),
                (const void* sb, int sc, MPI_Datatype st, void* rb, const int rc[], const int rd[], MPI_Datatype rt, MPI_Comm comm),
                (sb, sc, st, rb, rc, rd, rt, comm))
COLLECTIVE_PAIR("ALLTOALL", Alltoall, Ialltoall, of_alltoall(sb, sc, NULL, st, NULL, rc, NULL, rt, NULL, comm),
                (const void* sb, int sc, MPI_Datatype st, void* rb, int rc, MPI_Datatype rt, MPI_Comm comm), (sb, sc, st, rb, rc, rt, comm))
COLLECTIVE_PAIR("ALLTOALLV", Alltoallv, Ialltoallv, of_alltoall(sb, 0, sc, st, NULL, 0, rc, rt, NULL, comm),
                (const void* sb, const int sc[], const int sd[], MPI_Datatype st, void* rb, const int rc[], const int rd[], MPI_Datatype rt,
                 MPI_Comm comm),
                (sb, sc, sd, st, rb, rc, rd, rt, comm))
COLLECTIVE_PAIR("ALLTOALLW", Alltoallw, Ialltoallw, of_alltoall(sb, 0, sc, MPI_BYTE, st, 0, rc, MPI_BYTE, rt, comm),
                (const void* sb, const int sc[], const int sd[], const MPI_Datatype st[], void* rb, const int rc[], const int rd[],
                 const MPI_Datatype rt[], MPI_Comm comm),
                (sb, sc, sd, st, rb, rc, rd, rt, comm))
COLLECTIVE_PAIR("REDUCE", Reduce, Ireduce, of_gather(sb, count, type, count, NULL, type, root, comm),
                (const void* sb, void* rb, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
                (sb, rb, count, type, op, root, comm))
COLLECTIVE_PAIR("ALLREDUCE", Allreduce, Iallreduce, of_exchange(sb, count, type, comm),
                (const void* sb, void* rb, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), (sb, rb, count, type, op, comm))
COLLECTIVE_PAIR("REDUCE_SCATTER", Reduce_scatter, Ireduce_scatter, of_reduce_scatter(sb, rc, type, comm),
                (const void* sb, void* rb, const int rc[], MPI_Datatype type, MPI_Op op, MPI_Comm comm), (sb, rb, rc, type, op, comm))
COLLECTIVE_PAIR("REDUCE_SCATTER_BLOCK", Reduce_scatter_block, Ireduce_scatter_block, of_exchange(sb, count, type, comm),
                (const void* sb, void* rb, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), (sb, rb, count, type, op, comm))
COLLECTIVE_PAIR("SCAN", Scan, Iscan, of_scan(sb, count, type, 1, comm),
                (const void* sb, void* rb, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), (sb, rb, count, type, op, comm))
COLLECTIVE_PAIR("EXSCAN", Exscan, Iexscan, of_scan(sb, count, type, 0, comm),
                (const void* sb, void* rb, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), (sb, rb, count, type, op, comm))

#if MPI_VERSION >= 4
int MPI_Allreduce_init(const void* sb, void* rb, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Info info,
                       MPI_Request* request) {
    struct sides b = of_exchange(sb, count, type, comm);
    int result = NEXT(Allreduce_init)(sb, rb, count, type, op, comm, info, request);
    pthread_mutex_lock(&lock);
    struct open_request* r = open_request(request, COLLECTIVE);
    r->name = "ALLREDUCE", r->sent = b.sent, r->received = b.received, r->persistent = 1, r->active = 0;
    pthread_mutex_unlock(&lock);
    return result;
}
int MPI_Isendrecv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void* recvbuf, int recvcount,
                  MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Request* request) {
    count_send(dest, sendcount, sendtype);
    int result = NEXT(Isendrecv)(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag, comm, request);
    LOCKED(open_request(request, source == MPI_PROC_NULL ? NOTHING : RECEIVE));
    return result;
}
#endif

/* ---- communicators: only the calls ---- */

#define CREATES(Name, parameters, arguments)                     \
    int MPI_##Name(UNPACK parameters) {                          \
        depth++;                                                 \
        int result = NEXT(Name)(UNPACK arguments);               \
        depth--;                                                 \
        if (depth == 0) count_collective("CREATE_HANDLE", 0, 0); \
        return result;                                           \
    }
CREATES(Comm_dup, (MPI_Comm comm, MPI_Comm* made), (comm, made))
CREATES(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm* made), (comm, info, made))
CREATES(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm* made), (comm, group, made))
CREATES(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm* made), (comm, color, key, made))
CREATES(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made), (comm, type, key, info, made))
CREATES(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm* made), (comm, high, made))
CREATES(Cart_create, (MPI_Comm comm, int n, const int dims[], const int periods[], int reorder, MPI_Comm* made),
        (comm, n, dims, periods, reorder, made))
CREATES(Cart_sub, (MPI_Comm comm, const int remain[], MPI_Comm* made), (comm, remain, made))
CREATES(Graph_create, (MPI_Comm comm, int n, const int index[], const int edges[], int reorder, MPI_Comm* made),
        (comm, n, index, edges, reorder, made))
CREATES(Dist_graph_create,
        (MPI_Comm comm, int n, const int s[], const int d[], const int t[], const int w[], MPI_Info i, int r, MPI_Comm* made),
        (comm, n, s, d, t, w, i, r, made))
CREATES(Dist_graph_create_adjacent,
        (MPI_Comm comm, int n, const int s[], const int sw[], int m, const int d[], const int dw[], MPI_Info i, int r, MPI_Comm* made),
        (comm, n, s, sw, m, d, dw, i, r, made))
CREATES(Intercomm_create, (MPI_Comm comm, int leader, MPI_Comm peer, int remote, int tag, MPI_Comm* made),
        (comm, leader, peer, remote, tag, made))
/* Counted where a member: the others take no part. */
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made) {
    int result = NEXT(Comm_create_group)(comm, group, tag, made);
    if (*made != MPI_COMM_NULL) count_collective("CREATE_HANDLE", 0, 0);
    return result;
}
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* made, MPI_Request* request) {
    int result = NEXT(Comm_idup)(comm, made, request);
    pthread_mutex_lock(&lock);
    open_request(request, COLLECTIVE)->name = "CREATE_HANDLE";
    pthread_mutex_unlock(&lock);
    return result;
}
int MPI_Comm_free(MPI_Comm* comm) {
    if (depth == 0) count_collective("DESTROY_HANDLE", 0, 0);
    depth++;
    int result = NEXT(Comm_free)(comm);
    depth--;
    return result;
}
int MPI_Comm_disconnect(MPI_Comm* comm) {
    count_collective("DESTROY_HANDLE", 0, 0);
    return NEXT(Comm_disconnect)(comm);
}

/* ---- one-sided communication: notices by the sizes of the groups; collectives of files ---- */

/* A window's epochs, and the communicators whose windows can be shared with others. */
static struct epoch {
    MPI_Win win;
    int started, posted;
} epochs[64];

static struct epoch* epoch_of(MPI_Win win) {
    for (int i = 0; i < 64; i++) {
        if (epochs[i].win == win || !epochs[i].win) {
            epochs[i].win = win;
            return &epochs[i];
        }
    }
    abort();
}
static int members_of(MPI_Group group) {
    int n;
    NEXT(Group_size)(group, &n);
    return n;
}
static void count_times(const char* name, int times) {
    for (int i = 0; i < times; i++) count_collective(name, 0, 0);
}

/* What the tracer makes of a call: its name in the trace's count. Calls of an MPI of its own are none. */
#define COUNTED(Name, parameters, arguments, ...)  \
    int MPI_##Name(UNPACK parameters) {            \
        depth++;                                   \
        int result = NEXT(Name)(UNPACK arguments); \
        depth--;                                   \
        if (depth == 0 && result == MPI_SUCCESS) { \
            __VA_ARGS__                            \
        }                                          \
        return result;                             \
    }
#define MAKES_WINDOW(name)                           \
    memset(epoch_of(*win), 0, sizeof(struct epoch)); \
    count_collective(name, 0, 0);                    \
    count_collective("WINDOW_CREATE", 0, 0);
COUNTED(Win_create, (void* base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win* win), (base, size, unit, info, comm, win),
        MAKES_WINDOW("RMA_CREATE_HANDLE"))
COUNTED(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win* win), (info, comm, win), MAKES_WINDOW("RMA_CREATE_HANDLE"))
COUNTED(Win_allocate, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* win),
        (size, unit, info, comm, base, win), MAKES_WINDOW("RMA_CREATE_HANDLE_AND_ALLOCATE"))
COUNTED(Win_allocate_shared, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* win),
        (size, unit, info, comm, base, win), MAKES_WINDOW("RMA_CREATE_HANDLE_AND_ALLOCATE"))
COUNTED(Win_free, (MPI_Win * win), (win), count_collective("RMA_DESTROY_HANDLE", 0, 0); count_collective("WINDOW_DESTROY", 0, 0);)
COUNTED(Win_fence, (int assert, MPI_Win win), (assert, win),
        count_collective(assert& MPI_MODE_NOPRECEDE ? "RMA_BARRIER_APART" : "RMA_BARRIER", 0, 0);)
COUNTED(Win_post, (MPI_Group group, int assert, MPI_Win win), (group, assert, win), epoch_of(win)->posted = members_of(group);
        count_times("NOTIFY_OUT", members_of(group));)
COUNTED(Win_start, (MPI_Group group, int assert, MPI_Win win), (group, assert, win), epoch_of(win)->started = members_of(group);
        count_times("NOTIFY_IN", members_of(group));)
COUNTED(Win_complete, (MPI_Win win), (win), count_times("NOTIFY_IN", epoch_of(win)->started);
        count_times("NOTIFY_OUT", epoch_of(win)->started);)
COUNTED(Win_wait, (MPI_Win win), (win), count_times("NOTIFY_IN", epoch_of(win)->posted);)
COUNTED(Win_test, (MPI_Win win, int* flag), (win, flag), if (*flag) count_times("NOTIFY_IN", epoch_of(win)->posted);)
COUNTED(Win_lock, (int type, int target, int assert, MPI_Win win), (type, target, assert, win),
        count_collective(type == MPI_LOCK_EXCLUSIVE ? "LOCK_EXCLUSIVE" : "LOCK_SHARED", 0, 0);)
COUNTED(Win_lock_all, (int assert, MPI_Win win), (assert, win), count_collective("LOCK_SHARED", 0, 0);)
COUNTED(Win_unlock, (int target, MPI_Win win), (target, win), count_collective("UNLOCK", 0, 0);)
COUNTED(Win_unlock_all, (MPI_Win win), (win), count_collective("UNLOCK", 0, 0);)
#define OPERATION(Name, name, parameters, arguments) \
    COUNTED(Name, parameters, arguments, if (target != MPI_PROC_NULL) count_collective(name, n* size_of(type), 0);)
OPERATION(Put, "PUT", (const void* b, int n, MPI_Datatype type, int target, MPI_Aint at, int m, MPI_Datatype there, MPI_Win win),
          (b, n, type, target, at, m, there, win))
OPERATION(Get, "GET", (void* b, int n, MPI_Datatype type, int target, MPI_Aint at, int m, MPI_Datatype there, MPI_Win win),
          (b, n, type, target, at, m, there, win))
OPERATION(Accumulate, "ACCUMULATE",
          (const void* b, int n, MPI_Datatype type, int target, MPI_Aint at, int m, MPI_Datatype there, MPI_Op op, MPI_Win win),
          (b, n, type, target, at, m, there, op, win))
#define OF_FILE(Name, parameters, arguments)            \
    int MPI_##Name(UNPACK parameters) {                 \
        depth++;                                        \
        int result = NEXT(Name)(UNPACK arguments);      \
        depth--;                                        \
        if (depth == 0) count_collective("FILE", 0, 0); \
        return result;                                  \
    }
OF_FILE(File_open, (MPI_Comm comm, const char* name, int mode, MPI_Info info, MPI_File* file), (comm, name, mode, info, file))
OF_FILE(File_close, (MPI_File * file), (file))
OF_FILE(File_set_size, (MPI_File file, MPI_Offset size), (file, size))
OF_FILE(File_sync, (MPI_File file), (file))
OF_FILE(File_write_at_all, (MPI_File file, MPI_Offset at, const void* b, int n, MPI_Datatype type, MPI_Status* status),
        (file, at, b, n, type, status))

COUNTED(Neighbor_allgather, (const void* sb, int sc, MPI_Datatype st, void* rb, int rc, MPI_Datatype rt, MPI_Comm comm),
        (sb, sc, st, rb, rc, rt, comm), count_collective("NEIGHBOURHOOD", 0, 0);)
COUNTED(Neighbor_alltoall, (const void* sb, int sc, MPI_Datatype st, void* rb, int rc, MPI_Datatype rt, MPI_Comm comm),
        (sb, sc, st, rb, rc, rt, comm), count_collective("NEIGHBOURHOOD", 0, 0);)

/* ---- the result ---- */

int MPI_Finalize(void) {
    int rank;
    char path[4096];
    const char* folder = getenv("COUNT_OUTPUT");
    NEXT(Comm_rank)(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s/%d.json", folder ? folder : ".", rank);
    FILE* out = fopen(path, "w");
    if (!out) {
        perror(path);
        NEXT(Abort)(MPI_COMM_WORLD, 1);
        return MPI_ERR_OTHER;
    }
    fprintf(out, "{\"sends\": %lld, \"sent_bytes\": %lld, \"receives\": %lld, \"received_bytes\": %lld, \"collectives\": {", sends,
            sent_bytes, receives, received_bytes);
    for (int i = 0; i < 64 && tallies[i].name; i++)
        fprintf(out, "%s\"%s\": {\"calls\": %lld, \"sent\": %lld, \"received\": %lld}", i ? ", " : "", tallies[i].name, tallies[i].calls,
                tallies[i].sent, tallies[i].received);
    fprintf(out, "}}\n");
    fclose(out);
    return NEXT(Finalize)();
}
