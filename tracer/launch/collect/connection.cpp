// SPDX-License-Identifier: BSD-3-Clause
#include "connection.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "../launch.hpp"

namespace polter::launch::collect {
namespace {

void wait_for(int socket, short what, int patience_s) {
    pollfd one{socket, what, 0};
    const int ready = poll(&one, 1, patience_s * 1000);
    if (ready == 0) throw Error(fmt::format("the connection has been silent for {} s", patience_s));
    if (ready < 0 && errno != EINTR) throw Error(fmt::format("the connection failed: {}", std::strerror(errno)));
}

}  // namespace

Connection::~Connection() {
    close(socket_);
}

size_t Connection::fill(int patience_s) {
    for (char block[64 * 1024];;) {
        wait_for(socket_, POLLIN, patience_s);
        const ssize_t got = recv(socket_, block, sizeof block, MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) throw Error(fmt::format("the connection failed: {}", std::strerror(errno)));
        if (got == 0) throw Error("the connection ended too early");
        come_.append(block, static_cast<size_t>(got));
        return static_cast<size_t>(got);
    }
}

std::string Connection::line(int patience_s) {
    size_t end;
    while ((end = come_.find('\n')) == std::string::npos) {
        if (come_.size() > longest_line) throw Error("what came is not what polter-collect sends");
        fill(patience_s);
    }
    std::string out = come_.substr(0, end);
    come_.erase(0, end + 1);
    return out;
}

size_t Connection::read(char* to, size_t most) {
    if (come_.empty()) fill(silence_s);
    const size_t size = std::min(most, come_.size());
    std::memcpy(to, come_.data(), size);
    come_.erase(0, size);
    return size;
}

void Connection::write(const char* from, size_t size) {
    while (size) {
        wait_for(socket_, POLLOUT, silence_s);
        const ssize_t sent = send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (sent < 0) throw Error(fmt::format("the connection failed: {}", std::strerror(errno)));
        from += sent;
        size -= static_cast<size_t>(sent);
    }
}

}  // namespace polter::launch::collect
