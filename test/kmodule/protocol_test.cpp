// SPDX-License-Identifier: BSD-3-Clause
// polterd against clients that are foreign, broken, stalled or dead, and clients against a polterd that is.
#include <bpf/bpf.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "support/daemon_fixture.hpp"
#include "support/raw.hpp"

using polter::daemon::start_daemon;

TEST_CASE("the daemon says what it is") {
    Daemon daemon;
    const auto status = probe(daemon.socket());
    REQUIRE(status.answers);
    CHECK(status.pid == daemon.pid());
    CHECK(status.backend == POLTER_BACKEND_BPF);
    CHECK((status.accounts_seen & (1u << POLTER_PREEMPT)) != 0);
    CHECK(status.accounts_net == status.accounts_seen);
    CHECK(status.why.find("fault") != std::string::npos);
    CHECK(status.processes == 0);
    CHECK_FALSE(probe(daemon.socket() + "x").answers);
    CHECK(probe(daemon.socket() + "x").reason.find("no polterd runs there") != std::string::npos);
}

TEST_CASE("garbage is answered with an error and the connection closed; the daemon goes on") {
    Daemon daemon;
    std::vector<std::string> messages;
    const auto add = [&](const std::function<void(polter_request&)>& spoil) {
        polter_request r = Raw::request(POLTER_REQUEST_PROCESS);
        spoil(r);
        messages.emplace_back(reinterpret_cast<const char*>(&r), sizeof r);
    };
    add([](auto& r) { r.magic = 0; });
    add([](auto& r) { r.version = 7; });
    add([](auto& r) { r.type = 0; });
    add([](auto& r) { r.type = 0xffffffff; });
    add([](auto& r) { r.reserved[3] = 1; });
    add([](auto& r) { r.type = POLTER_REQUEST_THREAD; });  // before its process
    add([](auto& r) { r.type = POLTER_REQUEST_LEAVE; });
    messages.push_back("x");
    messages.push_back(std::string(sizeof(polter_request) + 1, '\0'));
    messages.push_back(std::string(60000, 'A'));
    for (const auto& message : messages) {
        Raw raw(daemon.socket());
        CAPTURE(message.size());
        REQUIRE(raw.fd >= 0);
        REQUIRE(send(raw.fd, message.data(), message.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(message.size()));
        REQUIRE(recv(raw.fd, &raw.reply, sizeof raw.reply, 0) == static_cast<ssize_t>(sizeof raw.reply));
        CHECK(raw.reply.status == POLTER_BAD_REQUEST);
        CHECK(raw.reply.text[0] != 0);
        CHECK(raw.closed_by_daemon());
    }
    unsigned state = 1;
    for (int i = 0; i < 3000; i++) {  // random bytes behind a right beginning
        Raw raw(daemon.socket());
        polter_request r = Raw::request(POLTER_REQUEST_STATUS);
        for (std::size_t k = (i % 4) * 4; k < sizeof r; k++)
            reinterpret_cast<unsigned char*>(&r)[k] = (state = state * 1103515245 + 12345) >> 16;
        (void)!send(raw.fd, &r, sizeof r, MSG_NOSIGNAL);
    }
    CHECK(soon([&] { return probe(daemon.socket()).answers; }));
    CHECK(probe(daemon.socket()).processes == 0);
}

TEST_CASE("descriptors that a client sends are not kept") {
    Daemon daemon;
    // Sockets alone, such as are sent here: the daemon prepares pages meanwhile.
    const auto sockets_in_daemon = [&] {
        std::size_t n = 0;
        std::error_code error;
        for (const auto& e : std::filesystem::directory_iterator("/proc/" + std::to_string(daemon.pid()) + "/fd"))
            n += std::filesystem::read_symlink(e.path(), error).string().starts_with("socket:");
        return n;
    };
    Raw raw(daemon.socket());
    CHECK(raw.ask(Raw::request(POLTER_REQUEST_STATUS)) == POLTER_OK);
    const std::size_t before = sockets_in_daemon();
    CHECK(before > 0);
    for (int i = 0; i < 50; i++) {
        polter_request r = Raw::request(POLTER_REQUEST_STATUS);
        iovec data{&r, sizeof r};
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &raw.fd, sizeof raw.fd);
        REQUIRE(sendmsg(raw.fd, &message, 0) == static_cast<ssize_t>(sizeof r));
        REQUIRE(recv(raw.fd, &raw.reply, sizeof raw.reply, 0) == static_cast<ssize_t>(sizeof raw.reply));
    }
    CHECK(sockets_in_daemon() == before);
}

