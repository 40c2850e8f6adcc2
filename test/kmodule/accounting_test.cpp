// SPDX-License-Identifier: BSD-3-Clause
// The accounting that the backends share, fed with invented events on an invented clock.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/page_fixture.hpp"

namespace {

std::uint64_t clock_ns;
std::vector<polter_cpu> cpus(4);
std::map<unsigned, std::uint64_t> jobs;

polter_cpu* cpu_of(unsigned n) {
    return n < cpus.size() ? &cpus[n] : nullptr;
}
std::uint64_t job_of(unsigned tgid) {
    return jobs.contains(tgid) ? jobs[tgid] : 0;
}
void repeat(unsigned n, long (*callback)(polter_u32, void*), void* context) {
    for (unsigned i = 0; i < n && callback(i, context) == 0; i++) {
    }
}

}  // namespace

#define POLTER_NOW() clock_ns
#define POLTER_CPU(n) cpu_of(n)
#define POLTER_JOB_OF(tgid) job_of(tgid)
#define POLTER_REPEAT(n, callback, context) repeat(n, callback, context)
#include "accounting/faults.h"
#include "accounting/nesting.h"
#include "accounting/started.h"
#include "accounting/steal.h"
#include "accounting/waiting.h"

namespace {

// One registered thread, 100/100 in job 9, on invented CPUs.
struct Node : Fixture {
    char error[256] = "";
    Noise noise = open_page(*page, error, sizeof error);
    polter_u64 lost = 0;
    bool always_split = false;  // also where one task alone ran

    Node() {
        clock_ns = 1000;
        cpus.assign(4, {});
        jobs = {{100, 9}, {101, 9}, {200, 7}};
        thread.tid = thread.tgid = 100;
        thread.job = 9;
        thread.off = POLTER_BLOCKED;
    }
    void runs(unsigned cpu, int tid, unsigned tgid, const char* name, unsigned owner = 0) {
        polter_ran_close(&cpus[cpu], clock_ns);
        begins(cpu, tid, tgid, name, owner);
    }
    void begins(unsigned cpu, int tid, unsigned tgid, const char* name, unsigned owner = 0) {
        polter_ran* ran = polter_ran_open(&cpus[cpu], tid, tgid, owner);
        std::memset(ran->comm, 0, sizeof ran->comm);
        std::strncpy(ran->comm, name, sizeof ran->comm - 1);
    }
    void self(unsigned cpu) {
        polter_ran_close(&cpus[cpu], clock_ns);
        if (always_split) cpus[cpu].came_ns = ~0ull;
        polter_waiting_return(&thread, page.get(), &cpus[cpu], cpu, clock_ns);
        begins(cpu, 100, 100, "self");
    }
    void idle(unsigned cpu) { runs(cpu, 0, 0, "swapper", POLTER_OWNER_KERNEL); }
    void off(unsigned cpu, unsigned why) {
        polter_ran_close(&cpus[cpu], clock_ns);
        polter_waiting_leave(&thread, &cpus[cpu], cpu, why, clock_ns);
    }
    void tick(std::uint64_t ns) {
        const polter_culprit timer{0, "local_timer"};
        const int outermost = polter_publish_begin(&thread, POLTER_ALONE);
        polter_publish_record(&thread, page.get(), clock_ns, ns, POLTER_TIMER, 1, &timer, POLTER_ALONE);
        polter_publish_end(&thread, page.get(), outermost, clock_ns, POLTER_ALONE);
    }
    void wake(unsigned cpu, bool made_way = false) { polter_waiting_queue(&thread, &cpus[cpu], cpu, 1, made_way, clock_ns); }
    void move(unsigned cpu) { polter_waiting_queue(&thread, &cpus[cpu], cpu, 0, 0, clock_ns); }

