/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The profile of a run by segments, kept while it runs: no trace, memory that is bounded. Preloaded, one library for each MPI.
 *
 * A blocking collective of all ranks that all wait for ends a segment. Of each segment the profile has one byte a metric: the number of a
 * bin. A metric has at most 256 bins; where a new value needs one more, the two that are nearest to each other become one.
 *
 *     POLTER_PROFILE=FOLDER      at MPI_Finalize each rank writes FOLDER/profile.RANK.json, schema polter.profile.rank/1
 *     POLTER_PROFILE_COUNTER="TYPE CONFIG CONFIG1 CONFIG2 USER_ONLY NAME"
 *                                the event of perf_event that tells how much was computed: counted outside MPI calls
 *
 * Source: LWM2 as described by Shah, Mueller, Wolf, Euro-Par 2018, "Profiling Methodology". Calls of other threads than the one that
 * called MPI_Init are not counted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "analyzers/inject/preload.h"

#ifdef OPEN_MPI
#pragma weak ompi_mpi_comm_world /* a launcher, which is preloaded too, does not have it */
#endif

#define METRICS(X)                                                                                                             \
    X(time_ns)                                                                                                                 \
    X(computing) X(functions) X(sends) X(sends_begun) X(receives) X(receives_begun) X(collectives_all) X(collectives_from_one) \
        X(collectives_to_one) X(collectives_other) X(bytes_sent) X(bytes_received) X(files_opened) X(file_reads) X(file_writes)
#define ENUMERATE(name) name,
#define NAME(name) #name,
enum metric { METRICS(ENUMERATE) METRIC_COUNT };
static const char* const names[] = {METRICS(NAME)};

enum { BINS = 256, MOST_SEGMENTS = 1 << 20 };

/* Slots of bins: `order` has them by value. */
struct store {
    int64_t value[BINS];
    uint64_t members[BINS];
    int order[BINS], used;
    uint8_t* index; /* by segment */
};
static struct store stores[METRIC_COUNT];
static int64_t now_in[METRIC_COUNT];
static size_t segments, room, lost;
static int active, rank, ranks;
static int64_t first_end, last_end, began;
static __thread int counted_thread;
static int counter = -1; /* of this thread: a descriptor of perf_event */
static char counter_name[256];
static uint64_t counted_before; /* when the last MPI call ended */

static uint64_t count(void) {
    uint64_t value = 0;
    return counter >= 0 && read(counter, &value, sizeof value) == (ssize_t)sizeof value ? value : 0;
}

