// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "daemon_fixture.hpp"
#include "transport.h"

// A connection that says what it likes.
struct Raw {
    int fd;
    char error[600] = "";
    polter_reply reply{};
    explicit Raw(const std::string& socket) { fd = polter_connect(socket.c_str(), answer_ms, error, sizeof error); }
    ~Raw() {
        if (fd >= 0) close(fd);
    }
    Raw(const Raw&) = delete;

    static polter_request request(polter_u32 type, polter_s32 tid = 0, polter_u32 threads = 0) {
        polter_request r;
        polter_request_init(&r, type);
        r.tid = tid;
        r.threads = threads;
        return r;
    }
    // The status answered; -1 if there was no answer.
    int ask(const polter_request& r, int* descriptor = nullptr) {
        reply = {};
        const int result = polter_exchange(fd, &r, &reply, descriptor, error, sizeof error);
        return result == 0 ? 0 : reply.status ? static_cast<int>(reply.status) : -1;
    }
    bool closed_by_daemon() {
        char byte;
        return recv(fd, &byte, 1, 0) == 0;
    }
};

inline polter_s32 tid() {
    return static_cast<polter_s32>(syscall(SYS_gettid));
}
