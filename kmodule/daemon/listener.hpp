// SPDX-License-Identifier: BSD-3-Clause
// The daemon's address: one daemon a path, however the last one ended.
#pragma once

#include <optional>
#include <string>
#include <variant>

namespace polter::daemon {

// A listening socket, and the lock file beside it (`PATH.lock`) that shows that its owner is alive. The destructor removes both if it
// created them.
class Listener {
  public:
    // Or the reason: another daemon serves there, the path is something else, no permission.
    static std::variant<Listener, std::string> open(const std::string& path);
    // The socket that a service manager listens on for this process (sd_listen_fds(3)), which stays his; nothing if there is none.
    static std::optional<std::variant<Listener, std::string>> inherited();
    Listener(Listener&&) noexcept;
    Listener& operator=(Listener&&) = delete;
    ~Listener();
    int fd() const { return fd_; }

  private:
    Listener(std::string path, int fd, int lock) : path_(std::move(path)), fd_(fd), lock_(lock) {}
    std::string path_;  // empty: another's
    int fd_;
    int lock_;
};

}  // namespace polter::daemon
