// SPDX-License-Identifier: BSD-3-Clause
#include "bench_node.hpp"

#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

// User and system time of the children that have ended.
double children_seconds() {
    rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <class Body>
pid_t child(Body&& body) {
    const pid_t pid = fork();
    if (pid < 0) std::abort();
    if (pid == 0) {
        body();
        _exit(0);
    }
    return pid;
}

void join(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids) waitpid(pid, nullptr, 0);
}

}  // namespace

double messages_seconds() {
    constexpr int groups = 4, pairs = 10, rounds = 100;
    using Message = std::array<char, 100>;
    const double before = children_seconds();
    std::vector<pid_t> pids;
    for (int group = 0; group < groups; group++) {
        std::vector<std::array<int, 2>> sockets(pairs);
        for (auto& ends : sockets)
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) std::abort();
        for (int i = 0; i < pairs; i++) {
            pids.push_back(child([&] {  // each sender to all receivers
                const Message message{};
                for (int round = 0; round < rounds; round++)
                    for (auto& ends : sockets)
                        if (write(ends[1], message.data(), message.size()) < 0) return;
            }));
            pids.push_back(child([&, i] {
                Message message;
                for (std::size_t left = std::size_t{rounds} * pairs * message.size(); left > 0;) {
                    const ssize_t n = read(sockets[static_cast<std::size_t>(i)][0], message.data(), message.size());
                    if (n <= 0) return;
                    left -= static_cast<std::size_t>(n);
                }
            }));
        }
        for (const auto& ends : sockets)
            for (const int end : ends) close(end);
    }
    join(pids);
    return children_seconds() - before;
}

double packets_seconds() {
    constexpr int packets = 150'000;
    const double before = children_seconds();
    const int to = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), from = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(to, reinterpret_cast<sockaddr*>(&address), size) != 0 || getsockname(to, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
        connect(from, reinterpret_cast<sockaddr*>(&address), size) != 0)
        std::abort();
    // The receiver's buffer overflows at times, which costs the sender nothing; so the number that is sent is what is fixed.
    const pid_t receiver = child([&] {
        char datagram[64];
        while (recv(to, datagram, sizeof datagram, 0) > 0) continue;
    });
    join({child([&] {
        const char datagram[64] = {};
        for (int i = 0; i < packets; i++) (void)!send(from, datagram, sizeof datagram, 0);
    })});
    kill(receiver, SIGTERM);
    join({receiver});
    close(to);
    close(from);
    return children_seconds() - before;
}
