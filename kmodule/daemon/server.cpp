// SPDX-License-Identifier: BSD-3-Clause
#include "server.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace polter::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t listener_tag = 0, signal_tag = 1;
constexpr std::uint64_t pidfd_bit = std::uint64_t{1} << 63;  // this connection's process, not its socket
constexpr seconds idle_limit{30};                            // for a connection that has registered nothing
constexpr unsigned connections_a_user = POLTER_MAX_CONNECTIONS / 2;

bool watch(int epoll, int fd, std::uint64_t tag, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

void set_text(char* to, std::size_t size, const std::string& text) {
    const std::size_t n = std::min(text.size(), size - 1);
    std::memcpy(to, text.data(), n);
    to[n] = 0;
}

bool well_formed(const polter_request& request) {
    return request.magic == POLTER_PROTOCOL_MAGIC && request.version == POLTER_PROTOCOL_VERSION &&
           std::all_of(std::begin(request.reserved), std::end(request.reserved), [](auto word) { return word == 0; });
}

}  // namespace

Server::Server(Listener& listener, exporter::Backend& backend, std::string why, ServerOptions options)
    : listener_(listener), backend_(backend), why_(std::move(why)), options_(options), registry_(backend) {}

Server::~Server() {
    while (!connections_.empty()) close_connection(connections_.begin()->first);
    if (signals_ >= 0) close(signals_);
    if (epoll_ >= 0) close(epoll_);
}

polter_reply Server::blank_reply(std::uint32_t type) const {
    polter_reply reply{};
    reply.magic = POLTER_PROTOCOL_MAGIC;
    reply.version = POLTER_PROTOCOL_VERSION;
    reply.type = type;
    reply.page_size = POLTER_PAGE_SIZE;
    reply.backend = backend_.id();
    reply.accounts_seen = backend_.accounts_seen();
    reply.accounts_net = backend_.accounts_net();
    reply.processes = registry_.processes();
    reply.threads = registry_.threads();
    reply.daemon_pid = getpid();
    set_text(reply.product_version, sizeof reply.product_version, POLTER_VERSION);
    return reply;
}

void Server::send_reply(int fd, const polter_reply& reply, int descriptor, bool& failed) {
    iovec data{const_cast<polter_reply*>(&reply), sizeof reply};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    // A peer that does not take its answers is not waited for.
    failed = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(sizeof reply);
}

void Server::accept_some() {
    // A bounded number, so that a flood of connections does not keep the others waiting.
    for (int i = 0; i < 64; i++) {
        const int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                fmt::print(stderr, "polterd: cannot accept connections for now: {}\n", std::strerror(errno));
                epoll_ctl(epoll_, EPOLL_CTL_DEL, listener_.fd(), nullptr);
                accepting_ = false;
            }
            if (errno == EINTR || errno == ECONNABORTED) continue;
            return;
        }
        const auto peer = peer_of(fd);
        std::string refusal;
        if (!peer)
            refusal = "polterd: cannot see who connects: the process is gone, or in a pid namespace outside of this daemon's";
        else if (connections_.size() >= POLTER_MAX_CONNECTIONS)
            refusal = fmt::format("polterd: all of its {} connections are taken", POLTER_MAX_CONNECTIONS);
        else if (peer->uid != geteuid() && by_user_[peer->uid] >= connections_a_user)
            refusal = fmt::format("polterd: this user has {} connections, the most that one may have", connections_a_user);
        const std::uint64_t id = next_id_++;
        if (refusal.empty() && (!watch(epoll_, fd, id, EPOLLIN | EPOLLRDHUP) || !watch(epoll_, peer->pidfd, id | pidfd_bit, EPOLLIN)))
            refusal = fmt::format("polterd: out of resources: {}", std::strerror(errno));
        if (!refusal.empty()) {
            polter_reply reply = blank_reply(0);
            reply.status = POLTER_NO_ROOM;
            set_text(reply.text, sizeof reply.text, refusal);
            bool ignored;
            send_reply(fd, reply, -1, ignored);
            if (peer) close(peer->pidfd);
            close(fd);
            continue;
        }
        ++by_user_[peer->uid];
        connections_.emplace(id, Connection{fd, *peer, Clock::now()});
    }
}

void Server::close_connection(std::uint64_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    const Connection connection = found->second;
    connections_.erase(found);
    if (connection.registered) registry_.remove_process(connection.peer.pid);
    if (auto user = by_user_.find(connection.peer.uid); --user->second == 0) by_user_.erase(user);
    close(connection.fd);
    close(connection.peer.pidfd);
    if (registry_.processes() == 0) alone_since_ = Clock::now();
    if (!accepting_) accepting_ = watch(epoll_, listener_.fd(), listener_tag, EPOLLIN);
}

