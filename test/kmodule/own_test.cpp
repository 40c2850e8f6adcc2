// SPDX-License-Identifier: BSD-3-Clause
// The tiers that need no exporter: pages that the measured thread writes itself, against the kernel's own accounts.
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "support/measured.hpp"
#include "perf/perf.h"
#include "perf/tracepoints.hpp"

namespace {

struct Tier {
    char error[600] = "";
    polter_session* session;
    polter_noise* noise = nullptr;
    explicit Tier(const char* exporter, const char* tracepoints = nullptr) {
        const polter_noise_options options{
            .socket_path = nullptr, .job = 0, .threads = 0, .timeout_ms = 0, .exporter = exporter, .tracepoints = tracepoints};
        session = polter_session_open(&options, error, sizeof error);
        if (session) noise = polter_noise_open(session, error, sizeof error);
    }
    ~Tier() {
        polter_noise_close(noise);
        polter_session_close(session);
    }
    Tier(const Tier&) = delete;
    unsigned backend() const { return session ? polter_session_backend(session) : unsigned{POLTER_BACKEND_NONE}; }
};

bool perf_refused() {
    char why[600];
    int number;
    if (polter_perf_switches(&number, why, sizeof why) == 0) return false;
    MESSAGE("no perf events here: not tested: " << why);
    return true;
}

}  // namespace

TEST_CASE("a competitor's time is preempt, and agrees with run-delay") {
    for (const char* name : {"perf", "proc"}) {
        if (!strcmp(name, "perf") && perf_refused()) continue;
        CAPTURE(name);
        Pinned pinned;
        Competitor competitor("competitor", 2 * ms, 8 * ms);
        Tier tier(name);
        REQUIRE_MESSAGE(tier.noise, tier.error);
        CHECK(polter_backend_name(tier.backend()) == std::string(name));
        CHECK(polter_noise_header(tier.noise)->accounts_seen == 1u << POLTER_PREEMPT);
        CHECK(*polter_backend_limits(tier.backend()) != 0);
        CHECK(std::string(polter_session_lacks(tier.session)).empty());
        Measured m = measure(tier.noise, 1000 * ms, spin, competitor.runs(100 * ms));
        CHECK(between(m.ns[POLTER_PREEMPT], m.delay, m.delay_around, 0.02));
        CHECK(m.delay > 50 * ms);
        CHECK(m.count[POLTER_PREEMPT] > 10);
        CHECK(m.after_yield == 0);
    }
}

TEST_CASE("what follows a yield that is made known is apart, and of one that is not it is preempt") {
    for (const char* name : {"perf", "proc"})
        for (const bool known : {true, false}) {
            if (!strcmp(name, "perf") && perf_refused()) continue;
            CAPTURE(name);
            CAPTURE(known);
            Pinned pinned;
            Competitor competitor("competitor", 2 * ms, 8 * ms);
            Tier tier(name);
            REQUIRE_MESSAGE(tier.noise, tier.error);
            const auto yielder = [&](std::uint64_t ns) {
                for (const std::uint64_t end = monotonic_ns() + ns; monotonic_ns() < end;) {
                    if (known)
                        polter_noise_yield(tier.noise);
                    else
                        sched_yield();
                }
            };
            Measured m = measure(tier.noise, 700 * ms, yielder, competitor.runs(70 * ms));
            CHECK(between(m.off(), m.delay, m.delay_around, 0.03));
            if (known) {
                CHECK(m.yields > 5);
                CHECK(m.after_yield > 5 * m.ns[POLTER_PREEMPT]);
            } else {
                CHECK(m.yields == 0);
                CHECK(m.ns[POLTER_PREEMPT] > 20 * ms);
            }
        }
}

