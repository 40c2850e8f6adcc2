// SPDX-License-Identifier: BSD-3-Clause
#include "standard_streams.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace polter::launch {
namespace {

constexpr int patience_ms = 1000;  // with a non-blocking standard error whose reader is slow

struct sigaction before {};
bool ignored = false;

}  // namespace

void open_closed_streams() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            const int null = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // the lowest free one: this one
            if (null > STDERR_FILENO) close(null);
        }
}

void ignore_broken_pipes() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    if (!ignored) ignored = sigaction(SIGPIPE, &ignore, &before) == 0;
}

void restore_broken_pipes() {
    if (ignored) sigaction(SIGPIPE, &before, nullptr);
}

void write_message(std::string_view text) noexcept {
    while (!text.empty()) {
        const auto written = write(STDERR_FILENO, text.data(), text.size());
        if (written > 0) {
            text.remove_prefix(static_cast<size_t>(written));
        } else if (written < 0 && errno == EAGAIN) {
            pollfd wait{STDERR_FILENO, POLLOUT, 0};
            if (poll(&wait, 1, patience_ms) <= 0) return;
        } else if (written == 0 || errno != EINTR) {
            return;
        }
    }
}

}  // namespace polter::launch
