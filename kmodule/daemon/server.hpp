// SPDX-License-Identifier: BSD-3-Clause
// The daemon's one loop: connections in, requests answered, registrations ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "listener.hpp"
#include "policy.hpp"
#include "registry.hpp"

namespace polter::daemon {

struct ServerOptions {
    bool exit_with_last = false;
    std::chrono::seconds grace{30};
    std::filesystem::path policy;  // read at the start and on SIGHUP; empty: everybody may register
};

// Single-threaded, and nothing in it waits for a client: all sockets are non-blocking, each request is one message, and one message of each
// connection is handled in turn.
class Server {
  public:
    Server(Listener& listener, exporter::Backend& backend, std::string why, ServerOptions options);
    ~Server();
    Server(const Server&) = delete;

    // Serves until SIGTERM or SIGINT (block them and SIGHUP before), or until the last process has left if that is asked for. The reason of
    // a failure.
    exporter::Failure run();
    // Who may register from now on. The reason of a failure, which changes nothing.
    exporter::Failure read_policy();

  private:
    using Clock = std::chrono::steady_clock;
    struct Connection {
        int fd;
        Peer peer;
        Clock::time_point since;
        bool registered = false;
    };

    void accept_some();
    void serve(std::uint64_t id);
    void close_connection(std::uint64_t id);
    bool answer(Connection&, const polter_request&, polter_reply&, int& descriptor);
    void send_reply(int fd, const polter_reply&, int descriptor, bool& failed);
    polter_reply blank_reply(std::uint32_t type) const;
    void drop_idle();
    int wait_ms() const;
    bool may_exit() const;
    bool on_signal();

    Listener& listener_;
    exporter::Backend& backend_;
    std::string why_;
    ServerOptions options_;
    Policy policy_;
    Registry registry_;
    std::map<std::uint64_t, Connection> connections_;
    std::map<uid_t, unsigned> by_user_;
    std::uint64_t next_id_ = 16;  // those below are the loop's own descriptors
    int epoll_ = -1;
    int signals_ = -1;
    bool accepting_ = true;
    Clock::time_point alone_since_ = Clock::now();
};

}  // namespace polter::daemon