    // What was recorded since the last look, as "account:culprit:duration".
    std::string take() {
        std::string text;
        polter_ring_entry e[POLTER_RING_ENTRIES];
        const std::size_t n = polter_noise_drain(noise.get(), ~0ull, e, POLTER_RING_ENTRIES, &lost);
        for (std::size_t i = 0; i < n; i++)
            text += (i ? " " : "") + std::string(polter_account_name(e[i].account)) + ":" + e[i].culprit + ":" +
                    std::to_string(e[i].duration_ns);
        return text;
    }
    polter_counters counters() {
        polter_counters c;
        polter_noise_snapshot(noise.get(), &c);
        return c;
    }
    void enter(unsigned kind, unsigned id, unsigned cpu = 0) { polter_nesting_enter(&cpus[cpu], &thread, kind, id); }
    // The net duration; -1 if the reading was dropped.
    long long leave(unsigned kind, unsigned id, unsigned cpu = 0) {
        polter_u64 end, net;
        return polter_nesting_exit(&cpus[cpu], &thread, kind, id, &end, &net) ? static_cast<long long>(net) : -1;
    }
};

}  // namespace

TEST_CASE("a preemption is split among those who ran, each once") {
    Node n;
    n.self(0);
    clock_ns += 100;
    n.off(0, POLTER_PREEMPTED);
    n.runs(0, 50, 50, "daemon");
    clock_ns += 10;
    n.runs(0, 200, 200, "other");
    clock_ns += 20;
    n.runs(0, 101, 101, "mate");
    clock_ns += 30;
    n.runs(0, 50, 50, "daemon");
    clock_ns += 5;
    n.runs(0, 50, 50, "daemon");
    clock_ns += 7;
    n.self(0);
    CHECK(n.take() == "preempt:daemon:22 preempt:other:20 preempt_job:mate:30");
    const auto c = n.counters();
    CHECK(c.ns[POLTER_PREEMPT] == 42);
    CHECK(c.count[POLTER_PREEMPT] == 1);  // one preemption
    CHECK(c.count[POLTER_PREEMPT_JOB] == 1);
}

TEST_CASE("a wake-up waits for idleness, for others, for its own job") {
    Node n;
    n.self(0);
    n.off(0, POLTER_BLOCKED);
    n.idle(0);
    clock_ns += 1000;  // asleep: nobody's noise
    n.wake(0);
    clock_ns += 4;
    n.self(0);
    CHECK(n.take() == "wakeup:swapper:4");

    n.off(0, POLTER_BLOCKED);
    n.runs(0, 50, 50, "daemon");
    clock_ns += 500;
    n.wake(0);
    clock_ns += 6;
    n.runs(0, 102, 100, "thread");  // another thread of the process, though it is not registered
    clock_ns += 8;
    n.self(0);
    CHECK(n.take() == "runqueue:daemon:6 preempt_job:thread:8");
}

TEST_CASE("what a yield gives to its own job is not noise, what strangers take then is") {
    Node n;
    n.self(0);
    n.off(0, POLTER_YIELDED);
    n.runs(0, 101, 101, "mate");
    clock_ns += 100;
    n.self(0);
    CHECK(n.take().empty());
    CHECK(n.counters().after_yield_ns == 100);
    CHECK(n.counters().yields == 1);
    n.off(0, POLTER_YIELDED);
    n.runs(0, 102, 100, "own thread");
    clock_ns += 10;
    n.idle(0);
    clock_ns += 20;
    n.runs(0, 50, 50, "daemon");
    clock_ns += 300;
    n.runs(0, 101, 101, "mate");
    clock_ns += 40;
    n.runs(0, 200, 200, "other job");
    clock_ns += 7;
    n.self(0);
    CHECK(n.take() == "preempt:daemon:300 preempt:other job:7");
    auto c = n.counters();
    CHECK(c.after_yield_ns == 170);
    CHECK(c.yields == 1);  // that one counts as a preemption
    CHECK(c.count[POLTER_PREEMPT] == 1);
    CHECK(c.count[POLTER_PREEMPT_JOB] == 0);
    // Of what is not known any more nobody is blamed.
    n.off(0, POLTER_YIELDED);
    for (int i = 0; i < 3000; i++) {
        n.runs(0, 1000 + i, 101, "mate");
        clock_ns += 10;
    }
    n.self(0);
    CHECK(n.take().empty());
    CHECK(n.counters().after_yield_ns == 170 + 30000);
    // It is moved while it waits.
    n.off(0, POLTER_YIELDED);
    n.runs(0, 101, 101, "mate");
    clock_ns += 10;
    n.runs(1, 50, 50, "far");
    n.move(1);
    clock_ns += 5;
    n.self(1);
    CHECK(n.take() == "preempt:far:5");
    CHECK(n.counters().after_yield_ns == 170 + 30000 + 10);
}

