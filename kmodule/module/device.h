/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What polter.ko and its clients say to each other: system calls on /dev/polter, opened for reading. Compiled unchanged by both.
 *
 *   STATUS   anybody may ask; changes nothing
 *   PROCESS  registers the calling process, until it ends, execs, or says END
 *   THREAD   registers the calling thread; its page is then mapped, for reading and shared, from any descriptor of the device that the
 *            process has, at slot * page_size
 *   LEAVE    gives the page of a slot back; the slot may be handed out again
 *   END      ends the process's registration
 *   ALIVE    succeeds while the process is registered
 *
 * A registration belongs to the process and not to a descriptor, which may be closed at once: so the module can be unloaded at any time.
 * The pages are then frozen, and stay readable where they are mapped.
 *
 * Errors: ESRCH the process is not registered, EEXIST it or the thread is, ENOSPC its slots are taken (or it asked for too many), EDQUOT
 * the user has his share of the node's processes or pages, EPROTO another version of this interface, EINVAL arguments that make no sense, ENOMEM.
 * Mappings: EACCES for anything but reading, ENXIO where the process has no page.
 *
 * The version changes with any change of layout or meaning.
 */
#ifndef POLTER_DEVICE_H
#define POLTER_DEVICE_H

#ifdef __KERNEL__
#include <linux/ioctl.h>
#else
#include <sys/ioctl.h>
#endif

#include "../page.h"

#define POLTER_DEVICE "/dev/polter"
#define POLTER_DEVICE_VERSION 2u
/* Limits for the node; the module's parameters max_threads and max_processes override them. A user other than root may take half of what
 * other users have left. A thread's page counts until no process maps it any more. */
#define POLTER_DEVICE_MAX_THREADS 16384u
#define POLTER_DEVICE_MAX_PROCESSES 4096u

struct polter_device_status {
	polter_u32 version; /* POLTER_DEVICE_VERSION of the module; the rest may be read if it is the reader's */
	polter_u32 page_size;
	polter_u32 accounts_seen; /* bit set of enum polter_account */
	polter_u32 accounts_net;
	polter_u32 processes; /* registered now */
	polter_u32 threads;
	polter_u64 unseen_switches; /* switches that the tracepoint did not report so far, all threads together */
	polter_u32 pages;            /* pages in memory: of registered threads, and those still mapped after their registration ended */
	polter_u32 padding;
	polter_u64 reserved[3];
	char product_version[32]; /* NUL-terminated */
};

struct polter_device_process {
	polter_u32 version; /* POLTER_DEVICE_VERSION of the caller */
	polter_u32 threads; /* pages that the process may need, at least 1 */
	polter_u64 job;     /* 0: a job of its own; otherwise processes of the same user with the same number form one job */
	polter_u64 reserved[2]; /* zero */
};

#define POLTER_DEVICE_STATUS _IOR('P', 0xe0, struct polter_device_status)
#define POLTER_DEVICE_PROCESS _IOW('P', 0xe1, struct polter_device_process)
#define POLTER_DEVICE_THREAD _IOR('P', 0xe2, polter_u32) /* the slot */
#define POLTER_DEVICE_LEAVE _IOW('P', 0xe3, polter_u32)  /* the slot */
#define POLTER_DEVICE_END _IO('P', 0xe4)
#define POLTER_DEVICE_ALIVE _IO('P', 0xe5)

POLTER_STATIC_ASSERT(sizeof(struct polter_device_status) == 96, "status layout");
POLTER_STATIC_ASSERT(sizeof(struct polter_device_process) == 32, "process layout");

#endif
