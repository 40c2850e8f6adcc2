// SPDX-License-Identifier: BSD-3-Clause
#include "server.hpp"

#include <fcntl.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "say.hpp"

namespace polter::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t listener_tag = 0, signal_tag = 1, pages_tag = 2;
constexpr std::uint64_t pidfd_bit = std::uint64_t{1} << 63;  // this connection's process, not its socket
constexpr seconds idle_limit{30};                            // for a connection that has registered nothing
constexpr milliseconds served_at_once{2};                    // before the loop looks at what else has happened
constexpr unsigned accepted_at_once = 16;
// Beside two a connection: pages that are ready, the backend's own, /proc.
constexpr rlim_t other_descriptors = POLTER_MAX_DESCRIPTORS - 2 * POLTER_MAX_CONNECTIONS;

bool watch(int epoll, int fd, std::uint64_t tag, std::uint32_t events, int how = EPOLL_CTL_ADD) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    return epoll_ctl(epoll, how, fd, &event) == 0;
}

// One event a request: a connection has one request at most, and is looked at again once that is answered.
constexpr std::uint32_t connection_events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT;

void set_text(char* to, std::size_t size, const std::string& text) {
    const std::size_t n = std::min(text.size(), size - 1);
    std::memcpy(to, text.data(), n);
    to[n] = 0;
}

std::string flaw_of(const polter_request& request, std::size_t size) {
    if (size == sizeof request && request.magic == POLTER_PROTOCOL_MAGIC && request.version != POLTER_PROTOCOL_VERSION)
        return fmt::format("polterd: speaks version {} of the protocol, not {}; use programs of one installation", POLTER_PROTOCOL_VERSION,
                           request.version);
    const bool zeros = std::all_of(std::begin(request.reserved), std::end(request.reserved), [](auto word) { return word == 0; });
    return size == sizeof request && request.magic == POLTER_PROTOCOL_MAGIC && zeros ? "" : "polterd: this is no request";
}

// Who sent a message, as the kernel says. 0: it does not.
pid_t sender_of(msghdr& message) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        ucred sender;
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) continue;
        std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
        return sender.pid;
    }
    return 0;
}

}  // namespace

Server::Server(Listener& listener, exporter::Backend& backend, std::string why, ServerOptions options)
    : listener_(listener),
      backend_(backend),
      why_(std::move(why)),
      options_(std::move(options)),
      owners_(options_.subuid),
      registry_(backend) {}

Server::~Server() {
    while (!connections_.empty()) close_connection(connections_.begin()->first);
    for (const int fd : {signals_, epoll_, reserve_})
        if (fd >= 0) close(fd);
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

// False: the peer does not take its answers, or is gone.
bool Server::send_reply(int fd, const polter_reply& reply, int descriptor) {
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
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof reply);
}

// Closes the socket, with the reason. One that is closed over a request that has not been read resets the connection, and the peer would
// see that instead: so no more can be sent, and what has been is read.
void Server::refuse(int fd, const std::string& reason) {
    polter_reply reply = blank_reply(0);
    reply.status = POLTER_NO_ROOM;
    set_text(reply.text, sizeof reply.text, reason);
    send_reply(fd, reply, -1);
    shutdown(fd, SHUT_RD);
    char byte;
    while (recv(fd, &byte, 1, MSG_DONTWAIT) > 0) {
    }
    close(fd);
}

void Server::accept_some() {
    for (unsigned i = 0; i < accepted_at_once && accept_one(); i++) {
    }
}