static void open_counter(void) {
    const char* text = getenv("POLTER_PROFILE_COUNTER");
    unsigned type;
    unsigned long long config[3];
    int user_only;
    struct perf_event_attr event;
    if (!text ||
        sscanf(text, "%u %llu %llu %llu %d %255[a-zA-Z0-9_:.=-]", &type, &config[0], &config[1], &config[2], &user_only, counter_name) != 6)
        return;
    memset(&event, 0, sizeof event);
    event.size = sizeof event;
    event.type = type;
    event.config = config[0];
    event.config1 = config[1];
    event.config2 = config[2];
    event.exclude_kernel = event.exclude_hv = user_only != 0;
    counter = (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (counter < 0) fprintf(stderr, "polter: rank %d: %s cannot be counted: %s\n", rank, counter_name, strerror(errno));
    counted_before = count();
}

/* Where `value` stands in the order, or would. */
static int place_of(const struct store* s, int64_t value) {
    int low = 0, high = s->used;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (s->value[s->order[middle]] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Makes one of the two nearest bins free. */
static int merge_nearest(struct store* s) {
    int best = 0;
    for (int i = 1; i + 1 < s->used; i++)
        if (s->value[s->order[i + 1]] - s->value[s->order[i]] < s->value[s->order[best + 1]] - s->value[s->order[best]]) best = i;
    const int stays = s->order[best], goes = s->order[best + 1];
    const double weight = (double)s->members[goes] / (double)(s->members[goes] + s->members[stays]);
    s->value[stays] += (int64_t)(weight * (double)(s->value[goes] - s->value[stays]));
    s->members[stays] += s->members[goes];
    s->members[goes] = 0;
    for (size_t i = 0; i < segments; i++)
        if (s->index[i] == goes) s->index[i] = (uint8_t)stays;
    memmove(&s->order[best + 1], &s->order[best + 2], sizeof *s->order * (size_t)(s->used - best - 2));
    s->used--;
    return goes;
}

static uint8_t bin_of(struct store* s, int64_t value) {
    int at = place_of(s, value);
    if (at < s->used && s->value[s->order[at]] == value) return (uint8_t)s->order[at];
    int slot = s->used;
    if (s->used == BINS) {
        slot = merge_nearest(s);
        at = place_of(s, value);
    }
    memmove(&s->order[at + 1], &s->order[at], sizeof *s->order * (size_t)(s->used - at));
    s->order[at] = slot;
    s->value[slot] = value;
    s->members[slot] = 0;
    s->used++;
    return (uint8_t)slot;
}

static void segment_ends(void) {
    const int64_t end = now();
    if (!first_end) {
        first_end = end;
    } else if (segments == MOST_SEGMENTS) {
        lost++;
    } else {
        now_in[time_ns] = end - last_end;
        if (segments == room) {
            room = room ? 2 * room : 1024;
            for (int m = 0; m < METRIC_COUNT; m++) {
                uint8_t* larger = realloc(stores[m].index, room);
                if (!larger) { /* measurement does not break the application */
                    active = 0;
                    return;
                }
                stores[m].index = larger;
            }
        }
        for (int m = 0; m < METRIC_COUNT; m++) {
            const uint8_t bin = bin_of(&stores[m], now_in[m]);
            stores[m].members[bin]++;
            stores[m].index[segments] = bin;
        }
        segments++;
    }
    last_end = end;
    memset(now_in, 0, sizeof now_in);
}

static int type_size(MPI_Datatype type) {
    NEXT(MPI_Type_size)
    int size = 0;
    return next(type, &size) == MPI_SUCCESS ? size : 0;
}
static int size_of(MPI_Comm comm) {
    NEXT(MPI_Comm_size)
    int size = 0;
    return next(comm, &size) == MPI_SUCCESS ? size : 0;
}

static int counts(void) {
    return active && counted_thread;
}
static void bytes(enum metric metric, int64_t number, MPI_Datatype type) {
    now_in[metric] += number * type_size(type);
}

/* Each function that a segment calls is a part of a number that stands for their set. `seen`: in which segment it was called last. */
static void begin_call(const char* name, size_t* seen) {
    now_in[computing] += (int64_t)(count() - counted_before);
    if (*seen == segments + 1) return;
    *seen = segments + 1;
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    now_in[functions] += (int64_t)(hash >> 20); /* sums stay exact in JSON */
}
static void end_call(void) {
    counted_before = count();
}

static void begin_measuring(void) {
    NEXT(MPI_Comm_rank)
    if (!getenv("POLTER_PROFILE")) return;
    next(MPI_COMM_WORLD, &rank);
    ranks = size_of(MPI_COMM_WORLD);
    counted_thread = 1;
    open_counter();
    began = now();
    active = 1;
}

static void end_measuring(void) {
    if (!active) return;
    active = 0;
    char name[4096];
    snprintf(name, sizeof name, "%s/profile.%d.json", getenv("POLTER_PROFILE"), rank);
    FILE* file = fopen(name, "w");
    if (file) {
        const int64_t end = now();
        fprintf(
            file,
            "{\"schema\": \"polter.profile.rank/1\", \"rank\": %d, \"ranks\": %d, \"counter\": \"%s\", \"segments\": %zu, \"lost\": %zu, "
            "\"before_ns\": %lld, \"after_ns\": %lld, \"metrics\": {",
            rank, ranks, counter < 0 ? "" : counter_name, segments, lost, (long long)(first_end ? first_end - began : end - began),
            (long long)(first_end ? end - last_end : 0));
        for (int m = 0; m < METRIC_COUNT; m++) {
            fprintf(file, "%s\n\"%s\": {\"bins\": [", m ? "," : "", names[m]);
            for (int i = 0; i < BINS && stores[m].used; i++) fprintf(file, "%s%lld", i ? "," : "", (long long)stores[m].value[i]);
            fprintf(file, "], \"index\": \"");
            for (size_t i = 0; i < segments; i++) fprintf(file, "%02x", stores[m].index[i]);
            fprintf(file, "\"}");
        }
        fprintf(file, "}}\n");
    }
    if (!file || ferror(file) || fclose(file) != 0)
        fprintf(stderr, "polter: %s: the profile cannot be written: %s\n", name, strerror(errno));
}

/* Counts with `what`, calls; ends a segment where `ends` says so. */
#define CALL(name, parameters, arguments, what, ends) \
    PRELOAD(                                          \
        name, parameters, arguments,                  \
        if (counts()) {                               \
            static size_t seen;                       \
            begin_call(called, &seen);                \
            what;                                     \
        },                                            \
        if (counts()) {                               \
            if (ends) segment_ends();                 \
            end_call();                               \
        })

#define SENDS(name)                                                                                       \
    CALL(                                                                                                 \
        name, (const void* b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c), (b, n, t, to, tag, c), \
        if (to != MPI_PROC_NULL) {                                                                        \
            now_in[sends]++;                                                                              \
            bytes(bytes_sent, n, t);                                                                      \
        },                                                                                                \
        0)
#define SENDS_BEGUN(name)                                                                                                    \
    CALL(                                                                                                                    \
        name, (const void* b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request* r), (b, n, t, to, tag, c, r), \
        if (to != MPI_PROC_NULL) {                                                                                           \
            now_in[sends_begun]++;                                                                                           \
            bytes(bytes_sent, n, t);                                                                                         \
        },                                                                                                                   \
        0)
SENDS(MPI_Send)
SENDS(MPI_Ssend)
SENDS(MPI_Rsend)
SENDS(MPI_Bsend)
SENDS_BEGUN(MPI_Isend)
SENDS_BEGUN(MPI_Issend)
SENDS_BEGUN(MPI_Irsend)
SENDS_BEGUN(MPI_Ibsend)
CALL(
    MPI_Recv, (void* b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status* s), (b, n, t, from, tag, c, s),
    if (from != MPI_PROC_NULL) {
        now_in[receives]++;
        bytes(bytes_received, n, t);
    },
    0)
CALL(
    MPI_Irecv, (void* b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request* r), (b, n, t, from, tag, c, r),
    if (from != MPI_PROC_NULL) {
        now_in[receives_begun]++;
        bytes(bytes_received, n, t);
    },
    0)
CALL(
    MPI_Sendrecv,
    (const void* b, int n, MPI_Datatype t, int to, int g, void* b2, int n2, MPI_Datatype t2, int from, int g2, MPI_Comm c, MPI_Status* s),
    (b, n, t, to, g, b2, n2, t2, from, g2, c, s),
    {
        now_in[sends]++;
        now_in[receives]++;
        bytes(bytes_sent, n, t);
        bytes(bytes_received, n2, t2);
    },
    0)

#define ALL(name, parameters, arguments, what) \
    CALL(                                      \
        name, parameters, arguments,           \
        {                                      \
            now_in[collectives_all]++;         \
            what;                              \
        },                                     \
        size_of(c) == ranks)
#define BOTH(n, t)           \
    bytes(bytes_sent, n, t); \
    bytes(bytes_received, n, t)
ALL(MPI_Barrier, (MPI_Comm c), (c), (void)0)
ALL(MPI_Allreduce, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c), BOTH(n, t))
ALL(MPI_Allgather, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c), (a, n, t, b, m, u, c),
    bytes(bytes_received, m, u))
ALL(MPI_Allgatherv, (const void* a, int n, MPI_Datatype t, void* b, const int m[], const int d[], MPI_Datatype u, MPI_Comm c),
    (a, n, t, b, m, d, u, c), bytes(bytes_sent, 1, u))
ALL(MPI_Alltoall, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c), (a, n, t, b, m, u, c),
    bytes(bytes_received, m, u))
