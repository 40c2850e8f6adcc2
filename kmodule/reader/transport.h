/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's end of protocol.h. Internal: used by the session and by the launcher's probe. */
#ifndef POLTER_TRANSPORT_H
#define POLTER_TRANSPORT_H

#include <stddef.h>

#include "../protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A connected close-on-exec socket whose sends and receives wait at most `timeout_ms`; -1 with the reason in `error`. */
int polter_connect(const char* socket_path, polter_u32 timeout_ms, char* error, size_t error_size);

/* Sends one request and takes its reply, both checked for form. A descriptor that came with it goes to *fd (else -1), or is closed
 * where `fd` is NULL. 0, or -1 with the reason; a reply with a status other than POLTER_OK is such a failure. */
int polter_exchange(int socket, const struct polter_request* request, struct polter_reply* reply, int* fd, char* error, size_t error_size);

void polter_request_init(struct polter_request* request, polter_u32 type);

#ifdef __cplusplus
}
#endif
#endif
