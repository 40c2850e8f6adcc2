// SPDX-License-Identifier: BSD-3-Clause
// What the hypervisor takes: net of it are the interruptions in which it took, and nothing counts twice.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "support/page_fixture.hpp"

namespace {
std::uint64_t clock_ns, stolen_ns;
}
#define POLTER_NOW() clock_ns
#include "accounting/nesting.h"
#include "accounting/steal.h"
#ifdef POLTER_HAVE_BPF
#include "bpf/steal.hpp"
#endif

namespace {

// One CPU with a clock of stolen time that the kernel brings up to date at its ticks.
struct Cpu {
    polter_thread thread{};
    polter_cpu cpu{};
    std::uint64_t booked_ns = 500, interrupted_sum = 0, steal_sum = 0;
    Cpu() {
        clock_ns = 1'000'000;
        stolen_ns = booked_ns;
        thread.tid = 1;
    }
    void comes() { polter_steal_begin(&cpu, &thread, booked_ns, clock_ns, polter_steal_interrupted(&thread)); }
    void taken(std::uint64_t ns) {
        clock_ns += ns;
        stolen_ns += ns;
    }
    void enter(unsigned kind) { polter_nesting_enter(&cpu, &thread, kind, 0); }
    // As the backends do it. What was found to be stolen; -1: the interruption did not fit.
    long long leave(unsigned kind) {
        polter_u64 end, net, found = 0;
        if (kind == POLTER_FRAME_TIMER) booked_ns = stolen_ns;
        if (!polter_nesting_exit(&cpu, &thread, kind, 0, &end, &net)) return -1;
        if (cpu.depth == 0) found = polter_steal_look(&cpu, &thread, booked_ns, &cpu.frame[0]);
        thread.master.ns[kind == POLTER_FRAME_TIMER ? POLTER_TIMER : POLTER_IRQ] += net;
        interrupted_sum += net;
        steal_sum += found;
        return static_cast<long long>(found);
    }
    long long tick() {
        enter(POLTER_FRAME_TIMER);
        clock_ns += 2;
        return leave(POLTER_FRAME_TIMER);
    }
};

}  // namespace

TEST_CASE("what was stolen before the thread came is not its") {
    Cpu c;
    c.taken(1000);
    c.tick();
    c.comes();
    clock_ns += 50;
    CHECK(c.tick() == 0);
    c.taken(70);
    CHECK(c.tick() == 70);
    CHECK(c.tick() == 0);
}

TEST_CASE("a thread that registers while it runs begins with the first look") {
    Cpu c;
    c.taken(1000);
    CHECK(c.tick() == 0);
    c.taken(10);
    CHECK(c.tick() == 10);
}

TEST_CASE("it is found at the tick, and lies before it") {
    Cpu c;
    c.comes();
    clock_ns += 30;
    c.taken(100);
    c.enter(POLTER_FRAME_IRQ);
    clock_ns += 3;
    CHECK(c.leave(POLTER_FRAME_IRQ) == 0);  // the kernel does not know yet
    c.enter(POLTER_FRAME_IRQ);
    CHECK(c.tick() == 0);  // nests in another
    CHECK(c.leave(POLTER_FRAME_IRQ) == 100);
}

TEST_CASE("what is booked late is cut to the time that the thread had, less what interrupted it") {
    Cpu c;
    c.taken(400);
    c.comes();  // the kernel has not booked it yet
    clock_ns += 20;
    c.enter(POLTER_FRAME_IRQ);
    clock_ns += 7;
    c.leave(POLTER_FRAME_IRQ);
    clock_ns += 3;
    CHECK(c.tick() == 23);
    CHECK(c.steal_sum + c.interrupted_sum == clock_ns - 1'000'400);
}

TEST_CASE("a clock that goes back is nothing") {
    Cpu c;
    c.comes();
    clock_ns += 30;
    stolen_ns -= 300;
    CHECK(c.tick() == 0);
    c.taken(6);
    CHECK(c.tick() == 6);
}

TEST_CASE("steal and interruptions never exceed the time that passed") {
    for (unsigned seed = 1; seed <= 200; seed++) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const auto draw = [&](unsigned k) { return std::uniform_int_distribution<unsigned>(0, k - 1)(random); };
        Cpu c;
        c.taken(draw(1000));
        c.comes();
        const std::uint64_t start = clock_ns;
        unsigned depth = 0;
        for (int i = 0; i < 1000; i++) {
            clock_ns += draw(10);
            if (draw(3) == 0) c.taken(draw(50));
            if (depth < 4 && draw(2)) {
                c.enter(1 + depth++);
            } else if (depth > 0) {
                CHECK(c.leave(depth--) >= 0);
            }
        }
        CHECK(c.steal_sum > 1000);
        CHECK(c.steal_sum + c.interrupted_sum <= clock_ns - start);
    }
}

#ifdef POLTER_HAVE_BPF
TEST_CASE("a hypervisor that never booked anything and has no clock of its own is silent") {
    using polter::exporter::Hypervisor;
    char name[] = "/tmp/polter-test-XXXXXX";
    const std::filesystem::path proc = mkdtemp(name);
    const auto of = [&](const char* line) {
        std::ofstream(proc / "stat") << line << "\n";
        return polter::exporter::hypervisor(proc);
    };
    const auto nothing = of("cpu  1 2 3 4 5 6 7 0 0 0"), some = of("cpu  1 2 3 4 5 6 7 8 0 0"), broken = of("");
    std::filesystem::remove_all(proc);
    if (nothing == Hypervisor::none) return;  // there is nothing to be told
    CHECK(some == Hypervisor::tells);
    CHECK(broken == nothing);
}
#endif