TEST_CASE("who asks often and says when is not made to wait for the kernel each time, and nothing is missing in the end") {
    for (const char* name : {"perf", "proc"}) {
        if (!strcmp(name, "perf") && perf_refused()) continue;
        CAPTURE(name);
        Pinned pinned;
        Competitor competitor("competitor", 2 * ms, 8 * ms);
        Tier tier(name);
        REQUIRE_MESSAGE(tier.noise, tier.error);
        const auto offset = static_cast<std::uint64_t>(polter_noise_clock_offset());
        polter_counters begin, end;
        const std::uint64_t around = run_delay();
        (void)polter_noise_moved(tier.noise);
        polter_noise_snapshot(tier.noise, &begin);
        const std::uint64_t before = run_delay();
        // What a hundred questions cost in CPU time: the least of many, in turn.
        enum { CLOCK, AT, ALWAYS, WAYS };
        std::uint64_t least[WAYS] = {~0ull, ~0ull, ~0ull};
        const auto enough = competitor.runs(30 * ms);
        for (const std::uint64_t start = monotonic_ns();
             monotonic_ns() - start < 300 * ms || (!enough() && monotonic_ns() - start < patience);)
            for (int way = 0; way < WAYS; way++) {
                const std::uint64_t began = cpu_time();
                for (int i = 0; i < 100; i++) {
                    const std::uint64_t now = monotonic_ns() + offset;
                    const int moved = way == AT       ? polter_noise_moved_at(tier.noise, now)
                                      : way == ALWAYS ? polter_noise_moved(tier.noise)
                                                      : 0;
                    if (moved) polter_noise_snapshot(tier.noise, &end);
                }
                least[way] = std::min(least[way], cpu_time() - began);
            }
        const std::uint64_t delay = run_delay() - before;
        (void)polter_noise_moved(tier.noise);
        polter_noise_snapshot(tier.noise, &end);
        const std::uint64_t delay_around = run_delay() - around;
        MESSAGE(name, ": 100 times ", least[CLOCK], " ns with the clock alone, ", least[AT], " ns with its time, ", least[ALWAYS],
                " ns always");
        CHECK(between(end.ns[POLTER_PREEMPT] - begin.ns[POLTER_PREEMPT], delay, delay_around, 0.05));
        CHECK(delay > 20 * ms);
        if (!strcmp(name, "proc")) CHECK(least[AT] - std::min(least[AT], least[CLOCK]) < (least[ALWAYS] - least[CLOCK]) / 3);
    }
}

TEST_CASE("sleep is no noise") {
    for (const char* name : {"perf", "proc"}) {
        if (!strcmp(name, "perf") && perf_refused()) continue;
        CAPTURE(name);
        Tier tier(name);
        REQUIRE_MESSAGE(tier.noise, tier.error);
        int slept = 0;
        Measured m = measure(
            tier.noise, 300 * ms,
            [&](std::uint64_t) {
                sleep_ms(20);
                slept++;
            },
            [&] { return slept >= 10; });
        // The waiting after it may be long on a busy machine, and no longer than the kernel says.
        CHECK(m.ns[POLTER_PREEMPT] <= m.delay_around + 10 * ms);
        CHECK(m.wall_around - m.delay_around > 150 * ms);
    }
}

TEST_CASE("a ring that is full says so, and the next records count again") {
    if (perf_refused()) return;
    Pinned pinned;
    Tier tier("perf");
    REQUIRE_MESSAGE(tier.noise, tier.error);
    polter_counters c;
    REQUIRE(polter_noise_snapshot(tier.noise, &c) == 0);
    CHECK(c.unbalanced == 0);
    for (int i = 0; i < 20000; i++) {  // two records each; the ring has room for some 2700
        const timespec t{0, 1000};
        nanosleep(&t, nullptr);
    }
    REQUIRE(polter_noise_snapshot(tier.noise, &c) == 0);
    // The record of the loss comes with the first for which there is room again.
    sleep_ms(1);
    REQUIRE(polter_noise_snapshot(tier.noise, &c) == 0);
    CHECK(c.unbalanced > 10000);
    Competitor competitor("competitor", 2 * ms, 8 * ms);
    const std::uint64_t around = run_delay();
    polter_counters begin, end;
    polter_noise_snapshot(tier.noise, &begin);
    const std::uint64_t before = run_delay();
    const auto enough = competitor.runs(30 * ms);
    for (const std::uint64_t start = monotonic_ns(); monotonic_ns() - start < 300 * ms || (!enough() && monotonic_ns() - start < patience);)
        spin(10 * ms);
    const std::uint64_t delay = run_delay() - before;
    polter_noise_snapshot(tier.noise, &end);
    CHECK(between(end.ns[POLTER_PREEMPT] - begin.ns[POLTER_PREEMPT], delay, run_delay() - around, 0.05));
    CHECK(delay > 20 * ms);
}