TEST_CASE("what a task takes that has been told to give way is the way to a woken thread") {
    Node n;
    n.self(0);
    const auto sleeps_until_woken = [&](bool made_way) {
        n.off(0, POLTER_BLOCKED);
        n.runs(0, 50, 50, "daemon");
        clock_ns += 500;
        n.wake(0, made_way);
        clock_ns += 6;
    };
    sleeps_until_woken(true);
    n.self(0);
    CHECK(n.take() == "wakeup:daemon:6");
    sleeps_until_woken(false);
    n.self(0);
    CHECK(n.take() == "runqueue:daemon:6");
    // Somebody else came first.
    sleeps_until_woken(true);
    n.runs(0, 60, 60, "first");
    clock_ns += 40;
    n.self(0);
    CHECK(n.take() == "runqueue:daemon:6 runqueue:first:40");
    // It was moved away, to where nobody had been told.
    n.runs(1, 61, 61, "far");
    sleeps_until_woken(true);
    n.move(1);
    clock_ns += 9;
    n.self(1);
    CHECK(n.take() == "runqueue:daemon:6 runqueue:far:9");
}

TEST_CASE("a wait that one task took is accounted as one that is split") {
    for (unsigned seed = 1; seed <= 100; seed++) {
        std::string taken[2];
        for (const bool always_split : {false, true}) {
            Node n;
            n.always_split = always_split;
            std::mt19937 random(seed);
            const auto draw = [&](unsigned k) { return std::uniform_int_distribution<unsigned>(0, k - 1)(random); };
            n.self(0);
            for (int i = 0; i < 200; i++) {
                const unsigned why[] = {POLTER_BLOCKED, POLTER_PREEMPTED, POLTER_YIELDED};
                n.off(0, why[draw(3)]);
                for (unsigned k = 1 + draw(3); k-- > 0;) {
                    const unsigned tid = draw(4) * 50;
                    n.runs(0, tid == 100 ? 101 : static_cast<int>(tid), tid == 100 ? 101 : tid, "x", draw(2) * 1000);
                    clock_ns += draw(10);
                    if (draw(2)) n.wake(0);
                    clock_ns += draw(10);
                    if (!draw(8)) n.move(draw(2));
                }
                n.self(0);
                clock_ns += 5;
                n.tick(1);
                taken[always_split] += n.take() + "\n";
            }
            const auto c = n.counters();
            taken[always_split] += std::to_string(c.after_yield_ns) + " " + std::to_string(c.yields);
        }
        CAPTURE(seed);
        CHECK(taken[0] == taken[1]);
    }
}

TEST_CASE("sleep is not noise, a wake-up of a running thread is nothing") {
    Node n;
    n.self(0);
    n.wake(0);
    clock_ns += 10;
    n.off(0, POLTER_PREEMPTED);
    n.runs(0, 50, 50, "daemon");
    n.wake(1);  // was about to sleep when it was preempted: it waits already
    clock_ns += 5;
    n.self(0);
    CHECK(n.take() == "preempt:daemon:5");
    n.off(0, POLTER_BLOCKED);
    clock_ns += 5;
    n.self(0);  // the wake-up was not seen
    CHECK(n.take().empty());
}

TEST_CASE("a throttled thread waits for its quota, whoever runs") {
    Node n;
    n.self(0);
    std::strcpy(n.thread.throttler, "slice");
    n.off(0, POLTER_THROTTLED);
    n.idle(0);
    clock_ns += 50;
    n.runs(0, 50, 50, "daemon");
    clock_ns += 50;
    n.self(0);
    CHECK(n.take() == "throttle:slice:100");
}

TEST_CASE("a thread that is moved while it waits waited on both queues") {
    Node n;
    n.runs(1, 60, 60, "far");
    n.self(0);
    n.off(0, POLTER_PREEMPTED);
    n.runs(0, 50, 50, "near");
    clock_ns += 10;
    n.move(1);
    clock_ns += 3;
    n.runs(0, 51, 51, "later");  // of no concern any more
    clock_ns += 4;
    n.runs(1, 61, 61, "farther");
    clock_ns += 5;
    n.self(1);
    CHECK(n.take() == "preempt:near:10 preempt:far:7 preempt:farther:5");
    // More moves than are remembered: all the time is there, of some it is not known who ran.
    n.off(1, POLTER_PREEMPTED);
    n.runs(1, 61, 61, "farther");
    for (unsigned i = 0; i < 10; i++) {
        clock_ns += 10;
        n.move(i % 4);
    }
    clock_ns += 10;
    n.self(1);
    CHECK(n.counters().ns[POLTER_PREEMPT] == 22 + 110);
}

