/* SPDX-License-Identifier: BSD-3-Clause */
/* Part of count.c: what is open, and what its completion counts. */
enum kind { NOTHING, SEND, RECEIVE, COLLECTIVE, TRANSFER };
struct open_request {
    MPI_Request handle;
    MPI_Request* variable;
    enum kind kind;
    int used, persistent, active;
    const char* name;         /* of a collective */
    long long sent, received; /* of a collective */
    int dest, count;          /* of a persistent send */
    int partitions, not_ready; /* of a partitioned one */
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
    if (was.kind == COLLECTIVE || was.kind == TRANSFER) count_collective(was.name, was.sent, was.received);
}

#define LOCKED(statement)            \
    do {                             \
        pthread_mutex_lock(&lock);   \
        statement;                   \
        pthread_mutex_unlock(&lock); \
    } while (0)
