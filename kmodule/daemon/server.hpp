// SPDX-License-Identifier: BSD-3-Clause
// The daemon's one loop: connections in, requests answered, registrations ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "accounts.hpp"
#include "listener.hpp"
#include "owners.hpp"
#include "policy.hpp"
#include "registry.hpp"

namespace polter::daemon {

struct ServerOptions {
    bool exit_with_last = false;
    std::chrono::seconds grace{30};
    std::filesystem::path policy;                  // read at the start and on SIGHUP; empty: every user may register
    std::filesystem::path subuid = "/etc/subuid";  // likewise
};

// Single-threaded, and nothing in it waits for a client: all sockets are non-blocking, each request is one message. What a request takes is
// bounded, and users who ask at once are served in turn (Turns); one that has to wait for a page does so aside.
class Server {
  public:
    Server(Listener& listener, exporter::Backend& backend, std::string why, ServerOptions options);
    ~Server();
    Server(const Server&) = delete;

    // Serves until SIGTERM or SIGINT (block them and SIGHUP before), or until the last process has left if that is asked for. The reason of
    // a failure.
    exporter::Failure run();
    // Replaces the policy that decides who may register. Returns the reason of a failure, which leaves the old policy.
    exporter::Failure read_policy();

  private:
    using Clock = std::chrono::steady_clock;
    // A request that has been read and not been answered.
    struct Pending {
        polter_request request;
        ThreadSearch search;
    };
    struct Connection {
        int fd;
        Peer peer;
        bool registered = false;
        std::optional<Pending> pending = {};
    };

    exporter::Failure set_up();
    void accept_some();
    bool accept_one();
    void refuse(int fd, const std::string& reason);
    void close_connection(std::uint64_t id);
    void serve_some();
    void serve(std::uint64_t id);
    bool take_request(std::uint64_t id, Connection&);
    Outcome outcome_of(Connection&, Pending&);
    Outcome register_process(Connection&, const polter_request&);
    bool send_reply(int fd, const polter_reply&, int descriptor);
    polter_reply blank_reply(std::uint32_t type) const;
    void on_pages();
    bool on_signal();
    void drop_idle();
    int wait_ms();
    bool may_exit() const;

    Listener& listener_;
    exporter::Backend& backend_;
    std::string why_;
    ServerOptions options_;
    Policy policy_;
    Owners owners_;
    Registry registry_;
    std::map<std::uint64_t, Connection> connections_;
    std::map<uid_t, unsigned> by_user_;
    unsigned most_connections_ = POLTER_MAX_CONNECTIONS;
    Turns turns_;
    std::optional<Clock::time_point> look_again_;                     // requests wait until a look at the pages in memory is due
    std::optional<std::string> no_pages_;                             // why requests that wait for a page are refused
    std::deque<std::pair<Clock::time_point, std::uint64_t>> newest_;  // connections in the order in which they came
    std::set<uid_t> told_of_;                                         // users whose broken connections were logged already
    std::uint64_t next_id_ = 16;                                      // those below are the loop's own descriptors
    int epoll_ = -1;
    int signals_ = -1;
    int reserve_ = -1;  // a spare descriptor for accepting and refusing a connection when none is left
    bool accepting_ = true;
    Clock::time_point alone_since_ = Clock::now();
};

}  // namespace polter::daemon
