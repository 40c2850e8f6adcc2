// SPDX-License-Identifier: BSD-3-Clause
#include "listener.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace polter::daemon {
namespace {

// Another process may unlink the file between our open and our lock. Such a lock protects nothing, so try again.
int take_lock(const std::string& path, int& error) {
    for (int tries = 0; tries < 10; tries++) {
        const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) {
            error = errno;
            return -1;
        }
        struct stat ours, there;
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            error = errno;
            close(fd);
            return -1;
        }
        if (fstat(fd, &ours) == 0 && stat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev)
            return fd;
        close(fd);
    }
    error = EAGAIN;
    return -1;
}

bool answers(const sockaddr_un& address) {
    const int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0) return false;
    // EAGAIN: a daemon listens and its backlog is full.
    const bool yes = connect(s, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN;
    close(s);
    return yes;
}

// Attach the sender's credentials to each message. Connections inherit this from the listening socket, so it holds from their first
// message on.
void ask_for_senders(int fd) {
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
}

}  // namespace

std::variant<Listener, std::string> Listener::open(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path)
        return fmt::format("socket path {}: must have 1 to {} bytes", path, sizeof address.sun_path - 1);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    std::error_code ignored;
    if (const auto directory = std::filesystem::path(path).parent_path(); !directory.empty())
        std::filesystem::create_directory(directory, ignored);

    int error = 0;
    const std::string lock_path = path + ".lock";
    const int lock = take_lock(lock_path, error);
    if (lock < 0 && error == EWOULDBLOCK) return fmt::format("another polterd serves {}; use that one, or give another --socket", path);
    if (lock < 0)
        return fmt::format("cannot create {}: {}; give a --socket in a directory that you may write to", lock_path, std::strerror(error));

    const auto fail = [&](std::string text) {
        unlink(lock_path.c_str());
        close(lock);
        return text;
    };
    struct stat there;
    if (lstat(path.c_str(), &there) == 0) {
        if (!S_ISSOCK(there.st_mode)) return fail(fmt::format("{} exists and is no socket; remove it, or give another --socket", path));
        if (answers(address)) return fail(fmt::format("somebody else listens on {}; give another --socket", path));
        unlink(path.c_str());  // left behind by a daemon that was killed
    }
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return fail(fmt::format("no Unix socket to be had: {}", std::strerror(errno)));
    // Every user may connect: identity and ownership are checked at each request.
    const mode_t mask = umask(0111);
    const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    error = errno;
    umask(mask);
    ask_for_senders(fd);
    if (!bound || listen(fd, 4096) != 0) {
        close(fd);
        return fail(fmt::format("cannot listen on {}: {}", path, std::strerror(bound ? errno : error)));
    }
    return Listener(path, fd, lock);
}

std::optional<std::variant<Listener, std::string>> Listener::inherited() {
    const int n = sd_listen_fds(1);
    if (n == 0) return std::nullopt;
    if (n != 1 || sd_is_socket_unix(SD_LISTEN_FDS_START, SOCK_SEQPACKET, 1, nullptr, 0) <= 0)
        return std::string(
            "the service manager gives other than one listening Unix socket of type seqpacket; its unit needs one ListenSequentialPacket=");
    fcntl(SD_LISTEN_FDS_START, F_SETFL, fcntl(SD_LISTEN_FDS_START, F_GETFL) | O_NONBLOCK);
    ask_for_senders(SD_LISTEN_FDS_START);
    return Listener("", SD_LISTEN_FDS_START, -1);
}

Listener::Listener(Listener&& other) noexcept : path_(std::move(other.path_)), fd_(other.fd_), lock_(other.lock_) {
    other.fd_ = other.lock_ = -1;
}

Listener::~Listener() {
    if (fd_ < 0) return;
    if (path_.empty()) {
        close(fd_);
        return;
    }
    unlink(path_.c_str());
    close(fd_);
    unlink((path_ + ".lock").c_str());
    close(lock_);
}

}  // namespace polter::daemon