TEST_CASE("a switch that was not shown is made good from the kernel's record, or said to be unknown") {
    Node n;
    n.self(0);
    CHECK_FALSE(polter_ran_gap(&cpus[0], 100));
    for (const bool recorded : {true, false}) {
        n.off(0, POLTER_PREEMPTED);
        n.runs(0, 50, 50, "daemon");
        clock_ns += 10;
        const std::uint64_t came = clock_ns;  // the thread runs again, and nobody says so
        clock_ns += 20;
        n.tick(5);  // is published before that wait, which was earlier
        const std::uint64_t ticked = clock_ns;
        clock_ns += 10;
        REQUIRE(polter_ran_gap(&cpus[0], 100));
        const std::uint64_t known = polter_ran_came(&cpus[0], recorded ? came : 0, clock_ns);
        CHECK(known == (recorded ? came : 0));
        if (known) polter_waiting_return(&n.thread, n.page.get(), &cpus[0], 0, known);
        CHECK(n.take() == (recorded ? "timer:local_timer:5 preempt:daemon:10" : "timer:local_timer:5"));
        CHECK(n.counters().updated_ns == ticked);
        n.begins(0, 100, 100, "self");
    }
    CHECK(polter_ran_came(&cpus[0], clock_ns + 1, clock_ns) == 0);  // impossible
}

TEST_CASE("tasks that switch a thousand times do not push out who they are") {
    Node n;
    n.self(0);
    n.runs(0, 200, 200, "before");
    clock_ns += 500;
    n.self(0);
    n.take();
    n.off(0, POLTER_PREEMPTED);
    for (int i = 0; i < 100000; i++) {
        n.runs(0, 101, 101, "mate");
        clock_ns += 3;
        n.runs(0, 200, 200, "before");  // ran in this window before the wait too
        clock_ns += 2;
    }
    n.self(0);
    CHECK(n.take() == "preempt:before:200000 preempt_job:mate:300000");
}

TEST_CASE("the counters are right where it is not known any more who ran") {
    Node n;
    n.self(0);
    n.off(0, POLTER_PREEMPTED);
    for (int i = 0; i < 3000; i++) {
        n.runs(0, 1000 + i, 50, "many");
        clock_ns += 10;
    }
    n.self(0);
    CHECK(n.counters().ns[POLTER_PREEMPT] == 30000);
    const std::string text = n.take();
    CHECK(text.find("many:10") != std::string::npos);
    CHECK(text.find("preempt:unknown:") != std::string::npos);
}

TEST_CASE("interruptions are net of those nested in them") {
    Node n;
    n.enter(POLTER_FRAME_SOFTIRQ, 1);
    clock_ns += 10;
    n.enter(POLTER_FRAME_IRQ, 5);
    clock_ns += 3;
    n.enter(POLTER_FRAME_TIMER, 0);
    clock_ns += 2;
    CHECK(n.leave(POLTER_FRAME_TIMER, 0) == 2);
    clock_ns += 4;
    CHECK(n.leave(POLTER_FRAME_IRQ, 5) == 7);
    clock_ns += 1;
    CHECK(n.leave(POLTER_FRAME_SOFTIRQ, 1) == 11);
    CHECK(n.thread.master.unbalanced == 0);
}

