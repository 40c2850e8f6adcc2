/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The binary interface of Score-P's metric plug-ins, version 1 (Score-P 2.0 and later), so that the plug-in is built without Score-P.
 * Names, layout and values are those of SCOREP_MetricPlugins.h and SCOREP_MetricTypes.h; only what the plug-in uses has a name of its own
 * here.
 *
 * Score-P opens lib<NAME>.so by dlopen and calls SCOREP_MetricPlugin_<NAME>_get_info(), which returns the structure by value: its size is
 * part of the interface.
 */
#ifndef POLTER_SCOREP_INTERFACE_H
#define POLTER_SCOREP_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCOREP_PLUGIN_VERSION = 1 };
enum { SCOREP_PER_THREAD = 0 };             /* SCOREP_MetricPer */
enum { SCOREP_STRICTLY_SYNC = 0 };          /* SCOREP_MetricSynchronicity: a value at each enter and leave */
enum { SCOREP_MODE_ACCUMULATED_START = 0 }; /* SCOREP_MetricMode */
enum { SCOREP_VALUE_UINT64 = 1 };           /* SCOREP_MetricValueType */
enum { SCOREP_BASE_DECIMAL = 1 };           /* SCOREP_MetricBase */

/* SCOREP_Metric_Plugin_MetricProperties. A list of them ends with one without a name. The list and its strings become Score-P's, which
 * releases them with free(). */
struct scorep_metric {
    char* name;
    char* description;
    int32_t mode, value_type, base;
    int64_t exponent;
    char* unit;
};

/* SCOREP_Metric_Plugin_Info. */
struct scorep_plugin {
    uint32_t version;
    int32_t run_per, synchronicity;
    uint64_t least_interval;                              /* not used where strictly synchronous */
    int32_t (*initialize)(void);                          /* once a process; 0: it can be used */
    void (*finalize)(void);                               /* once a process */
    struct scorep_metric* (*get_event_info)(char* token); /* once for each that the user named; must not return NULL */
    int32_t (*add_counter)(char* metric);                 /* in each thread, for each metric; its id, negative: refused */
    uint64_t (*get_current_value)(int32_t id);            /* in the thread */
    bool (*get_optional_value)(int32_t id, uint64_t* value);
    void (*set_clock_function)(uint64_t (*clock)(void));
    uint64_t (*get_all_values)(int32_t id, void** values);
    void (*synchronize)(bool is_responsible, int32_t mode);
    uint64_t reserved[92]; /* zero */
};

_Static_assert(offsetof(struct scorep_metric, exponent) == 32 && sizeof(struct scorep_metric) == 48, "as in Score-P");
_Static_assert(offsetof(struct scorep_plugin, initialize) == 24 && sizeof(struct scorep_plugin) == 832, "as in Score-P");

#endif
