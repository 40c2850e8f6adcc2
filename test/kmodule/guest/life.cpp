// SPDX-License-Identifier: BSD-3-Clause
// Threads and processes come and go, CPUs too, and the module itself: nothing is left, and pages say the truth to the end.
#include <sys/prctl.h>

#include <atomic>
#include <thread>
#include <vector>

#include "guest.hpp"

namespace guest {

void measures() {
    pin(1);
    // A competitor, so that there is something to see.
    const pid_t rival = child([] {
        prctl(PR_SET_NAME, "rival");
        for (;;) {
            spin(5 * ms);
            sleep_ms(5);
        }
        return 0;
    });
    CHECK_EQ(in_child([] {
                 const auto before = status();
                 Session session;
                 const auto noise = session.open();
                 CHECK(noise != nullptr);
                 if (!noise) {
                     std::printf("  %s\n", session.error);
                     return 1;
                 }
                 CHECK(polter_session_alive(session.handle));
                 CHECK_EQ(status().processes, before.processes + 1);
                 CHECK_EQ(status().threads, before.threads + 1);
                 const auto* header = polter_noise_header(noise.get());
                 CHECK_EQ(header->backend, POLTER_BACKEND_MODULE);
                 CHECK_EQ(header->tid, getpid());
                 CHECK(header->accounts_seen >> POLTER_PREEMPT & header->accounts_seen >> POLTER_TIMER & 1);
                 Session again;
                 CHECK(again.handle == nullptr);
                 CHECK(std::strstr(again.error, "already"));
                 polter_counters first, last;
                 const std::uint64_t start = now_ns();
                 CHECK(polter_noise_snapshot(noise.get(), &first) == 0);
                 spin(1000 * ms);
                 CHECK(polter_noise_snapshot(noise.get(), &last) == 0);
                 const std::uint64_t wall = now_ns() - start;
                 std::uint64_t sum = 0;
                 for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) sum += last.ns[a] - first.ns[a];
                 CHECK(sum <= wall);
                 CHECK(last.ns[POLTER_PREEMPT] - first.ns[POLTER_PREEMPT] > wall / 5);
                 CHECK(last.count[POLTER_TIMER] - first.count[POLTER_TIMER] > 10);  // an emulated machine on a busy one loses ticks
                 CHECK_EQ(last.unbalanced, 0);
                 CHECK_EQ(last.give_ups, 0);
                 polter_ring_entry entries[64];
                 polter_u64 lost = 0;
                 bool named = false;
                 for (std::size_t n; (n = polter_noise_drain(noise.get(), ~0ull, entries, 64, &lost)) > 0;)
                     for (std::size_t i = 0; i < n; i++)
                         named |= entries[i].account == POLTER_PREEMPT && std::strcmp(entries[i].culprit, "rival") == 0;
                 CHECK(named);
                 return 0;
             }),
             0);
    kill(rival, SIGKILL);
    wait_for(rival);
    CHECK(soon([] { return status().processes == 0; }));
}

void lives_and_ends() {
    Session session(POLTER_DEVICE, 2);
    CHECK(session.handle != nullptr);
    const auto own = session.open();
    const polter_page_header* page = nullptr;
    // An exited thread's page says so and stays, and its slot is taken until it is closed.
    Session::Page theirs;
    std::thread([&] {
        theirs = session.open();
        page = theirs ? polter_noise_header(theirs.get()) : nullptr;
        CHECK(page && page->state == POLTER_PAGE_LIVE);
        sleep_ms(20);
    }).join();
    CHECK(page != nullptr);
    if (!page) return;
    CHECK(soon([&] { return page->state == POLTER_PAGE_FROZEN; }));
    CHECK(page->end_ns > page->start_ns && page->end_ns <= now_ns());
    CHECK_EQ(polter_noise_ended_ns(theirs.get()), page->end_ns);
    std::thread([&] { CHECK(session.open() == nullptr); }).join();
    CHECK(std::strstr(session.error, "taken"));
    theirs.reset();
    std::thread([&] { CHECK(session.open() != nullptr); }).join();
    // Closed while another thread's page is live: that one is not touched.
    CHECK_EQ(polter_noise_header(own.get())->state, POLTER_PAGE_LIVE);
    CHECK_EQ(polter_noise_ended_ns(own.get()), 0);
    // Many come and go.
    for (int i = 0; i < 200; i++) std::thread([&] { CHECK(session.open() != nullptr); }).join();
    CHECK_EQ(status().threads, 1);
}

