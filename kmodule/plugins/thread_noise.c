/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "thread_noise.h"

#include <noise.h>
#include <pthread.h>
#include <stdio.h>

enum { NAME_SIZE = 40 };

struct thread_noise {
    polter_noise* noise;
    struct polter_counters begin, now;
    bool opened; /* or tried */
};

static _Thread_local struct thread_noise own;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static polter_session* session;
static bool tried;
static char names[POLTER_ACCOUNTS][NAME_SIZE];

static void thread_ends(void* noise) {
    polter_noise_close(noise);
    own.noise = NULL;
}

/* The registration is the parent's; the child's one thread begins anew. Its page was not inherited. */
static void child_begins(void) {
    pthread_mutex_init(&lock, NULL);
    pthread_setspecific(key, NULL);
    session = NULL;
    tried = false;
    own = (struct thread_noise){0};
}

static void prepare(void) {
    pthread_key_create(&key, thread_ends);
    pthread_atfork(NULL, NULL, child_begins);
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++)
        snprintf(names[a], sizeof names[a], "%s:%s", polter_account_is_service(a) ? "os-service" : "os", polter_account_name(a));
}

bool polter_thread_noise_available(void) {
    pthread_once(&once, prepare);
    pthread_mutex_lock(&lock);
    if (!tried) {
        tried = true;
        char why[800];
        session = polter_session_open(NULL, why, sizeof why);
        if (!session) fprintf(stderr, "polter: operating-system noise is not measured in this process: %s\n", why);
    }
    const bool available = session != NULL;
    pthread_mutex_unlock(&lock);
    return available;
}

static void open_page(void) {
    own.opened = true;
    if (!polter_thread_noise_available()) return;
    char why[800];
    own.noise = polter_noise_open(session, why, sizeof why);
    if (!own.noise) {
        fprintf(stderr, "polter: operating-system noise is not measured in a thread: %s\n", why);
        return;
    }
    pthread_setspecific(key, own.noise);
    polter_noise_snapshot(own.noise, &own.begin);
    own.now = own.begin;
}

polter_u32 polter_thread_noise_seen(void) {
    if (!own.opened) open_page();
    const struct polter_page_header* header = own.noise ? polter_noise_header(own.noise) : NULL;
    return header ? (polter_u32)header->accounts_seen : 0;
}

polter_u64 polter_thread_noise_ns(unsigned account) {
    if (!own.opened) open_page();
    if (!own.noise || account >= POLTER_ACCOUNTS) return 0;
    if (polter_noise_moved(own.noise)) polter_noise_snapshot(own.noise, &own.now);
    return own.now.ns[account] - own.begin.ns[account];
}

const char* polter_thread_noise_name(unsigned account) {
    pthread_once(&once, prepare);
    return account < POLTER_ACCOUNTS ? names[account] : NULL;
}