// False: the connection is to be closed after this reply.
bool Server::answer(Connection& connection, const polter_request& request, polter_reply& reply, int& descriptor) {
    Outcome outcome;
    switch (request.type) {
        case POLTER_REQUEST_STATUS:
            reply.recursion_misses = backend_.recursion_misses();
            outcome.text = why_;
            break;
        case POLTER_REQUEST_PROCESS: {
            if (!policy_.permits(connection.peer)) {
                outcome = {POLTER_NOT_PERMITTED,
                           fmt::format("polterd: user {} may not register on this node, says {}; ask its administrator",
                                       connection.peer.uid, options_.policy.string())};
                break;
            }
            // The same process may have connected before and executed another program since: its old connection is closed then.
            for (auto it = connections_.begin(); registry_.has_process(connection.peer.pid) && it != connections_.end();) {
                const auto [id, other] = *it++;
                char byte;
                if (&connections_.at(id) == &connection || !other.registered || other.peer.pid != connection.peer.pid) continue;
                // A forked child may hold that open; the backend knows.
                if (!backend_.has_process(connection.peer.pid) || recv(other.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
                    close_connection(id);
            }
            outcome = connection.registered
                          ? Outcome{POLTER_BAD_REQUEST, "polterd: registers a process twice"}
                          : registry_.add_process(connection.peer, request.job, request.threads, policy_.shows_names(connection.peer));
            connection.registered = connection.registered || outcome.status == POLTER_OK;
            break;
        }
        case POLTER_REQUEST_THREAD:
        case POLTER_REQUEST_LEAVE:
            if (!connection.registered) {
                outcome = {POLTER_BAD_REQUEST, "polterd: a thread before its process"};
            } else if (request.type == POLTER_REQUEST_THREAD) {
                outcome = registry_.add_thread(connection.peer, request.tid);
                if (outcome.status == POLTER_OK) descriptor = backend_.pages(connection.peer.pid);
            } else {
                outcome = registry_.remove_thread(connection.peer, request.tid, request.slot);
            }
            break;
        default:
            outcome = {POLTER_BAD_REQUEST, fmt::format("polterd: request {} is unknown", request.type)};
    }
    reply.status = outcome.status;
    reply.slot = outcome.slot;
    reply.processes = registry_.processes();
    reply.threads = registry_.threads();
    set_text(reply.text, sizeof reply.text, outcome.text);
    return outcome.status != POLTER_BAD_REQUEST;
}

void Server::serve(std::uint64_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    Connection& connection = found->second;
    // One byte more than a request has, to see a longer message; descriptors that somebody sends are dropped by the kernel.
    std::array<char, sizeof(polter_request) + 1> bytes;
    const ssize_t n = recv(connection.fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return close_connection(id);

    polter_request request{};
    int descriptor = -1;
    bool keep = false, failed = false;
    if (n == static_cast<ssize_t>(sizeof request)) std::memcpy(&request, bytes.data(), sizeof request);
    polter_reply reply = blank_reply(0);
    if (n == static_cast<ssize_t>(sizeof request) && well_formed(request)) {
        reply.type = request.type;
        keep = answer(connection, request, reply, descriptor);
    } else {
        reply.status = POLTER_BAD_REQUEST;
        set_text(reply.text, sizeof reply.text,
                 n == static_cast<ssize_t>(sizeof request) && request.magic == POLTER_PROTOCOL_MAGIC &&
                         request.version != POLTER_PROTOCOL_VERSION
                     ? fmt::format("polterd: speaks version {} of the protocol, not {}; use programs of one installation",
                                   POLTER_PROTOCOL_VERSION, request.version)
                     : std::string("polterd: this is no request"));
    }
    send_reply(connection.fd, reply, descriptor, failed);
    if (!keep || failed) close_connection(id);
}

void Server::drop_idle() {
    const auto now = Clock::now();
    for (auto it = connections_.begin(); it != connections_.end();) {
        const auto [id, connection] = *it++;
        if (!connection.registered && now - connection.since >= idle_limit) close_connection(id);
    }
}

bool Server::may_exit() const {
    return options_.exit_with_last && registry_.processes() == 0 && Clock::now() - alone_since_ >= options_.grace;
}

// Until the next thing that happens by time alone; for ever if there is none, so that an idle daemon makes no noise.
int Server::wait_ms() const {
    std::optional<Clock::time_point> next;
    const auto consider = [&](Clock::time_point t) { next = next ? std::min(*next, t) : t; };
    if (options_.exit_with_last && registry_.processes() == 0) consider(alone_since_ + options_.grace);
    for (const auto& [id, connection] : connections_)
        if (!connection.registered) consider(connection.since + idle_limit);
    if (!accepting_) consider(Clock::now() + seconds(1));
    if (!next) return -1;
    return static_cast<int>(std::max<long long>(0, std::chrono::ceil<milliseconds>(*next - Clock::now()).count()));
}

exporter::Failure Server::read_policy() {
    if (options_.policy.empty()) return std::nullopt;
    auto policy = Policy::read(options_.policy);
    if (auto* reason = std::get_if<std::string>(&policy)) return std::move(*reason);
    policy_ = std::get<Policy>(std::move(policy));
    return std::nullopt;
}

// True: it is time to end.
bool Server::on_signal() {
    signalfd_siginfo info;
    while (read(signals_, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGHUP) return true;
        const auto failure = read_policy();
        fmt::print(stderr, "polterd: {}\n", failure ? *failure + "; the policy stays as it was" : std::string("policy read again"));
    }
    return false;
}

exporter::Failure Server::run() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (epoll_ < 0 || signals_ < 0 || !watch(epoll_, listener_.fd(), listener_tag, EPOLLIN) ||
        !watch(epoll_, signals_, signal_tag, EPOLLIN))
        return fmt::format("cannot set up its event loop: {}", std::strerror(errno));
    alone_since_ = Clock::now();
    for (;;) {
        std::array<epoll_event, 64> events;
        const int n = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), wait_ms());
        if (n < 0 && errno != EINTR) return fmt::format("its event loop failed: {}", std::strerror(errno));
        for (int i = 0; i < n; i++) {
            const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
            if (tag == signal_tag) {
                if (on_signal()) return std::nullopt;
                continue;
            }
            if (tag == listener_tag)
                accept_some();
            else if (tag & pidfd_bit)
                close_connection(tag & ~pidfd_bit);  // a forked child may hold the socket open beyond its parent's death
            else
                serve(tag);
        }
        drop_idle();
        if (!accepting_ && n == 0) accepting_ = watch(epoll_, listener_.fd(), listener_tag, EPOLLIN);
        if (may_exit()) return std::nullopt;
    }
}

}  // namespace polter::daemon