void execs_and_kills() {
    // The new program is not the one that registered, and may register itself.
    CHECK_EQ(in_child([] {
                 Session session;
                 CHECK(session.open() != nullptr);
                 std::thread other([&] {
                     const auto page = session.open();
                     sleep_ms(10000);
                 });
                 other.detach();
                 sleep_ms(20);
                 execl("/proc/self/exe", "guest_test", "lives_and_ends", nullptr);
                 return 1;
             }),
             0);
    CHECK(soon([] { return status().processes == 0; }));
    // From another thread than the first, too.
    CHECK_EQ(in_child([] {
                 Session session;
                 const auto page = session.open();
                 std::thread([&] {
                     const auto page = session.open();
                     execl("/proc/self/exe", "guest_test", "lives_and_ends", nullptr);
                 }).join();
                 return 1;
             }),
             0);
    CHECK(soon([] { return status().processes == 0; }));
    // Killed at any point of its registration.
    for (int i = 0; i < 60; i++) {
        const pid_t pid = child([] {
            for (;;) {
                Session session;
                const auto page = session.open();
                std::thread([&] { const auto page = session.open(); }).join();
            }
            return 0;
        });
        const timespec t{0, 100000 * (i + 1)};
        nanosleep(&t, nullptr);
        kill(pid, SIGKILL);
        CHECK_EQ(wait_for(pid), 128 + SIGKILL);
    }
    CHECK(soon([] { return status().processes == 0 && status().threads == 0; }));
}

void two_thousand_threads() {
    long before = 0;
    for (const unsigned count : {300u, 2000u}) {  // the first fills the kernel's own caches
        if (count == 2000) before = used_memory();
        CHECK_EQ(in_child([count] {
                     Session session(POLTER_DEVICE, count);
                     CHECK(session.handle != nullptr);
                     std::atomic<unsigned> good{0}, there{0};
                     std::atomic<bool> go{false};
                     const auto body = [&] {
                         const auto page = session.open();
                         there++;
                         go.wait(false);
                         polter_counters c;
                         good += page && polter_noise_snapshot(page.get(), &c) == 0 &&
                                 polter_noise_header(page.get())->state == POLTER_PAGE_LIVE && c.unbalanced == 0;
                     };
                     std::vector<pthread_t> threads;
                     pthread_attr_t small;
                     pthread_attr_init(&small);
                     pthread_attr_setstacksize(&small, 64 << 10);
                     const std::function<void()> function = body;
                     for (unsigned i = 0; i < count; i++) {
                         pthread_t t;
                         const auto run = [](void* f) -> void* {
                             (*static_cast<const std::function<void()>*>(f))();
                             return nullptr;
                         };
                         if (pthread_create(&t, &small, run, const_cast<std::function<void()>*>(&function)) == 0) threads.push_back(t);
                     }
                     while (there < threads.size()) sleep_ms(10);
                     CHECK_EQ(status().threads, count);
                     go = true;
                     go.notify_all();
                     for (const auto t : threads) pthread_join(t, nullptr);
                     CHECK_EQ(good.load(), count);
                     return 0;
                 }),
                 0);
        CHECK(soon([] { return status().threads == 0 && status().processes == 0; }));
    }
    // Its pages alone were over 100 MB.
    sleep_ms(200);
    const long more = used_memory() - before;
    std::printf("  kernel memory after 2000 threads: %+ld kB\n", more);
    CHECK(more < 16000);
}

