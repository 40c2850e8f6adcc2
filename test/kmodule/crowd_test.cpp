// SPDX-License-Identifier: BSD-3-Clause
// Many clients at once, and clients who take all that they can: what one user may have, and what is left for the others.
#include "support/crowd.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <fstream>
#include <memory>
#include <set>

#include "support/daemon_fixture.hpp"
#include "support/raw.hpp"

namespace {

bool can_become_others() {
    if (geteuid() == 0) return true;
    MESSAGE("only root can be several users: not tested");
    return false;
}

// As that user, in a process of its own: what `body` says.
int as_user(uid_t uid, const std::function<int()>& body) {
    return in_child([&] {
        allow_descriptors(8192);
        return become(uid) ? body() : 250;
    });
}

bool registers(const Daemon& daemon, uid_t uid) {
    return as_user(uid, [&] {
               Session session(daemon.socket());
               return session.open() ? 0 : 1;
           }) == 0;
}

}  // namespace

TEST_CASE("512 processes at once all register") {
    if (!can_become_others()) return;
    Daemon daemon;
    Crowd crowd(daemon.socket(), 512, 1, first_user);  // with the patience that the reader has by itself
    const std::uint64_t ns = crowd.run();
    CAPTURE(std::string(crowd.result().why));
    CHECK(crowd.result().failed == 0);
    CHECK(probe(daemon.socket()).processes == 512);
    CHECK(probe(daemon.socket()).threads == 512);
    MESSAGE((ns / 1000000), " ms");
    crowd.leave();
    CHECK(soon([&] { return probe(daemon.socket()).processes == 0; }));
}

TEST_CASE("4096 threads at once all register, each on a page of its own") {
    if (!can_become_others()) return;
    Daemon daemon;
    Crowd crowd(daemon.socket(), 4, 1024, first_user, answer_ms);
    const std::uint64_t ns = crowd.run();
    CAPTURE(std::string(crowd.result().why));
    CHECK(crowd.result().failed == 0);
    CHECK(probe(daemon.socket()).threads == 4096);
    MESSAGE((ns / 1000000), " ms");
}

TEST_CASE("users who take all connections that they can leave some to the next one, who is told why there are no more") {
    if (!can_become_others()) return;
    Daemon daemon;
    // Each holds what it gets until the pipe is closed.
    int hold[2], filled[2];
    REQUIRE(pipe(hold) == 0);
    REQUIRE(pipe(filled) == 0);
    std::vector<pid_t> takers;
    for (const uid_t uid : {first_user, second_user}) {
        takers.push_back(fork());
        if (takers.back() == 0) {
            close(hold[1]);
            allow_descriptors(8192);
            if (!become(uid)) _exit(1);
            std::vector<std::unique_ptr<Raw>> all;
            for (unsigned i = 0; i < POLTER_MAX_CONNECTIONS; i++) {
                all.push_back(std::make_unique<Raw>(daemon.socket()));
                if (all.back()->ask(Raw::request(POLTER_REQUEST_STATUS)) != POLTER_OK) break;
            }
            const std::string why = all.back()->error;
            const char good = all.size() > 100 && why.find("half of those") != std::string::npos;
            if (!good) std::fprintf(stderr, "%zu connections: %s\n", all.size(), why.c_str());
            (void)!write(filled[1], &good, 1);
            char byte;
            (void)!read(hold[0], &byte, 1);
            _exit(0);
        }
        char good = 0;
        CHECK(read(filled[0], &good, 1) == 1);
        CHECK(good == 1);
    }
    CHECK(registers(daemon, third_user));
    CHECK(probe(daemon.socket()).answers);
    for (const int fd : {hold[0], hold[1], filled[0], filled[1]}) close(fd);
    for (const pid_t pid : takers) waitpid(pid, nullptr, 0);
}

TEST_CASE("users who take all threads that they can leave some to the next one") {
    if (!can_become_others()) return;
    Daemon daemon;
    Crowd first(daemon.socket(), 6, 1024, first_user, answer_ms);
    first.run();
    CHECK(std::string(first.result().why).find("half of those") != std::string::npos);
    CHECK(first.result().failed == 6 * 1024 - POLTER_MAX_THREADS / 2);
    Crowd second(daemon.socket(), 3, 1024, second_user, answer_ms);
    second.run();
    CHECK(second.result().failed == 3 * 1024 - POLTER_MAX_THREADS / 4);
    CHECK(registers(daemon, third_user));
}

