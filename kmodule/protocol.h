/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol between polterd and its clients: a Unix SOCK_SEQPACKET socket, one fixed-size request, one fixed-size reply, in turn.
 *
 * A connection that sends anything else (another size, magic, version, type, or set reserved bytes) is answered POLTER_BAD_REQUEST and
 * closed. Who the peer is comes from SO_PEERCRED, never from the message, and only that process may use the connection: what a forked child
 * sends, or another process that was given the descriptor, is refused. A client reads the reply before it sends the next request; one that
 * does not is closed. Integers in host order: both ends are on one host.
 *
 *   STATUS   anybody may ask; changes nothing
 *   PROCESS  registers the peer process (once a connection); `job` and `threads` are its arguments
 *   THREAD   registers a thread of the peer process; the reply carries the descriptor of the thread's page (SCM_RIGHTS) and
 *            the slot, by which it is given back
 *   LEAVE    gives a thread's page back; the slot may be handed out again
 *
 * The version changes with any change of layout or meaning.
 */
#ifndef POLTER_PROTOCOL_H
#define POLTER_PROTOCOL_H

#include "../page.h"

#define POLTER_PROTOCOL_MAGIC 0x4b4c4154u /* "TALK" in memory order */
#define POLTER_PROTOCOL_VERSION 2u
#define POLTER_DEFAULT_SOCKET "/run/polter/polterd.sock"

/* Timeout of one answer: a daemon serves thousands of concurrent requests in about a second, on a busy node in a few. */
#define POLTER_DEFAULT_TIMEOUT_MS 10000u
#define POLTER_DEFAULT_THREADS 16u
/* Limits for the node. One user may take half of what the others leave: a single user gets 5120 threads and 2048 connections. */
#define POLTER_MAX_THREADS_PROCESS 4096u
#define POLTER_MAX_THREADS 10240u
#define POLTER_MAX_CONNECTIONS 4096u
#define POLTER_MAX_DESCRIPTORS 10240u /* that the daemon has open: two a connection, and pages that are ready */

enum polter_request_type { POLTER_REQUEST_STATUS = 1, POLTER_REQUEST_PROCESS, POLTER_REQUEST_THREAD, POLTER_REQUEST_LEAVE };

enum polter_reply_status {
    POLTER_OK = 0,
    POLTER_BAD_REQUEST = 1,   /* not this protocol, or out of turn; the connection is closed */
    POLTER_NOT_PERMITTED = 2, /* the thread is not one of the peer's */
    POLTER_NO_ROOM = 3,       /* a limit is reached; `text` says which */
    POLTER_ALREADY = 4,       /* this process or thread is registered */
    POLTER_BACKEND_FAILED = 5 /* the kernel refused; `text` says what */
};

struct polter_request {
    polter_u32 magic;
    polter_u32 version;
    polter_u32 type;        /* enum polter_request_type */
    polter_u32 threads;     /* PROCESS: how many pages at most; 0: POLTER_DEFAULT_THREADS */
    polter_u64 job;         /* PROCESS: 0: a job of its own; otherwise processes of the same user with the same number form one job */
    polter_s32 tid;         /* THREAD, LEAVE: as the peer sees it, in its own pid namespace */
    polter_u32 slot;        /* LEAVE: from the reply to THREAD */
    polter_u64 reserved[4]; /* zero */
};

struct polter_reply {
    polter_u32 magic;
    polter_u32 version;
    polter_u32 type;   /* of the request answered; 0 where it was unreadable */
    polter_u32 status; /* enum polter_reply_status */
    polter_u32 slot;   /* THREAD */
    polter_u32 page_size;
    polter_u32 backend;       /* enum polter_backend */
    polter_u32 accounts_seen; /* bit set of enum polter_account */
    polter_u32 accounts_net;
    polter_u32 processes; /* registered now */
    polter_u32 threads;
    polter_s32 daemon_pid;
    polter_u64 recursion_misses; /* kernel events that the kernel did not report to the backend; all threads together */
    polter_u64 reserved[4];
    char product_version[32]; /* NUL-terminated, as all text here */
    char text[512];           /* an error's reason; STATUS: what this backend cannot see, and why */
};

POLTER_STATIC_ASSERT(sizeof(struct polter_request) == 64, "request layout");
POLTER_STATIC_ASSERT(sizeof(struct polter_reply) == 632, "reply layout");

#endif