// False: there is none, or none can be accepted now.
bool Server::accept_one() {
    const auto start = Clock::now();
    int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EINTR || errno == ECONNABORTED) return true;
        if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return false;
        const int error = errno;
        close(std::exchange(reserve_, -1));
        fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) refuse(fd, fmt::format("polterd: out of resources: {}", std::strerror(error)));
        reserve_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd >= 0) return true;
        say("cannot accept connections for now: {}", std::strerror(error));
        epoll_ctl(epoll_, EPOLL_CTL_DEL, listener_.fd(), nullptr);
        accepting_ = false;
        return false;
    }
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);  // of the listening socket too, but for those that waited before that had it
    auto peer = peer_of(fd);
    std::string refusal;
    if (!peer) {
        refusal = "polterd: cannot see who connects: the process is gone, or in a pid namespace outside of this daemon's";
    } else {
        peer->owner = owners_.of(*peer);
        const auto total = static_cast<unsigned>(connections_.size());
        if (total >= most_connections_)
            refusal = fmt::format("polterd: all of its {} connections are taken", most_connections_);
        else if (!within_share(by_user_[peer->account()], total, most_connections_, is_exempt(*peer)))
            refusal = fmt::format("polterd: this user has {} connections; one user may have half of those of the {} that other users leave",
                                  by_user_[peer->account()], most_connections_);
    }
    const std::uint64_t id = next_id_++;
    if (refusal.empty() && (!watch(epoll_, fd, id, connection_events) || !watch(epoll_, peer->pidfd, id | pidfd_bit, EPOLLIN)))
        refusal = fmt::format("polterd: out of resources: {}", std::strerror(errno));
    if (!refusal.empty()) {
        refuse(fd, refusal);
        if (peer) close(peer->pidfd);
    } else {
        ++by_user_[peer->account()];
        newest_.emplace_back(Clock::now() + idle_limit, id);
        connections_.emplace(id, Connection{fd, *peer});
    }
    if (peer) turns_.charge(peer->account(), static_cast<std::uint64_t>((Clock::now() - start).count()));
    return true;
}

void Server::close_connection(std::uint64_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    const Connection connection = std::move(found->second);
    connections_.erase(found);
    if (connection.registered) registry_.remove_process(connection.peer.pid);
    if (auto user = by_user_.find(connection.peer.account()); --user->second == 0) by_user_.erase(user);
    close(connection.fd);
    close(connection.peer.pidfd);
    if (registry_.processes() == 0) alone_since_ = Clock::now();
    if (!accepting_) accepting_ = watch(epoll_, listener_.fd(), listener_tag, EPOLLIN);
}