TEST_CASE("an interruption that does not fit is dropped and counted, never guessed") {
    Node n;
    CHECK(n.leave(POLTER_FRAME_IRQ, 5) == -1);  // no entry
    CHECK(n.thread.master.unbalanced == 1);
    n.enter(POLTER_FRAME_SOFTIRQ, 1);
    clock_ns += 1;
    n.enter(POLTER_FRAME_IRQ, 5);  // its exit is lost
    clock_ns += 1;
    CHECK(n.leave(POLTER_FRAME_SOFTIRQ, 1) == -1);
    CHECK(n.thread.master.unbalanced == 3);
    CHECK(cpus[0].depth == 0);
    n.enter(POLTER_FRAME_IRQ, 5);
    polter_nesting_reset(&cpus[0], &n.thread);
    CHECK(n.thread.master.unbalanced == 4);
    for (int i = 0; i < 20; i++) n.enter(POLTER_FRAME_IRQ, 5);  // more than can nest
    CHECK(cpus[0].depth <= POLTER_NESTING);
}

namespace {

// Random interruptions and waits, some of whose exits are lost. Returns by how much the accounts exceed the time that passed; with
// `gross`, nested time is left in the outer interruption too: the fault that the property must find.
long long excess(unsigned seed, bool gross, double lost_exits) {
    Node n;
    std::mt19937 random(seed);
    const auto draw = [&](unsigned k) { return std::uniform_int_distribution<unsigned>(0, k - 1)(random); };
    const std::uint64_t start = clock_ns;
    long long sum = 0;
    std::vector<std::pair<unsigned, unsigned>> open;
    n.self(0);
    for (int i = 0; i < 2000; i++) {
        clock_ns += draw(20);
        if (open.size() < 3 && draw(2)) {
            open.emplace_back(1 + draw(4), draw(3));
            n.enter(open.back().first, open.back().second);
        } else if (!open.empty()) {
            const auto [kind, id] = open.back();
            open.pop_back();
            const std::uint64_t nested = cpus[0].depth ? cpus[0].frame[cpus[0].depth - 1].child_ns : 0;
            if (std::uniform_real_distribution<>(0, 1)(random) < lost_exits) continue;
            if (const long long net = n.leave(kind, id); net >= 0) sum += net + (gross ? static_cast<long long>(nested) : 0);
        } else {
            polter_nesting_reset(&cpus[0], &n.thread);
            n.off(0, 1 + draw(5));
            for (unsigned k = draw(200); k-- > 0;) {
                n.runs(0, static_cast<int>(draw(4)) * 50, draw(4) * 50, "x");
                clock_ns += draw(10);
                if (draw(10) == 0) n.wake(draw(4));
                if (draw(20) == 0) n.move(draw(4));
            }
            n.self(0);
        }
    }
    const auto c = n.counters();
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) sum += static_cast<long long>(c.ns[a]);
    sum += static_cast<long long>(c.after_yield_ns);
    return sum - static_cast<long long>(clock_ns - start);
}

}  // namespace

TEST_CASE("the accounts never exceed the time that passed") {
    long long worst_gross = 0;
    for (unsigned seed = 1; seed <= 300; seed++) {
        CAPTURE(seed);
        CHECK(excess(seed, false, 0) <= 0);
        CHECK(excess(seed, false, 0.1) <= 0);
        worst_gross = std::max(worst_gross, excess(seed, true, 0));
    }
    CHECK(worst_gross > 0);  // the property finds time that is counted twice
}

TEST_CASE("a non-maskable interrupt is recorded by the next writer, whatever it interrupted") {
    Node n;
    const polter_culprit nmi{0, "nmi"};
    for (const int alone : {POLTER_ALONE, POLTER_NESTED}) {
        CAPTURE(alone);
        polter_publish_nmi(&n.thread, 5000, 30);
        polter_publish_nmi(&n.thread, 6000, 12);
        CHECK(polter_publish_has_nmi(&n.thread));
        CHECK(n.take().empty());
        const int outermost = polter_publish_begin(&n.thread, alone);
        polter_publish_noted_nmi(&n.thread, n.page.get(), &nmi, alone);
        polter_publish_end(&n.thread, n.page.get(), outermost, 7000, alone);
        CHECK(n.take() == "nmi:nmi:42");
        CHECK_FALSE(polter_publish_has_nmi(&n.thread));
    }
    CHECK(n.counters().count[POLTER_NMI] == 4);
    CHECK(n.counters().ns[POLTER_NMI] == 84);
}

