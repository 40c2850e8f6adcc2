/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delays inside MPI calls and file I/O: before the call returns, with a probability q, a delay max(0, N(mu, sigma)). This is no OS noise:
 * the program itself spends the time. So no exporter sees it, and its log is apart from that of the injector.
 *
 * Preloaded behind the tracer, whose records then have the delay inside the call. Does nothing without POLTER_DELAYS, and nothing before
 * MPI_Init and after MPI_Finalize.
 *
 *     POLTER_DELAYS="SEED Q MU_NS SIGMA_NS Q MU_NS SIGMA_NS"      first of MPI calls, then of I/O
 *     POLTER_EXPERIMENT=FOLDER                                    the log is FOLDER/delays.RANK.jsonl
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload.h"

struct rule {
    double probability, mean_ns, sigma_ns;
};
struct entry {
    const char* call;
    int64_t begin_ns, duration_ns;
};

static struct rule of_mpi, of_io;
static unsigned long long seed;
static int active, rank;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry* entries;
static size_t used, room, lost;
static __thread uint64_t state;
static unsigned threads;

static double draw(void) { /* (0, 1] */
    if (!state)
        state = seed * 0x9e3779b97f4a7c15u + (uint64_t)(rank + 1) * 0xbf58476d1ce4e5b9u +
                __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) * 0x94d049bb133111ebu + 1;
    uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return ((double)(x >> 11) + 1) / 9007199254740992.0;
}

static void note(const char* call, int64_t begin, int64_t duration) {
    pthread_mutex_lock(&lock);
    if (used == room) {
        const size_t more = room ? 2 * room : 4096;
        struct entry* larger = realloc(entries, more * sizeof *entries);
        if (larger) entries = larger, room = more;
    }
    if (used < room)
        entries[used++] = (struct entry){call, begin, duration};
    else
        lost++;
    pthread_mutex_unlock(&lock);
}

/* Spins: a sleep would be a voluntary switch, which a trace can show. */
static void delay(const struct rule* rule, const char* call) {
    if (!__atomic_load_n(&active, __ATOMIC_RELAXED) || rule->probability <= 0 || draw() > rule->probability) return;
    const int error = errno;
    const double normal = sqrt(-2 * log(draw())) * cos(6.283185307179586 * draw());
    const int64_t wanted = (int64_t)(rule->mean_ns + rule->sigma_ns * normal);
    if (wanted > 0) {
        const int64_t begin = now();
        int64_t end = begin;
        while (end < begin + wanted) end = now();
        note(call, begin, end - begin);
    }
    errno = error;
}

static void begin_measuring(void) {
    static const char* const names[] = {"SLURM_PROCID", "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"};
    const char* text = getenv("POLTER_DELAYS");
    if (!text || sscanf(text, "%llu %lf %lf %lf %lf %lf %lf", &seed, &of_mpi.probability, &of_mpi.mean_ns, &of_mpi.sigma_ns,
                        &of_io.probability, &of_io.mean_ns, &of_io.sigma_ns) != 7)
        return;
    /* Not by MPI: its handles are data of a library that a launcher, which is preloaded too, does not have. */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i])) rank = atoi(getenv(names[i]));
    __atomic_store_n(&active, 1, __ATOMIC_RELAXED);
}

static void end_measuring(void) {
    if (!__atomic_exchange_n(&active, 0, __ATOMIC_RELAXED)) return;
    const char* folder = getenv("POLTER_EXPERIMENT");
    if (!folder) return;
    char name[4096];
    snprintf(name, sizeof name, "%s/delays.%d.jsonl", folder, rank);
    FILE* file = fopen(name, "w");
    if (file) {
        fprintf(file, "{\"schema\": \"polter.delays/1\", \"rank\": %d, \"delays\": %zu, \"lost\": %zu}\n", rank, used, lost);
        for (size_t i = 0; i < used; i++)
            fprintf(file, "{\"call\": \"%s\", \"begin_ns\": %lld, \"duration_ns\": %lld}\n", entries[i].call,
                    (long long)entries[i].begin_ns, (long long)entries[i].duration_ns);
    }
    if (!file || ferror(file) || fclose(file) != 0)
        fprintf(stderr, "polter: %s: the log of the delays cannot be written: %s\n", name, strerror(errno));
}

#define MPI(rule, name, parameters, arguments) PRELOAD(name, parameters, arguments, (void)0, delay(&rule, called))

#define SEND (const void* b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c), (b, n, t, to, tag, c)
#define ISEND (const void* b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request* r), (b, n, t, to, tag, c, r)
#define MPI2(name, both) MPI3(name, both)
#define MPI3(name, ...) MPI(of_mpi, name, __VA_ARGS__)
MPI2(MPI_Send, SEND)
MPI2(MPI_Ssend, SEND)
MPI2(MPI_Rsend, SEND)
MPI2(MPI_Bsend, SEND)
MPI2(MPI_Isend, ISEND)
MPI2(MPI_Issend, ISEND)
MPI(of_mpi, MPI_Recv, (void* b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status* s), (b, n, t, from, tag, c, s))
MPI(of_mpi, MPI_Irecv, (void* b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request* r), (b, n, t, from, tag, c, r))
MPI(of_mpi, MPI_Sendrecv,
    (const void* b, int n, MPI_Datatype t, int to, int g, void* b2, int n2, MPI_Datatype t2, int from, int g2, MPI_Comm c, MPI_Status* s),
    (b, n, t, to, g, b2, n2, t2, from, g2, c, s))