namespace {

long kernel_memory_kb() {
    std::ifstream file("/proc/meminfo");
    long free = 0, kb = 0;
    std::string name;
    for (std::string line; std::getline(file, line);)
        if (std::sscanf(line.c_str(), "MemAvailable: %ld kB", &kb) == 1) free = kb;
    return -free;
}

// Registers, keeps what it was given after it has left, again and again, until it is refused or has `most`. The reason goes to `error`.
std::vector<int> hoard(const std::string& socket, std::size_t most, bool process_each, std::string& error) {
    std::vector<int> kept;
    auto raw = std::make_unique<Raw>(socket);
    int status = raw->ask(Raw::request(POLTER_REQUEST_PROCESS));
    while (status == POLTER_OK && kept.size() < most) {
        int fd = -1;
        status = raw->ask(Raw::request(POLTER_REQUEST_THREAD, tid()), &fd);
        if (status != POLTER_OK) break;
        kept.push_back(fd);
        if (process_each && kept.size() % 16 == 0) {
            raw = std::make_unique<Raw>(socket);  // the daemon ends the old registration, since its connection is closed
            status = raw->ask(Raw::request(POLTER_REQUEST_PROCESS));
        } else {
            polter_request leave = Raw::request(POLTER_REQUEST_LEAVE, tid());
            leave.slot = raw->reply.slot;
            status = raw->ask(leave);
        }
    }
    error = raw->error;
    return kept;
}

}  // namespace

TEST_CASE("pages that are kept after leaving count until the last descriptor and mapping is gone") {
    if (!can_become_others()) return;
    Daemon daemon;
    const long before = kernel_memory_kb();
    CHECK(as_user(first_user, [&] {
              std::string error;
              auto kept = hoard(daemon.socket(), 3 * POLTER_MAX_THREADS, true, error);
              if (kept.size() != POLTER_MAX_THREADS / 2 || error.find("still mapped") == std::string::npos) {
                  std::fprintf(stderr, "%zu pages kept: %s\n", kept.size(), error.c_str());
                  return 1;
              }
              const long grown = kernel_memory_kb() - before;
              if (grown > 2 * static_cast<long>(POLTER_MAX_THREADS / 2 * (POLTER_PAGE_SIZE / 1024))) {
                  std::fprintf(stderr, "%ld kB of memory\n", grown);
                  return 2;
              }
              // A mapping counts as a descriptor does.
              std::vector<void*> mapped;
              for (const int fd : kept) {
                  mapped.push_back(mmap(nullptr, POLTER_PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0));
                  close(fd);
              }
              Session none(daemon.socket());
              if (none.open() || std::string(none.error).find("still mapped") == std::string::npos) return 3;
              for (void* page : mapped) munmap(page, POLTER_PAGE_SIZE);
              return soon([&] { return none.open() != nullptr; }) ? 0 : 4;
          }) == 0);
    CHECK(registers(daemon, second_user));
}

TEST_CASE("a page is never handed out twice: nobody sees what another's said") {
    if (!can_become_others()) return;
    Daemon daemon;
    const int result = as_user(first_user, [&] {
        std::string error;
        auto kept = hoard(daemon.socket(), 200, false, error);
        if (kept.size() != 200) return 1;
        std::vector<const polter_page_header*> pages;
        for (const int fd : kept)
            pages.push_back(static_cast<const polter_page_header*>(mmap(nullptr, POLTER_PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0)));
        // While other processes come and go, all of the old ones stay frozen as they were.
        for (int i = 0; i < 300; i++)
            if (in_child([&] {
                    Session session(daemon.socket());
                    const auto page = session.open();
                    polter_counters c;
                    if (!page || polter_noise_snapshot(page.get(), &c) != 0) return 1;
                    return polter_noise_header(page.get())->tid > 0 && c.count[POLTER_TIMER] < 100 ? 0 : 2;
                }) != 0)
                return 2;
        for (const auto* page : pages)
            if (page == MAP_FAILED || page->state != POLTER_PAGE_FROZEN || page->pid != getpid()) return 3;
        return 0;
    });
    CHECK(result == 0);
}

