/* SPDX-License-Identifier: BSD-3-Clause */
/* Registration with the kernel module or with polterd, or with neither: the process once, then each thread that wants a page. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"
#include "handle.h"
#include "own.h"
#include "transport.h"

enum kind { MODULE, DAEMON, PERF, PROC };

struct polter_session {
    enum kind kind;
    unsigned backend;     /* enum polter_backend */
    int socket;           /* DAEMON */
    pid_t pid;            /* the process that registered: a forked child does not share the registration */
    pthread_mutex_t lock; /* one exchange at a time */
    char device[256];     /* MODULE: its path */
    char lacks[768];      /* why a better tier was not available */
    char tracepoints[1024];
};

/* The job from the environment: hexadecimal, with or without 0x. 0 if there is none; -1 if it is none. */
static int job_from_environment(polter_u64* job, char* error, size_t error_size) {
    const char* text = getenv("POLTER_JOB");
    *job = 0;
    if (!text || !*text) return 0;
    char* end;
    errno = 0;
    *job = strtoull(text, &end, 16);
    if (*end || errno) {
        snprintf(error, error_size, "POLTER_JOB=%s is not a hexadecimal number of at most 64 bits", text);
        return -1;
    }
    return 0;
}

static const char* chosen(const char* option, const char* variable, const char* otherwise) {
    if (option && *option) return option;
    const char* text = getenv(variable);
    return text && *text ? text : otherwise;
}

static int open_module(polter_session* session, const char* path, const struct polter_noise_options* options, char* error,
                       size_t error_size) {
    polter_u64 job = options->job;
    if (!job && job_from_environment(&job, error, error_size) < 0) return -1;
    if (snprintf(session->device, sizeof session->device, "%s", path) >= (int)sizeof session->device) {
        snprintf(error, error_size, "the path of the device is longer than %zu bytes", sizeof session->device - 1);
        return -1;
    }
    if (polter_device_register(path, job, options->threads ? options->threads : POLTER_DEFAULT_THREADS, error, error_size) < 0) return -1;
    session->kind = MODULE;
    session->backend = POLTER_BACKEND_MODULE;
    return 0;
}

static int open_daemon(polter_session* session, const char* path, const struct polter_noise_options* options, char* error,
                       size_t error_size) {
    struct polter_request request;
    struct polter_reply reply;
    polter_request_init(&request, POLTER_REQUEST_PROCESS);
    request.threads = options->threads ? options->threads : POLTER_DEFAULT_THREADS;
    request.job = options->job;
    if (!request.job && job_from_environment(&request.job, error, error_size) < 0) return -1;
    session->kind = DAEMON;
    session->socket = polter_connect(path, options->timeout_ms ? options->timeout_ms : POLTER_DEFAULT_TIMEOUT_MS, error, error_size);
    if (session->socket < 0) return -1;
    if (polter_exchange(session->socket, &request, &reply, NULL, error, error_size) == 0) {
        session->backend = reply.backend;
        return 0;
    }
    close(session->socket);
    session->socket = -1;
    return -1;
}

/* Whether this thread can be measured so. */
static int try_own(polter_session* session, enum kind kind, char* error, size_t error_size) {
    struct polter_own* own = kind == PERF ? polter_perf_own(NULL, error, error_size) : polter_proc_own(error, error_size);
    if (!own) return -1;
    session->backend = own->page->header.backend;
    own->tier->close(own);
    session->kind = kind;
    return 0;
}

static void lacks(polter_session* session, const char* what, const char* why) {
    const size_t used = strlen(session->lacks);
    snprintf(session->lacks + used, sizeof session->lacks - used, "%s%s: %s", used ? "; " : "", what, why);
}

