/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's end of module/device.h. Internal: used by the session and by the launcher's probe. Paths are those of the device; failures
 * give the reason in `error`. */
#ifndef POLTER_READER_DEVICE_H
#define POLTER_READER_DEVICE_H

#include <stddef.h>

#include "../module/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether clients that are given no path use the device: the module is loaded, and may be asked by this process. */
int polter_device_is_there(void);
/* Whether the path leads to a device, so that it is no socket. */
int polter_is_device(const char* path);

int polter_device_status(const char* path, struct polter_device_status* status, char* error, size_t error_size);
/* Registers this process. 0 or -1. */
int polter_device_register(const char* path, polter_u64 job, polter_u32 threads, char* error, size_t error_size);
void polter_device_end(const char* path);
/* Whether the module still serves this process; also where that cannot be seen. */
int polter_device_alive(const char* path);
/* Registers the calling thread. A descriptor in which its page lies at *slot * POLTER_PAGE_SIZE, or -1. */
int polter_device_thread(const char* path, polter_u32* slot, char* error, size_t error_size);
void polter_device_leave(const char* path, polter_u32 slot);

#ifdef __cplusplus
}
#endif
#endif