TEST_CASE("a child has no part in its parent's page, and each thread has its own") {
    for (const char* name : {"perf", "proc"}) {
        if (!strcmp(name, "perf") && perf_refused()) continue;
        CAPTURE(name);
        Tier tier(name);
        REQUIRE_MESSAGE(tier.noise, tier.error);
        CHECK(in_child([&] {
                  polter_counters c{};
                  if (polter_noise_moved(tier.noise)) return 1;
                  polter_noise_snapshot(tier.noise, &c);
                  char error[600];
                  if (polter_noise_open(tier.session, error, sizeof error)) return 2;
                  return polter_noise_yield(tier.noise) == 0 ? 0 : 3;
              }) == 0);
        std::atomic<polter_noise*> theirs{nullptr};
        std::atomic<bool> closed{false};
        std::thread other([&] {
            char error[600];
            theirs = polter_noise_open(tier.session, error, sizeof error);
            while (!closed) polter_noise_yield(theirs);
            polter_noise_close(theirs);
        });
        while (!theirs) sleep_ms(1);
        CHECK(polter_noise_header(theirs)->tid != polter_noise_header(tier.noise)->tid);
        polter_noise_close(theirs);  // from here: nothing happens to a page that is being written
        closed = true;
        other.join();
    }
}

TEST_CASE("without a daemon the best that works is taken, and what stood in the way is said") {
    if (access("/run/polter/polterd.sock", F_OK) == 0) {
        MESSAGE("a polterd serves this node: not tested");
        return;
    }
    unsetenv("POLTER_SOCKET");
    unsetenv("POLTER_EXPORTER");
    Tier tier(nullptr);
    REQUIRE_MESSAGE(tier.noise, tier.error);
    CHECK((tier.backend() == POLTER_BACKEND_PERF || tier.backend() == POLTER_BACKEND_PROC));
    CHECK(std::string(polter_session_lacks(tier.session)).find("no polterd runs there") != std::string::npos);
    Tier named("bpf");
    CHECK(named.session == nullptr);
}

TEST_CASE("with the kernel's tracepoints perf sees interrupts too, and who took the CPU") {
    CHECK(in_child([] {
              // A mount of this process's own.
              if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
                  mount("nodev", "/sys/kernel/debug", "debugfs", 0, nullptr) != 0) {
                  std::printf("no debugfs can be mounted here: not tested\n");
                  return 0;
              }
              const auto allowed = polter::perf::allowed_tracepoints();
              if (allowed.list.empty()) {
                  std::printf("no tracepoints here: not tested: %s\n", allowed.why_not.c_str());
                  return 0;
              }
              Pinned pinned;
              Competitor competitor("competitor", 2 * ms, 8 * ms);
              Tier tier("perf", allowed.list.c_str());
              if (!tier.noise) return 1;
              const std::uint32_t seen = polter_noise_header(tier.noise)->accounts_seen;
              for (const unsigned account : {POLTER_TIMER, POLTER_IRQ, POLTER_IPI, POLTER_SOFTIRQ, POLTER_PREEMPT, POLTER_NET})
                  if (!(seen >> account & 1)) return 2;
              int code = 0;
              retry([&](bool) {
                  const std::uint64_t ran = competitor.ran();
                  // Ticks enough of its own, too: 20 of them are 200 ms where there are fewest.
                  const auto enough = [theirs = competitor.runs(20 * ms), on = cpu_time()] {
                      return theirs() && cpu_time() > on + 250 * ms;
                  };
                  Measured m = measure(tier.noise, 1000 * ms, spin, enough);
                  const std::uint64_t its = competitor.ran() - ran, named = m.culprits["preempt:competitor"];
                  // A wait has one name, and on a busy machine it may be another's who ran before or behind it.
                  std::uint64_t others = 0;
                  for (const auto& [name, time] : m.culprits)
                      if (name.starts_with("preempt:") && name != "preempt:?" && name != "preempt:") others += time;
                  others -= named;
                  code = m.count[POLTER_TIMER] < 20                                      ? 3
                         : !between(m.ns[POLTER_PREEMPT], m.delay, m.delay_around, 0.02) ? 4
                         : its == 0 || named == 0 || (named + others) * 2 < its          ? 5
                         : m.ns[POLTER_TIMER] > m.cpu / 10 || m.ns[POLTER_TIMER] == 0    ? 6
                         : m.unbalanced != 0                                             ? 7
                                                                                         : 0;
                  return code == 0;
              });
              return code;
          }) == 0);
}