Outcome Server::register_process(Connection& connection, const polter_request& request) {
    if (!policy_.permits(connection.peer))
        return {POLTER_NOT_PERMITTED, fmt::format("polterd: user {} may not register on this node, says {}; ask its administrator",
                                                  connection.peer.uid, options_.policy.string())};
    // The same process may have connected before and executed another program since: its old connection is closed then.
    std::vector<std::uint64_t> old;
    if (registry_.has_process(connection.peer.pid))
        for (const auto& [id, other] : connections_) {
            char byte;
            if (&other != &connection && other.registered && other.peer.pid == connection.peer.pid &&
                // A forked child may hold the connection open, so ask the backend.
                (!backend_.has_process(connection.peer.pid) || recv(other.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0))
                old.push_back(id);
        }
    for (const auto id : old) close_connection(id);
    if (connection.registered) return {POLTER_BAD_REQUEST, "polterd: registers a process twice"};
    Outcome outcome = registry_.add_process(connection.peer, request.job, request.threads, policy_.shows_names(connection.peer));
    connection.registered = outcome.status == POLTER_OK;
    return outcome;
}

Outcome Server::outcome_of(Connection& connection, Pending& pending) {
    const auto& request = pending.request;
    if (request.type == POLTER_REQUEST_STATUS) return {.text = why_};
    if (request.type == POLTER_REQUEST_PROCESS) return register_process(connection, request);
    if (request.type != POLTER_REQUEST_THREAD && request.type != POLTER_REQUEST_LEAVE)
        return {POLTER_BAD_REQUEST, fmt::format("polterd: request {} is unknown", request.type)};
    if (!connection.registered) return {POLTER_BAD_REQUEST, "polterd: a thread before its process"};
    if (request.type == POLTER_REQUEST_LEAVE) return registry_.remove_thread(connection.peer, request.tid, request.slot);
    Outcome outcome = registry_.add_thread(connection.peer, request.tid, pending.search);
    if (outcome.again == Outcome::Again::with_page && no_pages_) return {POLTER_BACKEND_FAILED, *no_pages_};
    return outcome;
}

// Reads the next request into `pending`. Returns false if there is none to answer; the connection may be closed then.
bool Server::take_request(std::uint64_t id, Connection& connection) {
    // One byte more than a request has, to see a longer message; descriptors that somebody sends are dropped by the kernel.
    std::array<char, sizeof(polter_request) + 1> bytes;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))] = {};
    iovec data{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t n = recvmsg(connection.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        watch(epoll_, connection.fd, id, connection_events, EPOLL_CTL_MOD);
        return false;
    }
    int unread = 0;
    if (n > 0 && ioctl(connection.fd, SIOCOUTQ, &unread) == 0 && unread > 0) {
        // Replies would pile up in kernel memory, with descriptors in them.
        if (told_of_.insert(connection.peer.account()).second)
            say("process {} of user {} sends requests without reading the replies; such connections are closed", connection.peer.pid,
                connection.peer.uid);
        close_connection(id);
        return false;
    }
    if (n <= 0) {
        close_connection(id);
        return false;
    }
    polter_request request{};
    const auto size = static_cast<std::size_t>(n);
    if (size == sizeof request) std::memcpy(&request, bytes.data(), sizeof request);
    std::string flaw = flaw_of(request, size);
    polter_reply reply = blank_reply(flaw.empty() ? request.type : 0);
    reply.status = POLTER_BAD_REQUEST;
    // The sender is a child that inherited the connection, or a process that was given the descriptor.
    if (flaw.empty() && sender_of(message) != connection.peer.pid) {
        flaw = fmt::format("polterd: this connection is process {}'s; open one of your own", connection.peer.pid);
        reply.status = POLTER_NOT_PERMITTED;
    }
    if (flaw.empty()) {
        connection.pending.emplace(Pending{request, ThreadSearch(connection.peer.pid, request.tid)});
        return true;
    }
    set_text(reply.text, sizeof reply.text, flaw);
    if (!send_reply(connection.fd, reply, -1) || reply.status == POLTER_BAD_REQUEST)
        close_connection(id);
    else
        watch(epoll_, connection.fd, id, connection_events, EPOLL_CTL_MOD);
    return false;
}

void Server::serve(std::uint64_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    Connection& connection = found->second;
    if (!connection.pending && !take_request(id, connection)) return;
    const Outcome outcome = outcome_of(connection, *connection.pending);
    switch (outcome.again) {
        case Outcome::Again::soon:
            return turns_.add(connection.peer.account(), id);
        case Outcome::Again::after_look:
            look_again_ = registry_.next_look();
            [[fallthrough]];
        case Outcome::Again::with_page:
            return turns_.set_aside(connection.peer.account(), id);
        case Outcome::Again::no:
            break;
    }
    polter_reply reply = blank_reply(connection.pending->request.type);
    reply.status = outcome.status;
    reply.slot = outcome.slot;
    if (reply.type == POLTER_REQUEST_STATUS) reply.recursion_misses = backend_.recursion_misses();
    set_text(reply.text, sizeof reply.text, outcome.text);
    connection.pending.reset();
    const bool sent = send_reply(connection.fd, reply, outcome.page);
    if (outcome.page >= 0) close(outcome.page);
    if (!sent || outcome.status == POLTER_BAD_REQUEST)
        close_connection(id);
    else
        watch(epoll_, connection.fd, id, connection_events, EPOLL_CTL_MOD);
}

void Server::serve_some() {
    const auto begin = Clock::now();
    for (auto start = begin; start - begin < served_at_once;) {
        const auto turn = turns_.next();
        if (!turn) break;
        serve(turn->request);
        const auto end = Clock::now();
        turns_.charge(turn->user, static_cast<std::uint64_t>((end - start).count()));
        start = end;
    }
    no_pages_.reset();
    if (turns_.set_aside() > 0) backend_.want_pages(turns_.set_aside());
}

