/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The latency of every pair of ranks, as distributions. Started by `polter latency`, which gives all options:
 *
 *     polter-latency BYTES TRIALS WARMUPS CYCLES BINS WIDTH_NS TOP_NS NOISE SEED FILE
 *
 * Stages 1, 2, 3, ... (with a SEED shuffled): the partner is rank XOR stage, if there is one. With each partner WARMUPS and then TRIALS
 * exchanges, each an MPI_Sendrecv of BYTES both ways between two readings of the clock; the stages are gone through CYCLES times. A pair's
 * exchanges of a cycle are a block. NOISE 1: samples during which the exporter's page moved are marked. Rank 0 writes what all ranks
 * measured to FILE.
 *
 * Source: Settlemyer, Hodson, Kuehn, Poole, "Confidence" (2010, 2011). No mutable globals: SMPI's ranks share them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef POLTER_LATENCY_NOISE
#include "noise.h"
#else
typedef struct polter_noise polter_noise;
#endif
#include "clock.h"
#include "tally.h"

/* Where the launcher did not bind the rank: to the CPU that its number on the node says. */
static void bind_to_cpu(int on_node) {
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) == 1) return;
    on_node %= CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || on_node-- > 0) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

/* The time that noise has stolen from this thread so far, and whether the page has moved since it was asked last. */
static int moved(polter_noise* page) {
#ifdef POLTER_LATENCY_NOISE
    return page && polter_noise_moved(page);
#else
    (void)page;
    return 0;
#endif
}
static uint64_t stolen(polter_noise* page, uint64_t* by_account) {
    uint64_t sum = 0;
    (void)page;
    (void)by_account;
#ifdef POLTER_LATENCY_NOISE
    struct polter_counters counters;
    if (!page) return 0;
    polter_noise_snapshot(page, &counters);
    for (unsigned i = 0; i < POLTER_ACCOUNTS; i++) {
        if (by_account) by_account[i] = counters.ns[i];
        if (!polter_account_is_service(i)) sum += counters.ns[i];
    }
#endif
    return sum;
}

enum { GROUP = 4 };             /* samples that share readings of the clock */
enum { NODE, NETWORK, PLACES }; /* partner on the same node, on another */
enum { ONE, ONE_LEAST, PAIR, PAIR_LEAST, ONE_HIT, PAIR_HIT, KINDS };
static const char* const kind_names[] = {"one_sided", "one_sided_minima", "pairwise", "pairwise_minima", "one_sided_hit", "pairwise_hit"};

struct bench {
    int rank, size, *nodes;
    int bytes;
    long trials, warmups, cycles;
    struct bins bins;
    struct clock clock;
    double own_ns;
    struct histogram timer, of[PLACES][KINDS];
    polter_noise* page;
    char *in, *out;
    uint64_t *times, *pairs; /* begin and end of each sample; two readings one behind the other, for each group */
    uint64_t* noise;         /* what was stolen by a sample's end, where the page moved in it; else 0 */
    double *own, *peers, *sorted;
    unsigned char *hit, *peers_hit;
    uint64_t* block_counts;
    int keep_bins, stages, *stage; /* stage: in their order, the same on all ranks */
    struct text blocks;
    uint64_t began; /* when all ranks had met */
};