static int open_best(polter_session* session, const struct polter_noise_options* options, char* error, size_t error_size) {
    const char* exporter = chosen(options->exporter, "POLTER_EXPORTER", "auto");
    const char* path = chosen(options->socket_path, "POLTER_SOCKET", NULL);
    const int any = !strcmp(exporter, "auto") && !path;
    const int own = !strcmp(exporter, "perf") || !strcmp(exporter, "proc");
    const int module = path ? polter_is_device(path) : !strcmp(exporter, "module") || (any && polter_device_is_there());
    if (!own && module) {
        if (open_module(session, path ? path : POLTER_DEVICE, options, error, error_size) == 0) return 0;
        if (!any) return -1;
        lacks(session, "module", error);
    }
    if (!own) {
        if (open_daemon(session, path ? path : POLTER_DEFAULT_SOCKET, options, error, error_size) == 0) return 0;
        if (!any) return -1;
        lacks(session, "bpf", error);
    }
    snprintf(session->tracepoints, sizeof session->tracepoints, "%s", chosen(options->tracepoints, "POLTER_TRACEPOINTS", ""));
    if (any || !strcmp(exporter, "perf")) {
        if (try_own(session, PERF, error, error_size) == 0) return 0;
        lacks(session, "perf", error);
    }
    if (try_own(session, PROC, error, error_size) == 0) return 0;
    lacks(session, "proc", error);
    snprintf(error, error_size, "%s", session->lacks);
    return -1;
}

polter_session* polter_session_open(const struct polter_noise_options* options, char* error, size_t error_size) {
    static const struct polter_noise_options defaults;
    if (!options) options = &defaults;
    polter_session* session = calloc(1, sizeof *session);
    if (!session) {
        snprintf(error, error_size, "no memory for a session");
        return NULL;
    }
    session->pid = getpid();
    session->socket = -1;
    session->kind = PROC;
    pthread_mutex_init(&session->lock, NULL);
    if (open_best(session, options, error, error_size) == 0) return session;
    polter_session_close(session);
    return NULL;
}

void polter_session_close(polter_session* session) {
    if (!session) return;
    if (session->socket >= 0) close(session->socket);
    if (session->kind == MODULE && session->pid == getpid()) polter_device_end(session->device);
    pthread_mutex_destroy(&session->lock);
    free(session);
}