ALL(MPI_Alltoallv,
    (const void* a, const int n[], const int d[], MPI_Datatype t, void* b, const int m[], const int e[], MPI_Datatype u, MPI_Comm c),
    (a, n, d, t, b, m, e, u, c), (void)0)
ALL(MPI_Alltoallw,
    (const void* a, const int n[], const int d[], const MPI_Datatype t[], void* b, const int m[], const int e[], const MPI_Datatype u[],
     MPI_Comm c),
    (a, n, d, t, b, m, e, u, c), (void)0)
ALL(MPI_Reduce_scatter, (const void* a, void* b, const int n[], MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c), (void)0)
ALL(MPI_Reduce_scatter_block, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c), BOTH(n, t))

#define SOME(metric, name, parameters, arguments, n, t) \
    CALL(                                               \
        name, parameters, arguments,                    \
        {                                               \
            now_in[metric]++;                           \
            bytes(bytes_sent, n, t);                    \
        },                                              \
        0)
SOME(collectives_from_one, MPI_Bcast, (void* b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c), n, t)
SOME(collectives_to_one, MPI_Reduce, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c),
     (a, b, n, t, o, root, c), n, t)
SOME(collectives_to_one, MPI_Gather, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, int root, MPI_Comm c),
     (a, n, t, b, m, u, root, c), n, t)
