// SPDX-License-Identifier: BSD-3-Clause
// Whose connection it is, when processes end, ids come back, and descriptors are passed on.
#include "peer.hpp"

#include <doctest/doctest.h>
#include <linux/sched.h>
#include <sys/un.h>

#include <cstring>

#include "support/crowd.hpp"
#include "support/daemon_fixture.hpp"
#include "support/raw.hpp"

namespace {

using polter::daemon::Identify;
using polter::daemon::peer_of;

// Another process with the id of one that is gone, which takes luck for an ordinary user, and some thousand tries. -1: not here.
pid_t take_id(pid_t id, uid_t uid) {
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    arguments.set_tid = reinterpret_cast<std::uint64_t>(&id);
    arguments.set_tid_size = 1;
    const auto pid = static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
    if (pid == 0) {
        if (!become(uid)) _exit(1);
        for (;;) pause();
    }
    if (pid > 0)  // until it is that user
        soon([&] {
            struct stat info {};
            return stat(("/proc/" + std::to_string(pid)).c_str(), &info) == 0 && info.st_uid == uid;
        });
    return pid;
}

void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
}

struct Listening {
    char path[64] = "/tmp/polter-test-XXXXXX";
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    Listening() {
        close(mkstemp(path));
        unlink(path);
        address.sun_family = AF_UNIX;
        std::strcpy(address.sun_path, path);
        REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
        chmod(path, 0666);
        REQUIRE(listen(fd, 8) == 0);
    }
    ~Listening() {
        close(fd);
        unlink(path);
    }
};

// A connection that a child of that user makes before it ends; its id is free then. The descriptor lives on here.
int connected_by_child(const sockaddr_un& address, uid_t uid, pid_t& child) {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    child = fork();
    if (child == 0) _exit(become(uid) && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0);
    return fd;
}

bool known_here(Identify how) {
    int ends[2], pidfd = -1;
    socklen_t size = sizeof pidfd;
    if (how == Identify::by_proc) return true;
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    const bool known = getsockopt(ends[0], SOL_SOCKET, 77 /* SO_PEERPIDFD */, &pidfd, &size) == 0;
    close(ends[0]), close(ends[1]);
    if (pidfd >= 0) close(pidfd);
    return known;
}

}  // namespace

TEST_CASE("the peer is the process that connected, by either way of finding it") {
    if (geteuid() != 0) {
        MESSAGE("only root can be several users: not tested");
        return;
    }
    for (const auto how : {Identify::best, Identify::by_pidfd, Identify::by_proc}) {
        if (!known_here(how)) continue;
        CAPTURE(static_cast<int>(how));
        const Listening listening;
        const int mine = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        REQUIRE(connect(mine, reinterpret_cast<const sockaddr*>(&listening.address), sizeof listening.address) == 0);
        int accepted = accept(listening.fd, nullptr, nullptr);
        const auto peer = peer_of(accepted, how);
        REQUIRE(peer);
        CHECK(peer->pid == getpid());
        CHECK(peer->uid == 0);
        CHECK(is_alive(*peer));
        close(peer->pidfd), close(accepted), close(mine);

        pid_t child;
        const int left = connected_by_child(listening.address, first_user, child);
        accepted = accept(listening.fd, nullptr, nullptr);
        CHECK_FALSE(peer_of(accepted, how));
        // Its id belongs to a process of another user by now.
        for (const uid_t uid : {second_user, uid_t{0}}) {
            const pid_t other = take_id(child, uid);
            if (other < 0) {
                MESSAGE("a process id cannot be chosen here (", std::strerror(errno), "): not tested");
                continue;
            }
            CHECK(other == child);
            CHECK_FALSE(peer_of(accepted, how));
            end(other);
        }
        close(accepted), close(left);
    }
}

TEST_CASE("no connection leads to the pages of the process that has the id of the one that made it") {
    if (geteuid() != 0) {
        MESSAGE("only root can be several users: not tested");
        return;
    }
    Daemon daemon;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, daemon.socket().c_str());
    for (const bool stalled : {true, false}) {
        CAPTURE(stalled);
        if (stalled) kill(daemon.pid(), SIGSTOP);  // as by a full backlog: it accepts when the id is another's
        pid_t child;
        const int left = connected_by_child(address, first_user, child);
        const pid_t victim = take_id(child, second_user);
        if (stalled) kill(daemon.pid(), SIGCONT);
        if (victim < 0) {
            MESSAGE("a process id cannot be chosen here (", std::strerror(errno), "): not tested");
            close(left);
            continue;
        }
        char error[600];
        polter_reply reply{};
        int page = -1;
        polter_request request = Raw::request(POLTER_REQUEST_PROCESS);
        const int registered = polter_exchange(left, &request, &reply, nullptr, error, sizeof error);
        request = Raw::request(POLTER_REQUEST_THREAD, victim);
        if (registered == 0) polter_exchange(left, &request, &reply, &page, error, sizeof error);
        CHECK(registered != 0);
        CHECK(page < 0);
        CHECK(probe(daemon.socket()).processes == 0);
        end(victim);
        close(left);
    }
}

TEST_CASE("a connection is of use to the process that opened it, and to no other that has the descriptor") {
    Daemon daemon;
    Raw raw(daemon.socket());
    CHECK(in_child([&] { return raw.ask(Raw::request(POLTER_REQUEST_PROCESS)) == POLTER_NOT_PERMITTED ? 0 : 1; }) == 0);
    REQUIRE(raw.ask(Raw::request(POLTER_REQUEST_PROCESS)) == POLTER_OK);
    CHECK(in_child([&] {
              int page = -1;
              if (raw.ask(Raw::request(POLTER_REQUEST_THREAD, getppid()), &page) != POLTER_NOT_PERMITTED || page >= 0) return 1;
              return std::string(raw.error).find("open one of your own") != std::string::npos ? 0 : 2;
          }) == 0);
    int page = -1;
    CHECK(raw.ask(Raw::request(POLTER_REQUEST_THREAD, tid()), &page) == POLTER_OK);
    if (page >= 0) close(page);
}