MPI(of_mpi, MPI_Wait, (MPI_Request * r, MPI_Status* s), (r, s))
MPI(of_mpi, MPI_Waitall, (int n, MPI_Request r[], MPI_Status s[]), (n, r, s))
MPI(of_mpi, MPI_Waitany, (int n, MPI_Request r[], int* i, MPI_Status* s), (n, r, i, s))
MPI(of_mpi, MPI_Waitsome, (int n, MPI_Request r[], int* o, int i[], MPI_Status s[]), (n, r, o, i, s))
MPI(of_mpi, MPI_Barrier, (MPI_Comm c), (c))
MPI(of_mpi, MPI_Bcast, (void* b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
MPI(of_mpi, MPI_Reduce, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c), (a, b, n, t, o, root, c))
MPI(of_mpi, MPI_Allreduce, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c))
MPI(of_mpi, MPI_Scan, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c))
MPI(of_mpi, MPI_Gather, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, int root, MPI_Comm c),
    (a, n, t, b, m, u, root, c))
MPI(of_mpi, MPI_Scatter, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, int root, MPI_Comm c),
    (a, n, t, b, m, u, root, c))
MPI(of_mpi, MPI_Allgather, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c), (a, n, t, b, m, u, c))
MPI(of_mpi, MPI_Alltoall, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c), (a, n, t, b, m, u, c))
MPI(of_mpi, MPI_Alltoallv,
    (const void* a, const int n[], const int d[], MPI_Datatype t, void* b, const int m[], const int e[], MPI_Datatype u, MPI_Comm c),
    (a, n, d, t, b, m, e, u, c))

#define FILE_IO (MPI_File f, void* b, int n, MPI_Datatype t, MPI_Status* s), (f, b, n, t, s)
#define FILE_OUT (MPI_File f, const void* b, int n, MPI_Datatype t, MPI_Status* s), (f, b, n, t, s)
#define FILE_IO_AT (MPI_File f, MPI_Offset o, void* b, int n, MPI_Datatype t, MPI_Status* s), (f, o, b, n, t, s)
#define FILE_OUT_AT (MPI_File f, MPI_Offset o, const void* b, int n, MPI_Datatype t, MPI_Status* s), (f, o, b, n, t, s)
#define IO2(name, both) IO3(name, both)
#define IO3(name, ...) MPI(of_io, name, __VA_ARGS__)
IO2(MPI_File_read, FILE_IO)
IO2(MPI_File_read_all, FILE_IO)
IO2(MPI_File_write, FILE_OUT)
IO2(MPI_File_write_all, FILE_OUT)
IO2(MPI_File_read_at, FILE_IO_AT)
IO2(MPI_File_read_at_all, FILE_IO_AT)
IO2(MPI_File_write_at, FILE_OUT_AT)
IO2(MPI_File_write_at_all, FILE_OUT_AT)
MPI(of_io, MPI_File_sync, (MPI_File f), (f))
MPI(of_io, MPI_File_open, (MPI_Comm c, const char* name, int mode, MPI_Info info, MPI_File* f), (c, name, mode, info, f))
MPI(of_io, MPI_File_close, (MPI_File * f), (f))

/* Files of data only: MPI itself reads and writes sockets and pipes, MPI and the tracer read what the kernel says. And not the trace. */
static int is_data(int fd) {
    struct stat status;
    if (!__atomic_load_n(&active, __ATOMIC_RELAXED) || depth > 0 || of_io.probability <= 0) return 0;
    const int error = errno;
    int data = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    if (data) {
        char link[64], path[4096];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        const ssize_t length = readlink(link, path, sizeof path - 1);
        path[length < 0 ? 0 : length] = 0;
        const char* experiment = getenv("POLTER_EXPERIMENT");
        data = strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0 &&
               (!experiment || !*experiment || strncmp(path, experiment, strlen(experiment)) != 0);
    }
    errno = error;
    return data;
}

#define POSIX(type, name, parameters, arguments) \
    EXPORT type name parameters {                \
        NEXT(name)                               \
        const type result = next arguments;      \
        if (is_data(fd)) delay(&of_io, #name);   \
        return result;                           \
    }
POSIX(ssize_t, read, (int fd, void* b, size_t n), (fd, b, n))
POSIX(ssize_t, write, (int fd, const void* b, size_t n), (fd, b, n))
POSIX(ssize_t, pread, (int fd, void* b, size_t n, off_t o), (fd, b, n, o))
POSIX(ssize_t, pwrite, (int fd, const void* b, size_t n, off_t o), (fd, b, n, o))
POSIX(ssize_t, readv, (int fd, const struct iovec* v, int n), (fd, v, n))
POSIX(ssize_t, writev, (int fd, const struct iovec* v, int n), (fd, v, n))
POSIX(ssize_t, pread64, (int fd, void* b, size_t n, off64_t o), (fd, b, n, o)) /* of programs with 64-bit offsets by name */
POSIX(ssize_t, pwrite64, (int fd, const void* b, size_t n, off64_t o), (fd, b, n, o))
POSIX(int, fsync, (int fd), (fd))
POSIX(int, fdatasync, (int fd), (fd))
