/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The accounts as metrics of Score-P, under the names and the unit of Poltergeist's own traces: a trace that Score-P writes with them can
 * be replayed. SCOREP_METRIC_PLUGINS=polter_scorep SCOREP_METRIC_POLTER_SCOREP='*' (all that the exporter measures), or names of accounts.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scorep_interface.h"
#include "thread_noise.h"

static int32_t initialize(void) {
    return polter_thread_noise_available() ? 0 : -1;
}

static void finalize(void) {} /* a thread's page goes with the thread, the session with the process */

/* The account of that name, POLTER_ACCOUNTS if there is none. */
static unsigned account_of(const char* name) {
    unsigned account = 0;
    while (account < POLTER_ACCOUNTS && strcmp(name, polter_thread_noise_name(account)) != 0) account++;
    return account;
}

static struct scorep_metric metric_of(unsigned account) {
    return (struct scorep_metric){.name = strdup(polter_thread_noise_name(account)),
                                  .description = strdup(account < POLTER_FIRST_SERVICE ? "time stolen by the operating system"
                                                                                       : "time in a service of the operating system"),
                                  .mode = SCOREP_MODE_ACCUMULATED_START,
                                  .value_type = SCOREP_VALUE_UINT64,
                                  .base = SCOREP_BASE_DECIMAL,
                                  .unit = strdup("ns")};
}

static void warn(const char* token, polter_u32 seen) {
    fprintf(stderr, "polter: SCOREP_METRIC_POLTER_SCOREP: %s is not measured here; there are: *", token);
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++)
        if (seen >> a & 1) fprintf(stderr, ", %s", polter_thread_noise_name(a));
    fprintf(stderr, "\n");
}

static struct scorep_metric* get_event_info(char* token) {
    struct scorep_metric* metrics = calloc(POLTER_ACCOUNTS + 1, sizeof *metrics);
    if (!metrics) abort(); /* as Score-P does without memory */
    const polter_u32 seen = polter_thread_noise_seen();
    const unsigned wanted = account_of(token);
    const bool all = strcmp(token, "*") == 0;
    size_t count = 0;
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++)
        if ((all || a == wanted) && (seen >> a & 1)) metrics[count++] = metric_of(a);
    if (count == 0) warn(token, seen);
    return metrics;
}

static int32_t add_counter(char* metric) {
    const unsigned account = account_of(metric);
    if (account == POLTER_ACCOUNTS) return -1;
    polter_thread_noise_ns(account); /* counts from now on */
    return (int32_t)account;
}

static uint64_t get_current_value(int32_t id) {
    return polter_thread_noise_ns((unsigned)id);
}

__attribute__((visibility("default"))) struct scorep_plugin SCOREP_MetricPlugin_polter_scorep_get_info(void) {
    return (struct scorep_plugin){.version = SCOREP_PLUGIN_VERSION,
                                  .run_per = SCOREP_PER_THREAD,
                                  .synchronicity = SCOREP_STRICTLY_SYNC,
                                  .initialize = initialize,
                                  .finalize = finalize,
                                  .get_event_info = get_event_info,
                                  .add_counter = add_counter,
                                  .get_current_value = get_current_value};
}
