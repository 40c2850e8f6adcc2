/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What polterd and its clients say to each other: a Unix SOCK_SEQPACKET socket, one fixed-size request, one fixed-size reply, in turn.
 *
 * A connection that sends anything else (another size, magic, version, type, or set reserved bytes) is answered POLTER_BAD_REQUEST and
 * closed. Who the peer is comes from SO_PEERCRED, never from the message. Integers in host order: both ends are on one host.
 *
 *   STATUS   anybody may ask; changes nothing
 *   PROCESS  registers the peer process (once a connection); `job` and `threads` are its arguments
 *   THREAD   registers a thread of the peer process; the reply carries the descriptor of the process's pages (SCM_RIGHTS) and
 *            the slot: the thread's page lies at slot * page_size
 *   LEAVE    gives a thread's page back; the slot may be handed out again
 *
 * The version changes with any change of layout or meaning.
 */
#ifndef POLTER_PROTOCOL_H
#define POLTER_PROTOCOL_H

#include "../page.h"

#define POLTER_PROTOCOL_MAGIC 0x4b4c4154u /* "TALK" in memory order */
#define POLTER_PROTOCOL_VERSION 1u
#define POLTER_DEFAULT_SOCKET "/run/polter/polterd.sock"

#define POLTER_DEFAULT_THREADS 16u
#define POLTER_MAX_THREADS_PROCESS 1024u
#define POLTER_MAX_THREADS 4096u
#define POLTER_MAX_CONNECTIONS 1024u

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
    polter_u64 job;         /* PROCESS: 0: a job of its own; else shared with the same user's processes that give the same */
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
    polter_u64 recursion_misses; /* kernel events that the kernel did not show to the backend; all threads together */
    polter_u64 reserved[4];
    char product_version[32]; /* NUL-terminated, as all text here */
    char text[512];           /* an error's reason; STATUS: what this backend cannot see, and why */
};

POLTER_STATIC_ASSERT(sizeof(struct polter_request) == 64, "request layout");
POLTER_STATIC_ASSERT(sizeof(struct polter_reply) == 632, "reply layout");

#endif