SOME(collectives_to_one, MPI_Gatherv,
     (const void* a, int n, MPI_Datatype t, void* b, const int m[], const int d[], MPI_Datatype u, int root, MPI_Comm c),
     (a, n, t, b, m, d, u, root, c), n, t)
SOME(collectives_from_one, MPI_Scatter, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, int root, MPI_Comm c),
     (a, n, t, b, m, u, root, c), m, u)
SOME(collectives_from_one, MPI_Scatterv,
     (const void* a, const int n[], const int d[], MPI_Datatype t, void* b, int m, MPI_Datatype u, int root, MPI_Comm c),
     (a, n, d, t, b, m, u, root, c), m, u)
SOME(collectives_other, MPI_Scan, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c), n, t)
SOME(collectives_other, MPI_Exscan, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c), n, t)

CALL(MPI_File_open, (MPI_Comm c, const char* f, int m, MPI_Info i, MPI_File* h), (c, f, m, i, h), now_in[files_opened]++, 0)
CALL(MPI_File_close, (MPI_File * h), (h), now_in[files_opened]++, 0)
#define FILES(metric, name, ...)                                             \
    CALL(                                                                    \
        name, __VA_ARGS__,                                                   \
        {                                                                    \
            now_in[metric]++;                                                \
            bytes(metric == file_reads ? bytes_received : bytes_sent, n, t); \
        },                                                                   \
        0)
