/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bulk-synchronous program: each phase is a fixed amount of work, then an Allreduce or an exchange with the neighbours. Each rank is
 * pinned to a CPU of its own.
 *
 *     bsp PHASES WORK [SLACK_RANK PART [BYTES [NAPS]]]   WORK: rounds of arithmetic a phase; SLACK_RANK does only PART percent of them;
 *                                                        BYTES: of each message to a neighbour; 0: an Allreduce;
 *                                                        NAPS: sleeps of 50 us after each phase's work
 *
 * Where BSP_UNTIL names a file, the ranks wait in the middle of the phases until it exists, rank 0 busily, the others in MPI_Barrier.
 *
 * Rank 0 says in one JSON object, in the file BSP_RESULT or else on standard output: the elapsed time of the phases, what preemption of
 * the work cost them (`delay_ns`, see phases_delay), and the process ids. Where there is such a file each rank writes BSP_RESULT.<rank>
 * when MPI has ended: its run delay since main() began, and how much of it the kernel's counts show to be of one kind (struct account).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* What the kernel says of this thread at one moment. */
struct reading {
    long long run_delay, voluntary, nonvoluntary;
};

/* Run delay is one sum for all kinds of waiting. It is split by the switches away in short stretches: where none was voluntary the thread
 * can only have been preempted, where all were it can only have waited after wake-ups. A sched_yield, which only MPI does here, counts as
 * nonvoluntary. What remains may be either. */
static struct account { long long run_delay, preempted, woken; } account;
static struct reading last;
static int schedstat = -1;

static void switches(struct reading* r) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    r->voluntary = usage.ru_nvcsw;
    r->nonvoluntary = usage.ru_nivcsw;
}

/* The counts and the sum of the same moment: no switch between them. */
static struct reading read_kernel(void) {
    struct reading now, again;
    switches(&now);
    for (;;) {
        char text[96];
        const ssize_t n = pread(schedstat, text, sizeof text - 1, 0);
        long long on_cpu;
        text[n > 0 ? n : 0] = 0;
        if (sscanf(text, "%lld %lld", &on_cpu, &now.run_delay) != 2) now.run_delay = 0;
        switches(&again);
        if (again.voluntary == now.voluntary && again.nonvoluntary == now.nonvoluntary) return now;
        now = again;
    }
}

/* Ends a stretch and begins the next. Returns the time in which this one's thread was preempted for sure; `works`: it makes no system call.
 */
static long long stretch(int works) {
    const struct reading now = read_kernel();
    const long long delay = now.run_delay - last.run_delay;
    const int slept = now.voluntary != last.voluntary, preempted = now.nonvoluntary != last.nonvoluntary;
    last = now;
    account.run_delay += delay;
    if (works && !slept) {
        account.preempted += delay;
        return delay;
    }
    if (!preempted) account.woken += delay;
    return 0;
}

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static volatile double sink;
static void work(long rounds) {
    double x = 1.0;
    for (long i = 0; i < rounds; i++) x = x * 1.0000001 + 1e-9;
    sink = x;
}

/* The n-th of the CPUs that this process may use. */
static void pin(int n) {
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    n %= CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || n-- > 0) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

/* A launcher that gives its processes a session of their own takes away the place that the test has got (see go_first there). */
static void keep_first(void) {
    if (!getenv("BSP_GO_FIRST")) return;
    FILE* file = fopen("/proc/self/autogroup", "w");
    if (!file) return;
    fputs("-20", file);
    fclose(file);
}