TEST_CASE("clients that never read replies are closed, and take none of the daemon's descriptors") {
    if (!can_become_others()) return;
    Daemon daemon;
    const int result = as_user(first_user, [&] {
        for (int i = 0; i < 90; i++)
            if (fork() == 0) {
                Raw raw(daemon.socket());
                polter_request r = Raw::request(POLTER_REQUEST_PROCESS);
                (void)!send(raw.fd, &r, sizeof r, MSG_NOSIGNAL);
                polter_request give = Raw::request(POLTER_REQUEST_THREAD, tid()), take = Raw::request(POLTER_REQUEST_LEAVE, tid());
                for (int k = 0; k < 60; k++)
                    if (send(raw.fd, &give, sizeof give, MSG_NOSIGNAL) < 0 || send(raw.fd, &take, sizeof take, MSG_NOSIGNAL) < 0) _exit(0);
                _exit(1);
            }
        int closed = 0, status = 0;
        for (int i = 0; i < 90; i++)
            if (wait(&status) > 0) closed += WIFEXITED(status) && WEXITSTATUS(status) == 0;
        std::printf("%d of 90 were closed before they had sent 120 requests\n", closed);
        return 0;
    });
    CHECK(result == 0);
    const auto open_in_daemon = [&] {
        int n = 0;
        for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator("/proc/" + std::to_string(daemon.pid()) + "/fd")) n++;
        return n;
    };
    CHECK(soon([&] { return open_in_daemon() < 300; }));
    CHECK(registers(daemon, second_user));
    // One request is answered, the second one closes.
    Raw raw(daemon.socket());
    const polter_request status = Raw::request(POLTER_REQUEST_STATUS);
    REQUIRE(send(raw.fd, &status, sizeof status, MSG_NOSIGNAL) > 0);
    REQUIRE(send(raw.fd, &status, sizeof status, MSG_NOSIGNAL) > 0);
    pollfd closed{raw.fd, POLLRDHUP, 0};
    CHECK(poll(&closed, 1, answer_ms) == 1);
    CHECK(recv(raw.fd, &raw.reply, sizeof raw.reply, MSG_DONTWAIT) == static_cast<ssize_t>(sizeof raw.reply));
    CHECK(recv(raw.fd, &raw.reply, sizeof raw.reply, MSG_DONTWAIT) == 0);
}

namespace {

// CPU time of the daemon so far.
std::uint64_t daemon_ns(pid_t pid) {
    clockid_t clock;
    timespec t{};
    if (clock_getcpuclockid(pid, &clock) == 0) clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace

TEST_CASE("a wrong thread id costs the same in a process with thousands of threads") {
    Daemon daemon;
    const auto cost = [&] {
        Raw raw(daemon.socket());
        REQUIRE(raw.ask(Raw::request(POLTER_REQUEST_PROCESS)) == POLTER_OK);
        constexpr int requests = 20;  // of all together: a clock may be read before the latest answer is accounted for
        const std::uint64_t before = daemon_ns(daemon.pid());
        for (int i = 0; i < requests; i++) CHECK(raw.ask(Raw::request(POLTER_REQUEST_THREAD, 1)) == POLTER_NOT_PERMITTED);
        return (daemon_ns(daemon.pid()) - before) / requests;
    };
    const std::uint64_t alone = cost();
    std::vector<pthread_t> threads;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    static int end[2];
    REQUIRE(pipe(end) == 0);
    for (int i = 0; i < 2000; i++) {
        pthread_t thread;
        const auto body = [](void*) -> void* {
            char byte;
            (void)!read(end[0], &byte, 1);
            return nullptr;
        };
        if (pthread_create(&thread, &small, body, nullptr) == 0) threads.push_back(thread);
    }
    CHECK(soon([&] { return probe(daemon.socket()).processes == 0; }));
    const std::uint64_t among = cost();
    close(end[1]);
    for (const auto thread : threads) pthread_join(thread, nullptr);
    close(end[0]);
    MESSAGE(alone, " ns alone, ", among, " ns among ", threads.size(), " threads");
    CHECK(threads.size() > 1000);
    CHECK(among < 10 * alone);  // looking at each thread takes thousands of times as long
}

TEST_CASE("users who register and leave without end do not delay another one") {
    if (!can_become_others()) return;
    Daemon daemon;
    int end[2];
    REQUIRE(pipe(end) == 0);
    // In turns between users, however many processes one has: so each needs a part of the daemon, not of its processes.
    const pid_t flood = fork();
    if (flood == 0) {
        close(end[1]);
        if (!become(first_user)) _exit(1);
        for (int i = 0; i < 50; i++)
            if (fork() == 0) {
                setpriority(PRIO_PROCESS, 0, 19);  // it is the daemon's time that is shared here, not the machine's
                pollfd stop{end[0], POLLIN, 0};
                while (poll(&stop, 1, 0) == 0) {
                    Raw raw(daemon.socket());
                    raw.ask(Raw::request(POLTER_REQUEST_PROCESS));
                    int fd = -1;
                    raw.ask(Raw::request(POLTER_REQUEST_THREAD, tid()), &fd);
                    if (fd >= 0) close(fd);
                }
                _exit(0);
            }
        while (wait(nullptr) > 0) {
        }
        _exit(0);
    }
    close(end[0]);
    CHECK(soon([&] { return probe(daemon.socket()).processes > 0; }));
    int failed = 0;
    for (int i = 0; i < 20; i++) failed += !registers(daemon, second_user);
    CHECK(failed == 0);
    close(end[1]);
    waitpid(flood, nullptr, 0);
}
