/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "transport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

void polter_request_init(struct polter_request* request, polter_u32 type) {
    memset(request, 0, sizeof *request);
    request->magic = POLTER_PROTOCOL_MAGIC;
    request->version = POLTER_PROTOCOL_VERSION;
    request->type = type;
}

int polter_connect(const char* socket_path, polter_u32 timeout_ms, char* error, size_t error_size) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(socket_path) >= sizeof address.sun_path) {
        snprintf(error, error_size, "socket path %s: longer than the %zu bytes that Unix sockets allow; choose a shorter one", socket_path,
                 sizeof address.sun_path - 1);
        return -1;
    }
    strcpy(address.sun_path, socket_path);
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (s < 0) {
        snprintf(error, error_size, "no Unix socket to be had: %s", strerror(errno));
        return -1;
    }
    /* The send timeout bounds connect() too, which waits while the daemon's backlog is full. */
    struct timeval limit = {.tv_sec = timeout_ms / 1000, .tv_usec = (timeout_ms % 1000) * 1000};
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    int result;
    do result = connect(s, (const struct sockaddr*)&address, sizeof address);
    while (result < 0 && errno == EINTR);
    if (result < 0) {
        int e = errno;
        const char* todo = e == EACCES                          ? "; ask its owner for access"
                           : (e == ENOENT || e == ECONNREFUSED) ? "; no polterd runs there: start one, or give another socket"
                                                                : "";
        snprintf(error, error_size, "cannot connect to polterd at %s: %s%s", socket_path, strerror(e), todo);
        close(s);
        return -1;
    }
    return s;
}

/* Closes all descriptors of a message but, where wanted, the first. */
static int take_descriptor(struct msghdr* message, int keep) {
    int kept = -1;
    for (struct cmsghdr* c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (keep && kept < 0)
                kept = fd;
            else
                close(fd);
        }
    }
    return kept;
}

/* With this process's credentials, which the kernel checks: a daemon that is started by this connection has not asked for them yet. */
static ssize_t send_request(int s, const struct polter_request* request) {
    const struct ucred self = {.pid = getpid(), .uid = getuid(), .gid = getgid()};
    struct iovec data = {.iov_base = (void*)request, .iov_len = sizeof *request};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof self)];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_CREDENTIALS;
    header->cmsg_len = CMSG_LEN(sizeof self);
    memcpy(CMSG_DATA(header), &self, sizeof self);
    return sendmsg(s, &message, MSG_NOSIGNAL);
}

int polter_exchange(int s, const struct polter_request* request, struct polter_reply* reply, int* fd, char* error, size_t error_size) {
    ssize_t n;
    if (fd) *fd = -1;
    do n = send_request(s, request);
    while (n < 0 && errno == EINTR);
    const int send_error = n < 0 ? errno : 0;
    /* A daemon that takes no more requests from here on may have said why. */
    if (n != (ssize_t)sizeof *request && send_error != EPIPE) {
        snprintf(error, error_size, "polterd does not take requests any more: %s", n < 0 ? strerror(send_error) : "short send");
        return -1;
    }
    struct iovec data = {.iov_base = reply, .iov_len = sizeof *reply};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    do n = recvmsg(s, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        snprintf(error, error_size, "polterd does not answer: %s", errno == EAGAIN ? "timed out" : strerror(errno));
        shutdown(s, SHUT_RDWR); /* what it answers later would be taken for the answer to the next request */
        return -1;
    }
    int received = take_descriptor(&message, fd != NULL);
    const char* wrong = NULL;
    if (n == 0)
        wrong = send_error ? "polterd does not take requests any more" : "polterd closed the connection; see its messages";
    else if (n != (ssize_t)sizeof *reply || (message.msg_flags & MSG_TRUNC) || reply->magic != POLTER_PROTOCOL_MAGIC)
        wrong = "what answered is not polterd; check the socket path";
    else if (reply->version != POLTER_PROTOCOL_VERSION)
        wrong = "polterd speaks another version of the protocol; use the polterd of this installation";
    if (!wrong) {
        reply->text[sizeof reply->text - 1] = reply->product_version[sizeof reply->product_version - 1] = 0;
        if (reply->status != POLTER_OK)
            wrong = reply->text[0] ? reply->text : "polterd refused without a reason";
        else if (reply->type != request->type)
            wrong = "polterd answered another request";
    }
    if (wrong) {
        if (received >= 0) close(received);
        snprintf(error, error_size, "%s", wrong);
        return -1;
    }
    if (fd) *fd = received;
    return 0;
}