TEST_CASE("a kworker's time goes to what it did") {
    Node n;
    const auto worked = [&](std::uint64_t function, const char* name) {
        polter_ran* ran = polter_ran_open_as(&cpus[0], 7, 7, POLTER_OWNER_KERNEL, function);
        std::strncpy(ran->comm, name, sizeof ran->comm - 1);
    };
    n.self(0);
    clock_ns += 100;
    n.off(0, POLTER_PREEMPTED);
    for (int i = 0; i < 3; i++) {
        n.runs(0, 7, 7, "kworker/0:1");
        clock_ns += 10;
        worked(1000, "flush");
        n.runs(0, 50, 50, "daemon");
        clock_ns += 1;
        n.runs(0, 7, 7, "kworker/0:1");
        clock_ns += 20;
        worked(2000, "update");
        n.runs(0, 50, 50, "daemon");
        clock_ns += 1;
        n.runs(0, 7, 7, "kworker/0:1");
        clock_ns += 2;  // nothing that was told
        n.runs(0, 50, 50, "daemon");
    }
    n.self(0);
    CHECK(n.take() == "preempt:kworker/0:1:6 preempt:flush:30 preempt:daemon:6 preempt:update:60");
}

TEST_CASE("tasks of other users are one culprit without name and id, but to those who may know") {
    for (const unsigned names : {0u, 1u}) {
        CAPTURE(names);
        Node n;
        n.thread.owner = 1000;
        n.thread.names = names;
        n.self(0);
        n.off(0, POLTER_PREEMPTED);
        n.idle(0);  // no task either, and yet another culprit
        clock_ns += 1;
        n.runs(0, 50, 50, "secret", 1001);
        clock_ns += 10;
        n.runs(0, 51, 51, "root's", 0);
        clock_ns += 20;
        n.runs(0, 52, 52, "own", 1000);
        clock_ns += 30;
        n.runs(0, 2, 2, "kthreadd", POLTER_OWNER_KERNEL);
        clock_ns += 40;
        n.runs(0, 53, 53, "secret2", 1002);
        clock_ns += 50;
        n.self(0);
        std::set<int> pids;
        std::string text;
        polter_ring_entry e;
        while (polter_noise_drain(n.noise.get(), ~0ull, &e, 1, &n.lost) == 1) {
            pids.insert(e.culprit_pid);
            text += std::string(e.culprit) + ":" + std::to_string(e.duration_ns) + " ";
        }
        if (names) {
            CHECK(text == "swapper:1 secret:10 root's:20 own:30 kthreadd:40 secret2:50 ");
            CHECK(pids == std::set{0, 2, 50, 51, 52, 53});
        } else {
            CHECK(text == "swapper:1 another user:30 own:30 kthreadd:40 another user:50 ");
            CHECK(pids == std::set{0, 2, 52});
        }
        CHECK(n.counters().ns[POLTER_PREEMPT] == 151);
        CHECK(n.counters().count[POLTER_PREEMPT] == 1);
    }
}

TEST_CASE("a page fault is timed net of what has an account of its own, its sleep included") {
    Node n;
    n.self(0);
    const auto fault_ends = [&](bool again = false, unsigned cpu = 0) { polter_fault_end(&n.thread, n.page.get(), &cpus[cpu], again); };
    polter_fault_begin(&n.thread);
    clock_ns += 40;
    fault_ends();
    CHECK(n.counters().ns[POLTER_FAULT] == 40);  // public at once
    clock_ns += 1000;
    fault_ends();  // not seen to begin
    CHECK(n.counters().ns[POLTER_FAULT] == 40);

    // A timer interrupt in it, an interrupt that was noted and not recorded yet, a preemption.
    polter_fault_begin(&n.thread);
    clock_ns += 10;
    n.enter(POLTER_FRAME_TIMER, 0);
    clock_ns += 5;
    const long long net = n.leave(POLTER_FRAME_TIMER, 0);
    n.event(clock_ns, static_cast<std::uint64_t>(net), POLTER_TIMER);
    clock_ns += 7;
    polter_publish_nmi(&n.thread, clock_ns, 2);
    clock_ns += 3;
    n.off(0, POLTER_PREEMPTED);
    n.runs(0, 50, 50, "daemon");
    clock_ns += 100;
    n.self(0);
    clock_ns += 20;
    fault_ends();
    auto c = n.counters();
    CHECK(c.ns[POLTER_FAULT] == 40 + 10 + 7 + 3 + 20 - 2);
    CHECK(c.ns[POLTER_TIMER] == 5);
    CHECK(c.ns[POLTER_PREEMPT] == 100);

    // It sleeps for the disk, is woken on another CPU, waits there, and is tried once more.
    polter_fault_begin(&n.thread);
    clock_ns += 10;
    n.off(0, POLTER_BLOCKED);
    n.idle(0);
    clock_ns += 500;
    n.wake(1);
    n.runs(1, 50, 50, "daemon");
    clock_ns += 60;
    n.self(1);
    clock_ns += 1;
    fault_ends(true, 1);
    clock_ns += 9;
    fault_ends(false, 1);
    CHECK(n.counters().ns[POLTER_FAULT] - c.ns[POLTER_FAULT] == 10 + 500 + 1 + 9);
    CHECK(n.counters().ns[POLTER_RUNQUEUE] == 60);

    // The end of an interruption was lost: nobody knows how long it took.
    c = n.counters();
    polter_fault_begin(&n.thread);
    n.enter(POLTER_FRAME_IRQ, 7, 1);
    clock_ns += 50;
    fault_ends(false, 1);
    polter_fault_begin(&n.thread);
    fault_ends(false, 1);
    n.event(clock_ns, 0);
    CHECK(n.counters().ns[POLTER_FAULT] == c.ns[POLTER_FAULT]);
    CHECK(n.counters().unbalanced == c.unbalanced + 2);
}

