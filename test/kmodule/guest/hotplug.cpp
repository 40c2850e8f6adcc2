// SPDX-License-Identifier: BSD-3-Clause
// CPUs go and come back under threads that are measured there: pages stay whole, sums hold, and what happens afterwards is seen.
#include <sys/prctl.h>

#include <atomic>
#include <thread>
#include <vector>

#include "guest.hpp"

namespace guest {
namespace {

bool set_online(bool on) {
    const char* const file = "/sys/devices/system/cpu/cpu1/online";
    return write_file(file, on ? "1" : "0") && read_file(file) == (on ? "1\n" : "0\n");
}

std::uint64_t sum(const polter_counters& c) {
    std::uint64_t all = c.after_yield_ns;
    for (const auto ns : c.ns) all += ns;
    return all;
}

// Reads a page while it changes: no account ever goes back.
struct Watch {
    std::atomic<bool> stop{false};
    std::thread thread;
    unsigned long reads = 0, backwards = 0;
    explicit Watch(polter_noise* noise)
        : thread([this, noise] {
              polter_counters last{}, c;
              while (!stop) {
                  if (polter_noise_snapshot(noise, &c) != 0) continue;
                  for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) backwards += c.ns[a] < last.ns[a] || c.count[a] < last.count[a];
                  last = c;
                  reads++;
                  sleep_ms(1);
              }
          }) {}
    void end() {
        stop = true;
        thread.join();
    }
};

// Four threads, two of them bound to the CPU that goes, two that sleep now and then.
void under_load(Session& session) {
    std::atomic<bool> stop{false};
    std::atomic<int> good{0}, there{0};
    std::vector<std::thread> threads;
    Session::Page pages[4];
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&, i] {
            if (i % 2) pin(1);
            const std::uint64_t start = now_ns();
            pages[i] = session.open();
            const auto& page = pages[i];
            there++;
            while (!stop) {
                spin(2 * ms);
                if (i > 1) sleep_ms(1);
            }
            polter_counters c;
            if (!page || polter_noise_snapshot(page.get(), &c) != 0) return;
            const std::uint64_t wall = now_ns() - start + 10 * ms;
            const bool right = sum(c) <= wall && sum(c) > wall / 20 && c.unbalanced <= 2 && c.give_ups == 0;
            if (!right)
                std::printf("  thread %d: %lu ns of %lu, %lu unbalanced, %lu given up\n", i, sum(c), wall, c.unbalanced, c.give_ups);
            good += right;
        });
    while (there < 4) sleep_ms(1);
    CHECK(pages[1] != nullptr);
    if (pages[1]) {
        Watch watch(pages[1].get());
        for (int i = 0; i < 4; i++) {
            sleep_ms(100);
            CHECK(set_online(false));
            sleep_ms(100);
            CHECK(set_online(true));
        }
        watch.end();
        CHECK(watch.reads > 50);
        CHECK_EQ(watch.backwards, 0);
    }
    stop = true;
    for (auto& t : threads) t.join();
    CHECK_EQ(good.load(), 4);
}

// On a CPU that has just come (back): its timer ticks, and who takes it from whom is known.
void seen_there(Session& session, pid_t rival) {
    kill(rival, SIGCONT);
    std::thread([&] {
        pin(1);
        const std::uint64_t start = now_ns();  // the page tells of the wait for its answer, too
        const auto page = session.open();
        CHECK(page != nullptr);
        if (!page) return;
        polter_counters c;
        const bool right = soon([&] {
            spin(50 * ms);
            return polter_noise_snapshot(page.get(), &c) == 0 && c.count[POLTER_TIMER] > 5 && c.ns[POLTER_PREEMPT] > 50 * ms;
        });
        CHECK(right);
        const std::uint64_t wall = now_ns() - start + 10 * ms;
        CHECK(sum(c) <= wall);
        if (sum(c) > wall) {
            std::printf("  %lu ns of %lu:", sum(c), wall);
            for (unsigned a = 0; a < POLTER_ACCOUNTS; a++)
                if (c.count[a]) std::printf(" %s %lu/%lu", polter_account_name(a), c.ns[a], c.count[a]);
            std::printf("\n");
        }
        CHECK_EQ(c.unbalanced, 0);
        polter_ring_entry entries[64];
        polter_u64 lost = 0;
        bool named = false;
        for (std::size_t n; (n = polter_noise_drain(page.get(), ~0ull, entries, 64, &lost)) > 0;)
            for (std::size_t i = 0; i < n; i++)
                named |= entries[i].account == POLTER_PREEMPT && std::strcmp(entries[i].culprit, "rival") == 0;
        CHECK(named);
    }).join();
    kill(rival, SIGSTOP);
}

void unplugged(const char* path) {
    // Before this process is measured: what it starts afterwards is of its job.
    const pid_t rival = child([] {
        prctl(PR_SET_NAME, "rival");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        raise(SIGSTOP);
        for (;;) {
            pin(1);
            spin(10 * ms);
        }
        return 0;
    });
    int state = 0;
    CHECK(waitpid(rival, &state, WUNTRACED) == rival && WIFSTOPPED(state));
    // The CPU is away when the first one registers, and comes then.
    Session session(path, 16);
    CHECK(session.handle != nullptr);
    if (!session.handle) return;
    CHECK(set_online(true));
    seen_there(session, rival);
    under_load(session);
    seen_there(session, rival);
    kill(rival, SIGKILL);
    wait_for(rival);
}

}  // namespace

void cpu_unplugged() {
    CHECK(set_online(false));
    unplugged(POLTER_DEVICE);
    CHECK(set_online(true));
}

void cpu_unplugged_bpf() {
    CHECK(set_online(false));
    Daemon daemon;
    CHECK(daemon.serves);
    unplugged(daemon_socket);
    CHECK(set_online(true));
}

}  // namespace guest