void Server::on_pages() {
    no_pages_ = backend_.take_pages_event();
    turns_.wake();
}

void Server::drop_idle() {
    for (const auto now = Clock::now(); !newest_.empty() && newest_.front().first <= now; newest_.pop_front()) {
        const auto found = connections_.find(newest_.front().second);
        if (found != connections_.end() && !found->second.registered) close_connection(found->first);
    }
}

bool Server::may_exit() const {
    return options_.exit_with_last && registry_.processes() == 0 && Clock::now() - alone_since_ >= options_.grace;
}

// Until the next thing that happens by time alone; for ever if there is none, so that an idle daemon makes no noise.
int Server::wait_ms() {
    if (turns_.any()) return 0;
    std::optional<Clock::time_point> next = look_again_;
    const auto consider = [&](Clock::time_point t) { next = next ? std::min(*next, t) : t; };
    if (options_.exit_with_last && registry_.processes() == 0) consider(alone_since_ + options_.grace);
    const auto settled = [&](std::uint64_t id) {
        const auto found = connections_.find(id);
        return found == connections_.end() || found->second.registered;
    };
    while (!newest_.empty() && settled(newest_.front().second)) newest_.pop_front();
    if (!newest_.empty()) consider(newest_.front().first);
    if (!accepting_) consider(Clock::now() + seconds(1));
    if (!next) return -1;
    return static_cast<int>(std::max<long long>(0, std::chrono::ceil<milliseconds>(*next - Clock::now()).count()));
}

exporter::Failure Server::read_policy() {
    owners_ = Owners(options_.subuid);
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
        if (failure)
            say("{}; the policy stays as it was", *failure);
        else
            say("policy read again");
        told_of_.clear();
    }
    return false;
}

exporter::Failure Server::set_up() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    reserve_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const bool done = epoll_ >= 0 && signals_ >= 0 && watch(epoll_, listener_.fd(), listener_tag, EPOLLIN) &&
                      watch(epoll_, signals_, signal_tag, EPOLLIN) &&
                      (backend_.pages_event() < 0 || watch(epoll_, backend_.pages_event(), pages_tag, EPOLLIN));
    if (!done) return fmt::format("cannot set up its event loop: {}", std::strerror(errno));
    rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < POLTER_MAX_DESCRIPTORS) {
        const rlim_t rest = limit.rlim_cur - std::min(limit.rlim_cur / 2, other_descriptors);
        most_connections_ = static_cast<unsigned>(rest / 2);
        say("may open {} files, so that it serves {} connections at most", limit.rlim_cur, most_connections_);
    }
    return std::nullopt;
}

exporter::Failure Server::run() {
    if (auto failure = set_up()) return failure;
    alone_since_ = Clock::now();
    for (;;) {
        std::array<epoll_event, 256> events;
        const int n = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), wait_ms());
        if (n < 0 && errno != EINTR) return fmt::format("its event loop failed: {}", std::strerror(errno));
        for (int i = 0; i < n; i++) {
            const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
            if (tag == signal_tag) {
                if (on_signal()) return std::nullopt;
            } else if (tag == listener_tag) {
                accept_some();
            } else if (tag == pages_tag) {
                on_pages();
            } else if (tag & pidfd_bit) {
                close_connection(tag & ~pidfd_bit);  // a forked child may hold the socket open beyond its parent's death
            } else if (const auto found = connections_.find(tag); found != connections_.end()) {
                turns_.add(found->second.peer.account(), tag);
            }
        }
        if (look_again_ && *look_again_ <= Clock::now()) {
            look_again_.reset();
            turns_.wake();
        }
        serve_some();
        drop_idle();
        if (!accepting_ && n == 0) accepting_ = watch(epoll_, listener_.fd(), listener_tag, EPOLLIN);
        if (may_exit()) return std::nullopt;
    }
}

}  // namespace polter::daemon