/* To the right and from the left, in turn by Sendrecv and by requests. */
static void exchange(char* in, char* out, int bytes, int rank, int size, long phase) {
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    if (phase % 2) {
        MPI_Sendrecv(out, bytes, MPI_CHAR, right, 0, in, bytes, MPI_CHAR, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    MPI_Request requests[2];
    MPI_Irecv(in, bytes, MPI_CHAR, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, bytes, MPI_CHAR, right, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* By how much the phases ended later because ranks were preempted in their work. Each phase lasts as long as its slowest rank. */
static long long phases_delay(const long long* work_ns, const long long* without_ns, long phases) {
    long long *slowest = calloc(phases + 1, sizeof *slowest), *undisturbed = calloc(phases + 1, sizeof *undisturbed), sum = 0;
    MPI_Reduce(work_ns, slowest, (int)phases, MPI_LONG_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(without_ns, undisturbed, (int)phases, MPI_LONG_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    for (long phase = 0; phase < phases; phase++) sum += slowest[phase] - undisturbed[phase];
    free(slowest);
    free(undisturbed);
    return sum;
}

static void nap(void) {
    const struct timespec t = {0, 50000};
    nanosleep(&t, NULL);
    stretch(0);
}

static void say_own(const char* path, int rank) {
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", path, rank);
    FILE* file = fopen(name, "w");
    if (!file) return;
    fprintf(file, "{\"run_delay_ns\": %lld, \"preempted_ns\": %lld, \"woken_ns\": %lld}\n", account.run_delay, account.preempted,
            account.woken);
    fclose(file);
}

static void say(const char* path, long long elapsed, long long delay, const long long* pids, int size) {
    FILE* said_to = path ? fopen(path, "w") : stdout;
    if (!said_to) MPI_Abort(MPI_COMM_WORLD, 1);
    fprintf(said_to, "{\"elapsed_ns\": %lld, \"delay_ns\": %lld, \"pids\": [", elapsed, delay);
    for (int r = 0; r < size; r++) fprintf(said_to, "%s%lld", r ? ", " : "", pids[r]);
    fprintf(said_to, "]}\n");
    fflush(said_to);
    if (path) fclose(said_to);
}

/* For a minute at most: a test that died makes no file. */
static void wait_until(const char* file, int rank) {
    const long long limit = now() + 60000000000ll;
    while (rank == 0 && access(file, F_OK) != 0 && now() < limit) {
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
    keep_first();
    schedstat = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
    last = read_kernel();
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3) {
        if (rank == 0) fprintf(stderr, "bsp PHASES WORK [SLACK_RANK PART [BYTES [NAPS]]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const long phases = atol(argv[1]);
    long rounds = atol(argv[2]);
    if (argc > 4 && atoi(argv[3]) == rank) rounds = rounds * atol(argv[4]) / 100;
    const int bytes = argc > 5 ? atoi(argv[5]) : 0, naps = argc > 6 ? atoi(argv[6]) : 0;
    char *in = calloc(1, bytes + 1), *out = calloc(1, bytes + 1);
    long long *work_ns = calloc(phases + 1, sizeof *work_ns), *without_ns = calloc(phases + 1, sizeof *without_ns);
    const char* until = getenv("BSP_UNTIL");
    pin(rank);

    MPI_Barrier(MPI_COMM_WORLD);
    const long long start = now();
    double mine = rank, all = 0;
    for (long phase = 0; phase < phases; phase++) {
        if (until && phase == phases / 2) wait_until(until, rank);
        stretch(0);
        const long long begin = now();
        work(rounds);
        work_ns[phase] = now() - begin;
        without_ns[phase] = work_ns[phase] - stretch(1);
        for (int n = 0; n < naps; n++) nap();
        if (bytes > 0)
            exchange(in, out, bytes, rank, size, phase);
        else
            MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    const long long elapsed = now() - start, delay = phases_delay(work_ns, without_ns, phases);

    long long pid = getpid(), *pids = malloc(sizeof *pids * size);
    MPI_Gather(&pid, 1, MPI_LONG_LONG, pids, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    const char* path = getenv("BSP_RESULT");
    if (rank == 0) say(path, elapsed, delay, pids, size);
    free(pids);
    free(work_ns);
    free(without_ns);
    free(in);
    free(out);
    MPI_Finalize();
    stretch(0);
    if (path) say_own(path, rank);
    return 0;
}
