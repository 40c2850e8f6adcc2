/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank of the latency benchmark counts: histograms, and the text that it gives to rank 0. No memory: the job is aborted. */
#ifndef POLTER_LATENCY_TALLY_H
#define POLTER_LATENCY_TALLY_H

#include <math.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* memory(size_t bytes) {
    void* p = calloc(1, bytes ? bytes : 1);
    if (!p) {
        fprintf(stderr, "polter-latency: no memory for %zu bytes; take fewer --trials\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

/* Logarithmic bins, as analyzers/samples/bins.hpp. */
struct bins {
    int count;
    double width, top, per_e;
};
struct histogram {
    uint64_t *counts, samples, clamped, above;
    double least, most, sum;
};

static void histogram_init(struct histogram* h, const struct bins* bins) {
    memset(h, 0, sizeof *h);
    h->counts = memory(sizeof *h->counts * (size_t)bins->count);
}

static void add(struct histogram* h, const struct bins* bins, double ns) {
    if (ns < 0) ns = 0, h->clamped++;
    int bin = 0;
    if (ns >= bins->top)
        bin = bins->count - 1, h->above++;
    else if (ns > bins->width)
        bin = (int)(bins->per_e * log(ns / bins->width) + 1e-9);
    if (bin >= bins->count) bin = bins->count - 1;
    h->counts[bin]++;
    if (h->samples == 0 || ns < h->least) h->least = ns;
    if (ns > h->most) h->most = ns;
    h->sum += ns;
    h->samples++;
}

/* Text that grows. */
struct text {
    char* data;
    size_t used, room;
};
__attribute__((format(printf, 2, 3))) static void put(struct text* text, const char* format, ...) {
    for (;;) {
        va_list list;
        va_start(list, format);
        const size_t left = text->room - text->used;
        const int length = text->data ? vsnprintf(text->data + text->used, left, format, list) : (int)left;
        va_end(list);
        if (text->data && (size_t)length < left) {
            text->used += (size_t)length;
            return;
        }
        text->room = text->room ? 2 * text->room : 65536;
        text->data = realloc(text->data, text->room);
        if (!text->data) {
            fprintf(stderr, "polter-latency: no memory for the result\n");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

static void put_counts(struct text* out, const uint64_t* counts, int count) {
    const char* comma = "";
    put(out, "[");
    for (int i = 0; i < count; i++)
        if (counts[i]) put(out, "%s[%d,%llu]", comma, i, (unsigned long long)counts[i]), comma = ",";
    put(out, "]");
}

static void put_histogram(struct text* out, const char* name, const struct histogram* h, const struct bins* bins) {
    put(out,
        ",\"%s\":{\"width_ns\":%.17g,\"top_ns\":%.17g,\"bins\":%d,\"samples\":%llu,\"least_ns\":%.17g,\"most_ns\":%.17g,\"mean_ns\":%.17g,"
        "\"clamped\":%llu,\"above_top\":%llu,\"counts\":",
        name, bins->width, bins->top, bins->count, (unsigned long long)h->samples, h->least, h->most,
        h->samples ? h->sum / (double)h->samples : 0, (unsigned long long)h->clamped, (unsigned long long)h->above);
    put_counts(out, h->counts, bins->count);
    put(out, "}");
}

static int ascending(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return x < y ? -1 : x > y;
}

#endif