static void exchange(struct bench* b, int partner) {
    MPI_Sendrecv(b->out, b->bytes, MPI_CHAR, partner, 0, b->in, b->bytes, MPI_CHAR, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/*
 * The readings around each exchange. The end of a sample is the begin of the next, except where the page was looked at in between. After a
 * group, a second reading shows whether the clock is quiet; only then the readings go to memory that may not be near. No partner (-1): the
 * same without exchanges.
 */
static inline __attribute__((always_inline)) void take_samples(struct bench* b, int partner, long trials) {
    for (long i = 0; i < trials; i += GROUP) {
        const long n = trials - i < GROUP ? trials - i : GROUP;
        uint64_t here[2 * GROUP], at = ticks(&b->clock);
        for (long k = 0; k < n; k++) {
            here[2 * k] = at;
            if (partner >= 0) exchange(b, partner);
            at = here[2 * k + 1] = ticks(&b->clock);
            if (__builtin_expect(moved(b->page), 0)) {
                b->noise[i + k] = stolen(b->page, NULL);
                at = ticks(&b->clock);
            }
        }
        b->pairs[i / GROUP] = ticks(&b->clock) - at;
        memcpy(&b->times[2 * i], here, (size_t)n * 2 * sizeof *here);
    }
}

/* What one sample costs beside its exchange: the quietest of some rounds. */
static double own_cost(struct bench* b, long trials) {
    double least = 0;
#ifndef POLTER_LATENCY_SIMULATED
    for (int round = 0; round < 20; round++) {
        const double begin = system_ns();
        take_samples(b, -1, trials);
        const double each = (system_ns() - begin) / (double)trials;
        if (round == 0 || each < least) least = each;
    }
#else
    (void)b;
    (void)trials;
#endif
    return least;
}

static void block(struct bench* b, int partner, long cycle) {
    const double per_ns = b->clock.ticks_per_ns;
    for (long i = 0; i < b->warmups; i++) exchange(b, partner);
    memset(b->noise, 0, sizeof *b->noise * (size_t)b->trials);
    const uint64_t stolen_before = stolen(b->page, NULL);
    uint64_t last = stolen_before;
    moved(b->page);
    take_samples(b, partner, b->trials);
    /* From readings to nanoseconds. Each duration has one reading of the clock in it: the least that one was seen to take is subtracted. */
    for (long i = 0; i < b->trials; i += GROUP) add(&b->timer, &b->bins, (double)b->pairs[i / GROUP] / per_ns);
    for (long i = 0; i < b->trials; i++) {
        b->own[i] = ((double)(b->times[2 * i + 1] - b->times[2 * i]) - b->clock.least_pair) / per_ns;
        b->hit[i] = b->noise[i] != 0 && b->noise[i] != last;
        if (b->noise[i] != 0) last = b->noise[i];
    }
    MPI_Sendrecv(b->own, (int)b->trials, MPI_DOUBLE, partner, 1, b->peers, (int)b->trials, MPI_DOUBLE, partner, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(b->hit, (int)b->trials, MPI_CHAR, partner, 2, b->peers_hit, (int)b->trials, MPI_CHAR, partner, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);

    struct histogram* of = b->of[b->nodes[b->rank] == b->nodes[partner] ? NODE : NETWORK];
    const int first = b->rank < partner; /* of each pair, one rank counts what both have in common */
    double least = 0, least_pair = 0;
    long hits = 0;
    memset(b->block_counts, 0, sizeof *b->block_counts * (size_t)b->bins.count);
    struct histogram here = {.counts = b->block_counts};
    for (long i = 0; i < b->trials; i++) {
        const double own = b->own[i] > 0 ? b->own[i] : 0, peers = b->peers[i] > 0 ? b->peers[i] : 0, pair = (own + peers) / 2;
        const int hit = b->hit[i] || b->peers_hit[i];
        add(&of[ONE], &b->bins, b->own[i]);
        if (hit) add(&of[ONE_HIT], &b->bins, own), hits++;
        if (first) {
            add(&of[PAIR], &b->bins, pair);
            add(&here, &b->bins, pair);
            if (hit) add(&of[PAIR_HIT], &b->bins, pair);
        }
        if (i == 0 || own < least) least = own;
        if (i == 0 || pair < least_pair) least_pair = pair;
        b->sorted[i] = first ? pair : own;
    }
    add(&of[ONE_LEAST], &b->bins, least);
    if (!first) return;
    add(&of[PAIR_LEAST], &b->bins, least_pair);
    qsort(b->sorted, (size_t)b->trials, sizeof *b->sorted, ascending);
    put(&b->blocks,
        "%s{\"peer\":%d,\"cycle\":%ld,\"begin_ns\":%.0f,\"ns\":%.0f,\"least_ns\":%.17g,\"p25_ns\":%.17g,\"median_ns\":%.17g,"
        "\"p75_ns\":%.17g,\"p99_ns\":%.17g,\"most_ns\":%.17g,\"hit\":%ld,\"stolen_ns\":%llu",
        b->blocks.used ? ",\n" : "", partner, cycle, (double)(b->times[0] - b->began) / per_ns,
        (double)(b->times[2 * b->trials - 1] - b->times[0]) / per_ns, least_pair, b->sorted[b->trials / 4], b->sorted[b->trials / 2],
        b->sorted[b->trials - 1 - b->trials / 4], b->sorted[b->trials - 1 - b->trials / 100], b->sorted[b->trials - 1], hits,
        (unsigned long long)(last - stolen_before));
    if (b->keep_bins) {
        put(&b->blocks, ",\"bins\":");
        put_counts(&b->blocks, b->block_counts, b->bins.count);
    }
    put(&b->blocks, "}");
}

/* By name, and the number of this rank on its node. */
static int find_nodes(struct bench* b, char* names) {
    char own[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0, before = 0;
    MPI_Get_processor_name(own, &length);
    MPI_Allgather(own, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, names, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, MPI_COMM_WORLD);
    for (int i = 0; i < b->size; i++) {
        for (b->nodes[i] = 0; strcmp(names + b->nodes[i] * MPI_MAX_PROCESSOR_NAME, names + i * MPI_MAX_PROCESSOR_NAME) != 0;) b->nodes[i]++;
        before += i < b->rank && b->nodes[i] == b->nodes[b->rank];
    }
    return before;
}

static void order_stages(struct bench* b, unsigned long long seed) {
    int power = 1;
    while (power < b->size) power *= 2;
    b->stages = power - 1;
    b->stage = memory((size_t)power * sizeof *b->stage);
    for (int i = 0; i < b->stages; i++) b->stage[i] = i + 1;
    for (int i = b->stages - 1; seed && i > 0; i--) { /* Fisher and Yates, with splitmix64 */
        unsigned long long x = seed + (unsigned long long)i * 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        const int other = (int)((x ^ (x >> 31)) % (unsigned long long)(i + 1)), here = b->stage[i];
        b->stage[i] = b->stage[other];
        b->stage[other] = here;
    }
}

static void describe(struct bench* b, const char* names, const uint64_t* by_account, struct text* out) {
    put(out, "{\"rank\":%d,\"host\":\"", b->rank);
    for (const char* c = names + b->rank * MPI_MAX_PROCESSOR_NAME; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
            put(out, "\\u%04x", *c);
        else
            put(out, "%c", *c);
    put(out, "\",\"clock\":{\"name\":\"%s\",\"ticks_per_ns\":%.17g,\"drift\":%.17g,\"least_ns\":%.17g,\"mean_ns\":%.17g,\"own_ns\":%.17g}",
        b->clock.counter ? "processor" : "system", b->clock.ticks_per_ns, b->clock.drift, b->clock.least_pair / b->clock.ticks_per_ns,
        b->clock.mean_pair / b->clock.ticks_per_ns, b->own_ns);
    put_histogram(out, "timer", &b->timer, &b->bins);
    for (int place = 0; place < PLACES; place++) {
        put(out, ",\"%s\":{\"kinds\":%d", place == NODE ? "on_node" : "off_node", KINDS);
        for (int kind = 0; kind < KINDS; kind++) put_histogram(out, kind_names[kind], &b->of[place][kind], &b->bins);
        put(out, "}");
    }
    put(out, ",\"marked\":%s,\"stolen_ns\":{", b->page ? "true" : "false");
    const char* comma = "";
    (void)by_account;
#ifdef POLTER_LATENCY_NOISE
    for (unsigned i = 0; b->page && i < POLTER_ACCOUNTS; i++)
        if (!polter_account_is_service(i))
            put(out, "%s\"%s\":%llu", comma, polter_account_name(i), (unsigned long long)by_account[i]), comma = ",";
#endif
    (void)comma;
    put(out, "},\"blocks\":[\n%s]}", b->blocks.data ? b->blocks.data : "");
}

/* Rank 0 takes the others' results one by one, so that it has one at a time in memory. */
static int write_all(struct bench* b, struct text* own, const char* name) {
    int failed = 0;
    if (b->rank > 0) {
        unsigned long long length = own->used;
        int go = 0;
        MPI_Recv(&go, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&length, 1, MPI_UNSIGNED_LONG_LONG, 0, 4, MPI_COMM_WORLD);
        for (size_t at = 0; at < own->used; at += 1 << 20) {
            const size_t part = own->used - at < 1 << 20 ? own->used - at : 1 << 20;
            MPI_Send(own->data + at, (int)part, MPI_CHAR, 0, 5, MPI_COMM_WORLD);
        }
        return 0;
    }
    FILE* file = strcmp(name, "-") == 0 ? stdout : fopen(name, "w");
    char* buffer = memory(1 << 20);
    if (file)
        fprintf(file,
                "{\"schema\":\"polter.latency.raw/1\",\"ranks\":%d,\"bytes\":%d,\"trials\":%ld,\"warmups\":%ld,\"cycles\":%ld,\"stages\":[",
                b->size, b->bytes, b->trials, b->warmups, b->cycles);
    for (int i = 0; file && i < b->stages; i++) fprintf(file, "%s%d", i ? "," : "", b->stage[i]);
    if (file) fprintf(file, "],\"of_ranks\":[\n");
    if (file) fwrite(own->data, 1, own->used, file);
    for (int i = 1; i < b->size; i++) {
        unsigned long long length = 0;
        MPI_Send(&i, 1, MPI_INT, i, 3, MPI_COMM_WORLD);
        MPI_Recv(&length, 1, MPI_UNSIGNED_LONG_LONG, i, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (file) fprintf(file, ",\n");
        while (length > 0) {
            const unsigned long long part = length < 1 << 20 ? length : 1 << 20;
            MPI_Recv(buffer, (int)part, MPI_CHAR, i, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (file) fwrite(buffer, 1, part, file);
            length -= part;
        }
    }
    if (file) fprintf(file, "]}\n");
    if (!file || fflush(file) != 0 || ferror(file) || (file != stdout && fclose(file) != 0)) {
        fprintf(stderr, "polter-latency: %s: the result cannot be written: %s\n", name, strerror(errno));
        failed = 1;
    }
    free(buffer);
    return failed;
}

static polter_noise* open_page(int wanted, int rank) {
    (void)wanted;
    (void)rank;
#ifdef POLTER_LATENCY_NOISE
    char error[600] = "";
    if (!wanted) return NULL;
    polter_session* session = polter_session_open(NULL, error, sizeof error); /* until the process ends */
    polter_noise* page = session ? polter_noise_open(session, error, sizeof error) : NULL;
    if (!page) fprintf(stderr, "polter-latency: rank %d: its noise is not measured: %s\n", rank, error);
    return page;
#else
    return NULL;
#endif
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    struct bench* b = memory(sizeof *b);
    MPI_Comm_rank(MPI_COMM_WORLD, &b->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b->size);
    if (argc != 11) {
        if (b->rank == 0) fprintf(stderr, "polter-latency: is started by polter latency\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    b->bytes = atoi(argv[1]);
    b->trials = atol(argv[2]);
    b->warmups = atol(argv[3]);
    b->cycles = atol(argv[4]);
    b->bins = (struct bins){atoi(argv[5]), atof(argv[6]), atof(argv[7]), 0};
    b->bins.per_e = b->bins.count / log(b->bins.top / b->bins.width);
    b->keep_bins = b->size <= 128;
    const size_t trials = (size_t)b->trials;
    char* names = memory((size_t)b->size * MPI_MAX_PROCESSOR_NAME);
    b->nodes = memory((size_t)b->size * sizeof *b->nodes);
    b->in = memory((size_t)b->bytes);
    b->out = memory((size_t)b->bytes);
    const size_t most = trials > PAIRS_TIMED ? trials : PAIRS_TIMED; /* the cost of samples is measured there too */
    b->times = memory(2 * most * sizeof *b->times);
    b->pairs = memory((most / GROUP + 1) * sizeof *b->pairs);
    b->noise = memory(most * sizeof *b->noise);
    b->own = memory(trials * sizeof *b->own);
    b->peers = memory(trials * sizeof *b->peers);
    b->sorted = memory(trials * sizeof *b->sorted);
    b->hit = memory(trials);
    b->peers_hit = memory(trials);
    b->block_counts = memory(sizeof *b->block_counts * (size_t)b->bins.count);
    histogram_init(&b->timer, &b->bins);
    for (int place = 0; place < PLACES; place++)
        for (int kind = 0; kind < KINDS; kind++) histogram_init(&b->of[place][kind], &b->bins);
    order_stages(b, strtoull(argv[9], NULL, 10));
    const int on_node = find_nodes(b, names);
#ifndef POLTER_LATENCY_SIMULATED
    bind_to_cpu(on_node);
#else
    (void)on_node;
    (void)bind_to_cpu;
#endif
    calibrate(&b->clock);
    b->page = open_page(atoi(argv[8]), b->rank);
    b->own_ns = own_cost(b, PAIRS_TIMED);
    uint64_t before[64] = {0}, after[64] = {0};
    MPI_Barrier(MPI_COMM_WORLD);
    b->began = ticks(&b->clock);
    stolen(b->page, before);
    for (long cycle = 0; cycle < b->cycles; cycle++) {
        for (int i = 0; i < b->stages; i++)
            if ((b->rank ^ b->stage[i]) < b->size) block(b, b->rank ^ b->stage[i], cycle);
        measure_frequency(&b->clock);
    }
    stolen(b->page, after);
    for (int i = 0; i < 64; i++) after[i] -= before[i];
    struct text own = {0};
    describe(b, names, after, &own);
    const int failed = write_all(b, &own, argv[10]);
    MPI_Finalize();
    return failed;
}