int polter_session_alive(const polter_session* session) {
    char byte;
    if (!session || session->pid != getpid()) return 0;
    if (session->kind == MODULE) return polter_device_alive(session->device);
    if (session->kind != DAEMON) return 1;
    ssize_t n = recv(session->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

unsigned polter_session_backend(const polter_session* session) {
    return session->backend;
}

const char* polter_session_lacks(const polter_session* session) {
    return session->lacks;
}

polter_u64 polter_noise_ended_ns(const polter_noise* noise) {
    const struct polter_page_header* h = noise->header;
    if (!h) return 0;
    const int alive = !noise->session || polter_session_alive(noise->session);
    /* Looked at after the daemon, which freezes its pages before it goes. */
    if (__atomic_load_n(&h->state, __ATOMIC_ACQUIRE) == POLTER_PAGE_FROZEN) return h->end_ns;
    if (alive) return 0;
    const polter_u64 updated = noise->copies[__atomic_load_n(&h->seq, __ATOMIC_ACQUIRE) & 1].updated_ns;
    return updated ? updated : h->start_ns;
}

static int map_page(polter_noise* noise, int fd, polter_u32 at, char* error, size_t error_size) {
    noise->mapping_size = POLTER_PAGE_SIZE;
    void* page = mmap(NULL, noise->mapping_size, PROT_READ, MAP_SHARED, fd, (off_t)at * POLTER_PAGE_SIZE);
    if (page == MAP_FAILED) {
        snprintf(error, error_size, "cannot map the noise page: %s", strerror(errno));
        return -1;
    }
    noise->mapping = page;
    /* A child must not take its parent's noise for its own: it does not get the page, and finds its handle wiped. */
    if (madvise(noise, noise->handle_size, MADV_WIPEONFORK) == 0) madvise(page, noise->mapping_size, MADV_DONTFORK);
    return polter_handle_attach(noise, page, noise->mapping_size, error, error_size);
}

static void leave(polter_session* session, polter_s32 tid, polter_u32 slot) {
    if (session->kind == MODULE) {
        polter_device_leave(session->device, slot);
        return;
    }
    struct polter_request request;
    struct polter_reply reply;
    char ignored[8]; /* a daemon that is gone has ended the registration already */
    polter_request_init(&request, POLTER_REQUEST_LEAVE);
    request.tid = tid;
    request.slot = slot;
    pthread_mutex_lock(&session->lock);
    polter_exchange(session->socket, &request, &reply, NULL, ignored, sizeof ignored);
    pthread_mutex_unlock(&session->lock);
}

/* Registers the calling thread with the daemon. The descriptor of its page, or -1. */
static int daemon_thread(polter_session* session, polter_s32 tid, polter_u32* slot, char* error, size_t error_size) {
    struct polter_request request;
    struct polter_reply reply;
    int fd = -1;
    polter_request_init(&request, POLTER_REQUEST_THREAD);
    request.tid = tid;
    pthread_mutex_lock(&session->lock);
    int result = polter_exchange(session->socket, &request, &reply, &fd, error, error_size);
    pthread_mutex_unlock(&session->lock);
    if (result < 0) return -1;
    *slot = reply.slot;
    if (fd < 0) {
        snprintf(error, error_size, "polterd registered the thread but sent no page");
    } else if (reply.page_size != POLTER_PAGE_SIZE || reply.slot >= POLTER_MAX_THREADS_PROCESS) {
        snprintf(error, error_size, "polterd gave a page of %u bytes, expected are %u; exporter and reader must be of one installation",
                 reply.page_size, POLTER_PAGE_SIZE);
        close(fd);
        fd = -1;
    }
    if (fd < 0) leave(session, tid, reply.slot);
    return fd;
}

static int open_own(polter_session* session, polter_noise* noise, char* error, size_t error_size) {
    struct polter_own* own =
        session->kind == PERF ? polter_perf_own(session->tracepoints, error, error_size) : polter_proc_own(error, error_size);
    if (!own) return -1;
    madvise(noise, noise->handle_size, MADV_WIPEONFORK);
    if (polter_handle_attach(noise, own->page, POLTER_PAGE_SIZE, error, error_size) < 0) {
        own->tier->close(own);
        return -1;
    }
    noise->own = own;
    noise->session = session;
    noise->tid = own->account.tid;
    return 0;
}

static int open_page(polter_session* session, polter_noise* noise, char* error, size_t error_size) {
    noise->tid = (polter_s32)syscall(SYS_gettid);
    const int fd = session->kind == MODULE ? polter_device_thread(session->device, &noise->slot, error, error_size)
                                           : daemon_thread(session, noise->tid, &noise->slot, error, error_size);
    if (fd < 0) return -1;
    /* The daemon gives each page alone, the module a device with all of them. */
    const int result = map_page(noise, fd, session->kind == MODULE ? noise->slot : 0, error, error_size);
    close(fd);
    if (result < 0) {
        leave(session, noise->tid, noise->slot);
        if (noise->mapping) munmap(noise->mapping, noise->mapping_size);
        return -1;
    }
    noise->session = session;
    return 0;
}

polter_noise* polter_noise_open(polter_session* session, char* error, size_t error_size) {
    if (!session || session->pid != getpid()) {
        snprintf(error, error_size, "this session is %s; open one in this process",
                 session ? "of the process that forked this one" : "none");
        return NULL;
    }
    polter_noise* noise = polter_handle_new(error, error_size);
    if (!noise) return NULL;
    const int result = session->kind == MODULE || session->kind == DAEMON ? open_page(session, noise, error, error_size)
                                                                          : open_own(session, noise, error, error_size);
    if (result == 0) return noise;
    polter_handle_free(noise);
    return NULL;
}

void polter_noise_close(polter_noise* noise) {
    if (!noise) return;
    if (noise->own) {
        if (noise->tid != (polter_s32)syscall(SYS_gettid)) return;
        noise->own->tier->close(noise->own);
    }
    if (noise->mapping) {
        munmap(noise->mapping, noise->mapping_size);
        leave(noise->session, noise->tid, noise->slot);
    }
    polter_handle_free(noise);
}
