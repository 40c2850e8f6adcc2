// SPDX-License-Identifier: BSD-3-Clause
// Accounting of interruptions and page faults, of culprits, and what holds for all accounts together.
#include <doctest/doctest.h>

#include "support/accounting_node.hpp"

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

TEST_CASE_EITHER_WAY("the accounts never exceed the time that passed") {
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

TEST_CASE_EITHER_WAY("a kworker's time goes to what it did") {
    Node n;
    n.self(0);
    clock_ns += 100;
    n.off(0, POLTER_PREEMPTED);
    for (int i = 0; i < 3; i++) {
        n.runs(0, 7, 7, "kworker/0:1");
        clock_ns += 10;
        n.worked(0, 1000, "flush");
        n.runs(0, 50, 50, "daemon");
        clock_ns += 1;
        n.runs(0, 7, 7, "kworker/0:1");
        clock_ns += 20;
        n.worked(0, 2000, "update");
        n.runs(0, 50, 50, "daemon");
        clock_ns += 1;
        n.runs(0, 7, 7, "kworker/0:1");
        clock_ns += 2;  // nothing that was told
        n.runs(0, 50, 50, "daemon");
    }
    n.self(0);
    CHECK(n.take() == "preempt:kworker/0:1:6 preempt:flush:30 preempt:daemon:6 preempt:update:60");
}

TEST_CASE_EITHER_WAY("tasks of other users are one culprit without name and id, but to those who may know") {
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
