/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What node.bpf.c keeps and node.cpp reads: what the operating system did on each CPU, in whatever context, by whom. Values are sums since
 * the CPU's measuring began; the program of a CPU writes its own entries only.
 */
#ifndef POLTER_NODE_H
#define POLTER_NODE_H

#include "../accounting/state.h"
#include "../observation/histogram.h"

/* Beside the accounts of page.h: a task had the CPU from one switch to the next, net of interruptions. */
#define POLTER_NODE_RAN POLTER_ACCOUNT_SLOTS

/* What kind of name stands in an entry. */
enum polter_culprit_kind {
    POLTER_CULPRIT_NAME = 0, /* a task's, an interrupt's, a softirq's */
    POLTER_CULPRIT_WORK = 1, /* a work item of a kernel worker: its function's address in the last 8 bytes of the name */
    POLTER_CULPRIT_IDLE = 2  /* no task */
};

struct polter_node_key {
    polter_u32 cpu;
    unsigned char account; /* enum polter_account, or POLTER_NODE_RAN */
    unsigned char idle;    /* 1: it hit a CPU that ran no task */
    unsigned char kind;    /* enum polter_culprit_kind */
    unsigned char padding;
    char name[POLTER_CULPRIT_LEN];
};

struct polter_node_stats {
    polter_u64 count;
    polter_u64 total_ns;
    polter_u64 max_ns;
    polter_u32 bin[POLTER_BINS]; /* histogram.h; empty for accounts without times */
    polter_u32 padding;
};

/* The function of a work item, by its address. */
#define POLTER_FUNCTION_LEN 64
struct polter_function {
    char name[POLTER_FUNCTION_LEN];
};

/* One CPU. */
struct polter_node_cpu {
    struct polter_cpu cpu;                      /* first, so that a pointer to it is one to this */
    struct polter_thread self;                  /* whose interruptions nest: the CPU's, whatever it runs */
    polter_u64 begin_ns;                        /* of measuring; 0: not yet */
    polter_u64 end_ns;                          /* 0 while it goes on */
    polter_u64 interrupted_ns;                  /* by interruptions, all together */
    polter_u64 interrupted_before_ns;           /* of it, before the current task came */
    polter_u64 interrupted_now_ns;              /* of it, when the clock was last read for a task's time */
    polter_u64 work;                            /* the function that the current task, a worker, executes; 0: none */
    polter_u64 not_booked[POLTER_NODE_RAN + 1]; /* events that found no room in the table, by account */
    polter_u64 not_booked_ns[POLTER_NODE_RAN + 1];
    polter_u64 not_followed; /* waits of tasks for which there was no room */
    polter_u32 fresh;        /* 1 until the first interruption begins: what ends before had begun before */
    polter_u32 closing;      /* 1: no further interruption begins or ends */
};

#endif