TEST_CASE("a peer registers its own threads only, whoever it is") {
    Daemon daemon;
    Session session(daemon.socket());
    const auto mine = session.open();
    REQUIRE(mine);
    const polter_s32 victim = tid();
    for (const bool other_user : {false, true}) {
        CAPTURE(other_user);
        CHECK(in_child([&] {
                  if (other_user && (setgid(65534) != 0 || setuid(65534) != 0)) return 50;
                  Raw raw(daemon.socket());
                  if (raw.ask(Raw::request(POLTER_REQUEST_PROCESS)) != POLTER_OK) return 1;
                  int descriptor = -1;
                  for (const polter_s32 t : {victim, 1, 0, -1, 0x7fffffff})
                      if (raw.ask(Raw::request(POLTER_REQUEST_THREAD, t), &descriptor) != POLTER_NOT_PERMITTED || descriptor >= 0) return 2;
                  if (raw.ask(Raw::request(POLTER_REQUEST_LEAVE, victim)) != POLTER_NOT_PERMITTED) return 3;
                  // What is its own it gets.
                  return raw.ask(Raw::request(POLTER_REQUEST_THREAD, tid()), &descriptor) == POLTER_OK && descriptor >= 0 ? 0 : 4;
              }) == 0);
    }
    CHECK(polter_noise_header(mine.get())->state == POLTER_PAGE_LIVE);
}