FILES(file_reads, MPI_File_read, (MPI_File f, void* b, int n, MPI_Datatype t, MPI_Status* s), (f, b, n, t, s))
FILES(file_reads, MPI_File_read_all, (MPI_File f, void* b, int n, MPI_Datatype t, MPI_Status* s), (f, b, n, t, s))
FILES(file_reads, MPI_File_read_at, (MPI_File f, MPI_Offset o, void* b, int n, MPI_Datatype t, MPI_Status* s), (f, o, b, n, t, s))
FILES(file_reads, MPI_File_read_at_all, (MPI_File f, MPI_Offset o, void* b, int n, MPI_Datatype t, MPI_Status* s), (f, o, b, n, t, s))
FILES(file_writes, MPI_File_write, (MPI_File f, const void* b, int n, MPI_Datatype t, MPI_Status* s), (f, b, n, t, s))
FILES(file_writes, MPI_File_write_all, (MPI_File f, const void* b, int n, MPI_Datatype t, MPI_Status* s), (f, b, n, t, s))
FILES(file_writes, MPI_File_write_at, (MPI_File f, MPI_Offset o, const void* b, int n, MPI_Datatype t, MPI_Status* s), (f, o, b, n, t, s))
FILES(file_writes, MPI_File_write_at_all, (MPI_File f, MPI_Offset o, const void* b, int n, MPI_Datatype t, MPI_Status* s),
      (f, o, b, n, t, s))

/* Calls that are not counted, and are no computing either. Polls leave the set of functions alone: how often one is needed varies. */
#define WAITS(name, parameters, arguments) CALL(name, parameters, arguments, (void)0, 0)
#define POLLS(name, parameters, arguments) \
    PRELOAD(name, parameters, arguments, if (counts()) now_in[computing] += (int64_t)(count() - counted_before), if (counts()) end_call())
WAITS(MPI_Wait, (MPI_Request * r, MPI_Status* s), (r, s))
WAITS(MPI_Waitall, (int n, MPI_Request r[], MPI_Status s[]), (n, r, s))
WAITS(MPI_Waitany, (int n, MPI_Request r[], int* i, MPI_Status* s), (n, r, i, s))
WAITS(MPI_Waitsome, (int n, MPI_Request r[], int* o, int i[], MPI_Status s[]), (n, r, o, i, s))
WAITS(MPI_Probe, (int from, int tag, MPI_Comm c, MPI_Status* s), (from, tag, c, s))
WAITS(MPI_Mprobe, (int from, int tag, MPI_Comm c, MPI_Message* m, MPI_Status* s), (from, tag, c, m, s))
WAITS(MPI_Mrecv, (void* b, int n, MPI_Datatype t, MPI_Message* m, MPI_Status* s), (b, n, t, m, s))
WAITS(MPI_Start, (MPI_Request * r), (r))
WAITS(MPI_Startall, (int n, MPI_Request r[]), (n, r))
WAITS(MPI_Win_fence, (int a, MPI_Win w), (a, w))
WAITS(MPI_Win_lock, (int l, int to, int a, MPI_Win w), (l, to, a, w))
WAITS(MPI_Win_unlock, (int to, MPI_Win w), (to, w))
WAITS(MPI_Win_flush, (int to, MPI_Win w), (to, w))
WAITS(MPI_Win_start, (MPI_Group g, int a, MPI_Win w), (g, a, w))
WAITS(MPI_Win_complete, (MPI_Win w), (w))
WAITS(MPI_Win_wait, (MPI_Win w), (w))
WAITS(MPI_Comm_split, (MPI_Comm c, int color, int key, MPI_Comm* n), (c, color, key, n))
WAITS(MPI_Comm_dup, (MPI_Comm c, MPI_Comm* n), (c, n))
POLLS(MPI_Test, (MPI_Request * r, int* f, MPI_Status* s), (r, f, s))
POLLS(MPI_Testall, (int n, MPI_Request r[], int* f, MPI_Status s[]), (n, r, f, s))
POLLS(MPI_Testany, (int n, MPI_Request r[], int* i, int* f, MPI_Status* s), (n, r, i, f, s))
POLLS(MPI_Testsome, (int n, MPI_Request r[], int* o, int i[], MPI_Status s[]), (n, r, o, i, s))
POLLS(MPI_Iprobe, (int from, int tag, MPI_Comm c, int* f, MPI_Status* s), (from, tag, c, f, s))