TEST_CASE("what is a page fault's cannot be stolen too") {
    Node n;
    polter_cpu& cpu = cpus[0];
    n.self(0);
    polter_steal_begin(&cpu, &n.thread, 0, clock_ns, polter_steal_interrupted(&n.thread));
    polter_fault_begin(&n.thread);
    clock_ns += 300;  // of which the hypervisor took 200, and tells later
    polter_fault_end(&n.thread, n.page.get(), &cpu, 0);
    clock_ns += 50;
    n.enter(POLTER_FRAME_TIMER, 0);
    CHECK(polter_steal_look(&cpu, &n.thread, 200, &cpu.frame[0]) == 50);
}

TEST_CASE("whoever starts processes in great numbers overwrites what he has started himself") {
    static polter_started table[POLTER_STARTED_BUCKETS];
    constexpr unsigned seed = 12345, few = 500, many = 200'000, first_of_many = 100'000;
    const auto bucket = [&](unsigned tgid) { return polter_started_bucket(table, seed, tgid); };
    const auto kept = [&](unsigned from, unsigned n, polter_u64 job) {
        unsigned count = 0;
        for (unsigned tgid = from; tgid < from + n; tgid++) count += polter_started_job(bucket(tgid), tgid) == job;
        return count;
    };
    for (unsigned tgid = 1; tgid <= few; tgid++) polter_started_enter(bucket(tgid), tgid, 7);
    CHECK(kept(1, few, 7) >= few * 99 / 100);
    const unsigned before = kept(1, few, 7);
    for (unsigned tgid = first_of_many; tgid < first_of_many + many; tgid++) polter_started_enter(bucket(tgid), tgid, 8);
    CHECK(kept(1, few, 7) == before);
    CHECK(kept(first_of_many, many, 8) == POLTER_STARTED_BUCKETS * POLTER_STARTED_OF_A_JOB);
    CHECK(kept(first_of_many, many, 7) == 0);
    // What has ended makes room; an id that is used again is of its new job, once.
    for (unsigned tgid = first_of_many; tgid < first_of_many + many; tgid++) polter_started_end(bucket(tgid), tgid);
    CHECK(kept(first_of_many, many, 8) == 0);
    CHECK(kept(1, few, 7) == before);
    polter_started_enter(bucket(1), 1, 9);
    CHECK(polter_started_job(bucket(1), 1) == 9);
    polter_started_end(bucket(1), 1);
    CHECK(polter_started_job(bucket(1), 1) == 0);
    // The largest numbers that there may be.
    constexpr unsigned last = (1u << POLTER_STARTED_ID_BITS) - 1;
    constexpr polter_u64 last_job = (1ull << (64 - POLTER_STARTED_ID_BITS)) - 1;
    polter_started_enter(bucket(last), last, last_job);
    CHECK(polter_started_job(bucket(last), last) == last_job);
}