TEST_CASE("a page can be read and nothing else, and shows no other process") {
    Daemon daemon;
    Raw raw(daemon.socket());
    REQUIRE(raw.ask(Raw::request(POLTER_REQUEST_PROCESS, 0, 2)) == POLTER_OK);
    int fd = -1;
    REQUIRE(raw.ask(Raw::request(POLTER_REQUEST_THREAD, tid()), &fd) == POLTER_OK);
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(mmap(nullptr, POLTER_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    CHECK(mmap(nullptr, POLTER_PAGE_SIZE, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    CHECK(mmap(nullptr, POLTER_PAGE_SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0) == MAP_FAILED);
    CHECK(mmap(nullptr, 3 * POLTER_PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);  // past its two slots
    CHECK(mmap(nullptr, POLTER_PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 2 * POLTER_PAGE_SIZE) == MAP_FAILED);
    void* page = mmap(nullptr, POLTER_PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    REQUIRE(page != MAP_FAILED);
    CHECK(mprotect(page, POLTER_PAGE_SIZE, PROT_READ | PROT_WRITE) != 0);
    CHECK(mprotect(page, POLTER_PAGE_SIZE, PROT_READ | PROT_EXEC) != 0);
    const __u32 slot = 0;
    std::vector<char> value(POLTER_PAGE_SIZE);
    CHECK(bpf_map_update_elem(fd, &slot, value.data(), BPF_ANY) != 0);
    CHECK(bpf_map_delete_elem(fd, &slot) != 0);
    CHECK(static_cast<const polter_page_header*>(page)->pid == getpid());
    close(fd);
    munmap(page, POLTER_PAGE_SIZE);
}

TEST_CASE("clients that stall or die delay nobody") {
    Daemon daemon;
    Raw stalled(daemon.socket());  // asks and asks, and never takes an answer
    const polter_request status = Raw::request(POLTER_REQUEST_STATUS);
    for (int i = 0; i < 5000; i++)
        if (send(stalled.fd, &status, sizeof status, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN) break;
    const std::uint64_t before = monotonic_ns();
    CHECK(probe(daemon.socket()).answers);
    CHECK(monotonic_ns() - before < 5'000'000'000);  // a busy machine's share of a CPU comes sooner than that

    CHECK(in_child([&] {  // dies without a word
              Raw raw(daemon.socket());
              if (raw.ask(Raw::request(POLTER_REQUEST_PROCESS)) != POLTER_OK) return 1;
              kill(getpid(), SIGKILL);
              return 0;
          }) == 128 + SIGKILL);
    CHECK(soon([&] { return probe(daemon.socket()).processes == 0; }));

    // Its own child keeps the connection open: the process is gone all the same.
    int pipe_fds[2];
    REQUIRE(pipe(pipe_fds) == 0);
    CHECK(in_child([&] {
              Raw raw(daemon.socket());
              if (raw.ask(Raw::request(POLTER_REQUEST_PROCESS)) != POLTER_OK) return 1;
              if (fork() == 0) {
                  char byte;
                  close(pipe_fds[1]);
                  (void)!read(pipe_fds[0], &byte, 1);
                  _exit(0);
              }
              _exit(0);
          }) == 0);
    CHECK(soon([&] { return probe(daemon.socket()).processes == 0; }));
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

TEST_CASE("one daemon a socket; what a killed one left behind is replaced") {
    Daemon daemon;
    const auto second = start_daemon(POLTERD, daemon.socket());
    CHECK_FALSE(second);
    CHECK(second.reason.find("another polterd serves") != std::string::npos);
    CHECK(probe(daemon.socket()).answers);
    daemon.kill_hard();
    CHECK(std::filesystem::exists(daemon.socket()));
    daemon.start();
    CHECK(probe(daemon.socket()).answers);
    daemon.stop();
    CHECK(std::filesystem::is_empty(daemon.directory()));

    const std::string file = daemon.directory() + "/file";
    std::fclose(std::fopen(file.c_str(), "w"));
    CHECK(start_daemon(POLTERD, file).reason.find("is no socket") != std::string::npos);
    CHECK(std::filesystem::exists(file));
    const int foreign = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (daemon.directory() + "/foreign").c_str());
    REQUIRE(bind(foreign, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(foreign, 1) == 0);
    CHECK(start_daemon(POLTERD, address.sun_path).reason.find("somebody else listens") != std::string::npos);
    close(foreign);
    CHECK(start_daemon("/nonexistent/polterd", daemon.socket()).reason.find("No such file") != std::string::npos);
    CHECK(start_daemon(POLTERD, std::string(200, 'x')).reason.find("bytes") != std::string::npos);
    CHECK(start_daemon(POLTERD, "/proc/nonexistent/s").reason.find("cannot create") != std::string::npos);
}

TEST_CASE("the daemon holds nothing of what was open where it was started") {
    int ends[2];
    REQUIRE(pipe(ends) == 0);  // inherited by whatever is executed
    Daemon daemon;
    close(ends[1]);
    pollfd wait{ends[0], POLLIN, 0};
    CHECK(poll(&wait, 1, answer_ms) == 1);
    char byte;
    CHECK(read(ends[0], &byte, 1) == 0);
    CHECK(probe(daemon.socket()).answers);
    close(ends[0]);
}

TEST_CASE("without privilege the daemon says what it needs") {
    Daemon daemon;  // skips where there is no privilege to give up
    CHECK(in_child([&] {
              char directory[] = "/tmp/polter-test-XXXXXX";
              if (setgid(65534) != 0 || setuid(65534) != 0 || !mkdtemp(directory)) return 50;
              const auto started = start_daemon(POLTERD, std::string(directory) + "/s");
              const bool left = !std::filesystem::is_empty(directory);
              rmdir(directory);
              if (access(POLTERD, X_OK) != 0) return 0;  // the build lies where that user cannot read
              return !started && started.reason.find("CAP_BPF") != std::string::npos && !left ? 0 : 1;
          }) == 0);
}

TEST_CASE("when the daemon is killed, pages stay readable and the application goes on") {
    Daemon daemon;
    Session session(daemon.socket());
    auto noise = session.open();
    REQUIRE(noise);
    CHECK(polter_session_alive(session.handle));
    CHECK(polter_noise_ended_ns(noise.get()) == 0);
    const auto offset = static_cast<std::uint64_t>(polter_noise_clock_offset());
    const std::uint64_t alive = monotonic_ns() + offset;
    for (const std::uint64_t end = monotonic_ns() + 50'000'000; monotonic_ns() < end;) {
    }
    daemon.kill_hard();
    CHECK_FALSE(polter_session_alive(session.handle));
    CHECK(polter_noise_header(noise.get())->state == POLTER_PAGE_LIVE);
    // A thread that runs is interrupted by the timer every few milliseconds.
    CHECK(polter_noise_ended_ns(noise.get()) > alive);
    CHECK(polter_noise_ended_ns(noise.get()) <= monotonic_ns() + offset);
    polter_counters before, after;
    CHECK(polter_noise_snapshot(noise.get(), &before) == 0);
    sleep_ms(30);
    CHECK(polter_noise_snapshot(noise.get(), &after) == 0);
    CHECK(before.updated_ns == after.updated_ns);
    std::thread([&] {
        CHECK_FALSE(session.open());
        CHECK(std::string(session.error).find("polterd") != std::string::npos);
    }).join();
    noise.reset();
}

TEST_CASE("when the daemon ends in order, pages say so") {
    Daemon daemon;
    Session session(daemon.socket());
    const auto noise = session.open();
    REQUIRE(noise);
    CHECK(polter_noise_header(noise.get())->state == POLTER_PAGE_LIVE);
    daemon.stop();
    CHECK(polter_noise_header(noise.get())->state == POLTER_PAGE_FROZEN);
    CHECK(polter_noise_header(noise.get())->end_ns > polter_noise_header(noise.get())->start_ns);
    CHECK(polter_noise_ended_ns(noise.get()) == polter_noise_header(noise.get())->end_ns);
}

TEST_CASE("a thread's exit freezes its page, and another's exit does not") {
    Daemon daemon;
    Session session(daemon.socket());
    const auto mine = session.open();
    Session::Page its;
    std::thread([&] { its = session.open(); }).join();
    REQUIRE(its);
    const polter_page_header* header = polter_noise_header(its.get());
    CHECK(soon([&] { return header->state == POLTER_PAGE_FROZEN; }));
    CHECK(header->end_ns >= header->start_ns);
    CHECK(header->end_ns <= monotonic_ns() + static_cast<std::uint64_t>(polter_noise_clock_offset()));
    polter_counters a, b;
    polter_noise_snapshot(its.get(), &a);
    sleep_ms(20);
    polter_noise_snapshot(its.get(), &b);
    CHECK(std::memcmp(&a, &b, sizeof a) == 0);
    CHECK(polter_noise_header(mine.get())->state == POLTER_PAGE_LIVE);
    CHECK(header->tid != polter_noise_header(mine.get())->tid);
}

TEST_CASE("a page given back is handed out again, from zero") {
    Daemon daemon;
    Session session(daemon.socket(), 1);
    auto first = session.open();
    REQUIRE(first);
    for (const std::uint64_t end = monotonic_ns() + 50'000'000; monotonic_ns() < end;) {
    }
    std::thread([&] {
        CHECK_FALSE(session.open());
        CHECK(std::string(session.error).find("noise pages") != std::string::npos);
    }).join();
    CHECK_FALSE(session.open());
    CHECK(std::string(session.error).find("registered already") != std::string::npos);
    first.reset();
    const auto again = session.open();
    REQUIRE(again);
    polter_counters c;
    REQUIRE(polter_noise_snapshot(again.get(), &c) == 0);
    CHECK(c.count[POLTER_TIMER] <= 1);
    polter_ring_entry entries[8];
    polter_u64 lost = 0;
    CHECK(polter_noise_drain(again.get(), ~0ull, entries, 8, &lost) <= 8);
    CHECK(lost == 0);
}

TEST_CASE("limits are refused with what they are") {
    Daemon daemon;
    Session much(daemon.socket(), 100000);
    CHECK_FALSE(much.handle);
    CHECK(std::string(much.error).find("4096") != std::string::npos);
    Session first(daemon.socket()), second(daemon.socket());
    CHECK(first.handle);
    CHECK_FALSE(second.handle);
    CHECK(std::string(second.error).find("registered already") != std::string::npos);
    CHECK_FALSE(Session(std::string(300, 'x')).handle);
    setenv("POLTER_JOB", "nothex", 1);
    Session bad(daemon.socket());
    CHECK_FALSE(bad.handle);
    CHECK(std::string(bad.error).find("POLTER_JOB") != std::string::npos);
    unsetenv("POLTER_JOB");
}

TEST_CASE("a forked child has no part in its parent's pages, and can have its own") {
    Daemon daemon;
    Session session(daemon.socket());
    auto noise = session.open();
    REQUIRE(noise);
    CHECK(in_child([&] {
              polter_counters c;
              polter_ring_entry entry;
              polter_u64 lost = 0;
              char error[600];
              if (polter_noise_header(noise.get()) || polter_noise_moved(noise.get())) return 1;
              if (polter_noise_snapshot(noise.get(), &c) == 0 || polter_noise_drain(noise.get(), ~0ull, &entry, 1, &lost) != 0) return 2;
              if (polter_noise_open(session.handle, error, sizeof error)) return 3;
              noise.reset();
              Session own(daemon.socket());
              const auto page = own.open();
              return page && polter_noise_header(page.get())->pid == getpid() ? 0 : 4;
          }) == 0);
    CHECK(polter_noise_header(noise.get())->state == POLTER_PAGE_LIVE);
    CHECK(probe(daemon.socket()).threads == 1);
}

TEST_CASE("a process in a pid namespace of its own is known by its real id") {
    Daemon daemon;
    const int result = in_child([&] {
        if (unshare(CLONE_NEWPID) != 0) return 77;
        return in_child([&] {
            Session session(daemon.socket());
            const auto page = session.open();
            if (!page) return 1;
            return getpid() == 1 && polter_noise_header(page.get())->tid > 1 ? 0 : 2;
        });
    });
    if (result == 77) {
        MESSAGE("no pid namespace can be made here: not tested");
        return;
    }
    CHECK(result == 0);
}

TEST_CASE("the daemon goes with the last process, if that is asked for") {
    Daemon daemon({.exit_with_last = true, .grace_seconds = 1});
    {
        Session session(daemon.socket());
        REQUIRE(session.handle);
        sleep_ms(1300);
        CHECK(probe(daemon.socket()).answers);
    }
    CHECK(soon([&] { return waitpid(daemon.pid(), nullptr, WNOHANG) != 0; }));
    CHECK_FALSE(std::filesystem::exists(daemon.directory()));
}
