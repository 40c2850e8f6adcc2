// SPDX-License-Identifier: BSD-3-Clause
// Reads and writes whole ranges of a file, whatever part the system transfers at a time. False: see errno.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace polter::replay {

// Reads what another part of the program, or another process, wrote. Throws InputError.
using ReadAt = std::function<void(void* to, size_t bytes, int64_t at)>;

inline bool write_all(int fd, const char* data, size_t bytes, int64_t at) {
    while (bytes > 0) {
        const ssize_t written = pwrite(fd, data, bytes, at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        data += written;
        at += written;
        bytes -= static_cast<size_t>(written);
    }
    return true;
}

inline bool read_all(int fd, char* data, size_t bytes, int64_t at) {
    while (bytes > 0) {
        const ssize_t got = pread(fd, data, bytes, at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        data += got;
        at += got;
        bytes -= static_cast<size_t>(got);
    }
    return true;
}

}  // namespace polter::replay
