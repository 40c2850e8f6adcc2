// SPDX-License-Identifier: BSD-3-Clause
// A thread that is not the leader executes another program: it takes the leader's id, and its own is free. The next task that gets it may
// be another user's.
#include <linux/sched.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "guest.hpp"

namespace guest {
namespace {

// A process that has exactly this id.
pid_t child_with_id(pid_t id, const std::function<int()>& body) {
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    arguments.set_tid = reinterpret_cast<std::uint64_t>(&id);
    arguments.set_tid_size = 1;
    std::fflush(nullptr);
    const auto pid = static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
    if (pid == 0) _exit(body());
    return pid;
}

struct Page {
    polter_noise* noise;
    int ask[2], answer[2], hold[2];
};

struct Answer {
    std::uint32_t state;
    polter_counters counters;
};

// A process of its own that shares the other's memory, and keeps it beyond the other's exec.
int keeper(void* argument) {
    const auto* page = static_cast<const Page*>(argument);
    close(page->ask[1]), close(page->hold[1]);
    for (char byte; read(page->ask[0], &byte, 1) == 1;) {
        Answer answer{};
        answer.state = polter_noise_header(page->noise)->state;
        if (polter_noise_snapshot(page->noise, &answer.counters) != 0) answer.state = ~0u;
        (void)!write(page->answer[1], &answer, sizeof answer);
    }
    _exit(0);
}

Answer look(const Page& page) {
    Answer answer{~0u, {}};
    (void)!write(page.ask[1], "", 1);
    (void)!read(page.answer[0], &answer, sizeof answer);
    return answer;
}

// Somebody who may not be watched: runs, sleeps, and is taken off his CPU.
int victim() {
    const pid_t rival = child([] {
        pin(1);
        for (;;) spin(ms);
        return 0;
    });
    pin(1);
    for (int i = 0; i < 10; i++) {
        spin(20 * ms);
        sleep_ms(1);
    }
    kill(rival, SIGKILL);
    wait_for(rival);
    return 0;
}

void given_away(const char* path) {
    Page page{};
    int told[2];
    for (int* ends : {page.ask, page.answer, page.hold, told}) CHECK(pipe2(ends, O_CLOEXEC) == 0);
    const pid_t attacker = child([&] {
        CHECK(become(1000));
        Session session(path);
        alignas(16) static char stack[64 << 10];
        const int watching = clone(keeper, stack + sizeof stack, CLONE_VM | SIGCHLD, &page);
        CHECK(watching > 0);
        std::thread([&] {
            auto own = session.open();
            page.noise = own.get();
            const pid_t id = page.noise ? gettid() : 0;
            (void)!write(told[1], &id, sizeof id);
            dup2(page.hold[0], 0);
            if (id) execl("/bin/cat", "cat", nullptr);
            _exit(1);
        }).join();
        return 1;
    });
    pid_t id = 0;
    CHECK(read(told[0], &id, sizeof id) == sizeof id && id > 0 && id != attacker);
    if (id > 0) {
        CHECK(soon([&] { return read_file("/proc/" + std::to_string(attacker) + "/comm") == "cat\n"; }));
        // Frozen after the exec, when nobody can be writing it any more.
        CHECK(soon([&] { return look(page).state == POLTER_PAGE_FROZEN; }));
        const Answer before = look(page);
        const pid_t another = child_with_id(id, victim);
        CHECK_EQ(another, id);
        CHECK_EQ(wait_for(another), 0);
        const Answer after = look(page);
        CHECK_EQ(after.state, POLTER_PAGE_FROZEN);
        CHECK(std::memcmp(&before.counters, &after.counters, sizeof before.counters) == 0);
        std::printf("  preempt %lu us before and %lu us after, timer %lu and %lu\n", before.counters.ns[POLTER_PREEMPT] / 1000,
                    after.counters.ns[POLTER_PREEMPT] / 1000, before.counters.count[POLTER_TIMER], after.counters.count[POLTER_TIMER]);
        // The id's new owner can be measured, if he wants to.
        const pid_t own = child_with_id(id, [&] {
            Session session(path);
            const auto measured = session.open();
            if (!measured) std::printf("  %s\n", session.error);
            return measured == nullptr;
        });
        CHECK_EQ(own, id);
        CHECK_EQ(wait_for(own), 0);
    }
    for (int* ends : {page.ask, page.answer, page.hold, told}) close(ends[0]), close(ends[1]);
    CHECK_EQ(wait_for(attacker), 0);
}

}  // namespace

void thread_id_given_away() {
    given_away(POLTER_DEVICE);
    CHECK(soon([] { return status().processes == 0 && status().pages == 0; }));
}

void thread_id_given_away_bpf() {
    Daemon daemon;
    CHECK(daemon.serves);
    if (daemon.serves) given_away(daemon_socket);
}

}  // namespace guest