void unloads_under_mappings() {
    CHECK_EQ(in_child([] {
                 Session session;
                 const auto page = session.open();
                 CHECK(page != nullptr);
                 if (!page) return 1;
                 std::atomic<bool> stop{false}, there{false};
                 Session::Page theirs;
                 std::thread busy([&] {  // writes its page up to the end
                     pin(1);
                     theirs = session.open();
                     there = true;
                     while (!stop) sched_yield();
                 });
                 while (!there) sched_yield();
                 sleep_ms(100);
                 const int held = open_device();
                 CHECK(!unload_module() && errno == EWOULDBLOCK);  // somebody is in it
                 CHECK_EQ(polter_noise_ended_ns(page.get()), 0);
                 close(held);
                 CHECK(unload_module());
                 CHECK(!module_loaded());
                 CHECK(!polter_session_alive(session.handle));
                 polter_ring_entry entries[64];
                 for (const auto* noise : {page.get(), theirs.get()}) {
                     const auto* header = polter_noise_header(noise);
                     CHECK_EQ(header->state, POLTER_PAGE_FROZEN);
                     CHECK(header->end_ns > header->start_ns && header->end_ns <= now_ns());
                     CHECK_EQ(polter_noise_ended_ns(noise), header->end_ns);
                 }
                 polter_counters first, last;
                 CHECK(polter_noise_snapshot(theirs.get(), &first) == 0);
                 sleep_ms(200);
                 CHECK(polter_noise_snapshot(theirs.get(), &last) == 0);
                 CHECK(std::memcmp(&first, &last, sizeof first) == 0);
                 CHECK(first.recorded + first.yields > 0);
                 polter_u64 lost = 0;
                 (void)polter_noise_drain(theirs.get(), ~0ull, entries, 64, &lost);
                 // A module that comes back knows nothing of it, and serves anew.
                 CHECK(load_module());
                 CHECK(!polter_session_alive(session.handle));
                 CHECK(session.open() == nullptr);
                 CHECK_EQ(in_child([] {
                              Session fresh;
                              return fresh.open() == nullptr;
                          }),
                          0);
                 stop = true;
                 busy.join();
                 return 0;
             }),
             0);
    CHECK(module_loaded());
}

void unloads_while_all_register() {
    std::vector<pid_t> children;
    for (int i = 0; i < 3; i++)
        children.push_back(child([i] {
            for (unsigned k = 0;; k++) {
                Session session;
                const auto page = session.open();
                if (page) {
                    polter_counters c;
                    polter_noise_snapshot(page.get(), &c);
                    const std::uint64_t magic = polter_noise_header(page.get())->magic;
                    if (magic != POLTER_PAGE_MAGIC) return 1;
                }
                sleep_ms((k + static_cast<unsigned>(i)) % 4);
                if (k % 7 == 0 && in_child([&] {
                                      Session forked;
                                      const auto page = forked.open();
                                      return 0;
                                  }) != 0)
                    return 2;
            }
            return 0;
        }));
    int unloaded = 0;
    for (const std::uint64_t end = now_ns() + 15000 * ms; unloaded < 4 && now_ns() < end;) {
        sleep_ms(20);
        for (int i = 0; i < 200 && !unload_module(); i++) sched_yield();
        if (module_loaded()) continue;
        unloaded++;
        CHECK(load_module());
    }
    for (const pid_t pid : children) {
        CHECK(waitpid(pid, nullptr, WNOHANG) == 0);
        kill(pid, SIGKILL);
        wait_for(pid);
    }
    std::printf("  unloaded %d times\n", unloaded);
    CHECK(unloaded >= 3);
    CHECK(soon([] { return status().processes == 0 && status().threads == 0; }));
    CHECK(unload_module());
    CHECK(load_module());
}

}  // namespace guest
