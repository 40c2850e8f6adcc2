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

#include "count_requests.h"

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
    r->not_ready = r->partitions;
    if (r->kind == SEND && !r->partitions) count_send(r->dest, r->count, r->type);
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

#include "count_partitioned.h"

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
    if (!*flag && w.open[0] && w.open[0]->kind == TRANSFER) count_collective("REQUEST_TEST", 0, 0);
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

#include "count_bytes.h"

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

/* ---- windows, files, neighbourhoods ---- */

#include "count_windows.h"

#include "count_unlisted.h"

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
