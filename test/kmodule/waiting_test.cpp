// SPDX-License-Identifier: BSD-3-Clause
// Accounting of the time that a thread is off its CPU: preempted, waiting in a run queue, throttled, asleep.
#include <doctest/doctest.h>

#include "support/accounting_node.hpp"

TEST_CASE_EITHER_WAY("a preemption is split among those who ran, each once") {
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

TEST_CASE_EITHER_WAY("a wake-up waits for idleness, for others, for its own job") {
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

TEST_CASE_EITHER_WAY("what a yield gives to its own job is not noise, what strangers take then is") {
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

TEST_CASE_EITHER_WAY("what a task takes that has been told to give way is the way to a woken thread") {
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

TEST_CASE_EITHER_WAY("a wait that one task took is accounted as one that is split") {
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

TEST_CASE_EITHER_WAY("sleep is not noise, a wake-up of a running thread is nothing") {
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

TEST_CASE_EITHER_WAY("a throttled thread waits for its quota, whoever runs") {
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

TEST_CASE_EITHER_WAY("a thread that is moved while it waits waited on both queues") {
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

TEST_CASE_EITHER_WAY("a switch that was not shown is made good from the kernel's record, or said to be unknown") {
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

TEST_CASE_EITHER_WAY("tasks that switch a thousand times do not push out who they are") {
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
    // In the order in which the history has them.
    CHECK(n.take() == (windows_always ? "preempt:before:200000 preempt_job:mate:300000" : "preempt_job:mate:300000 preempt:before:200000"));
}

TEST_CASE_EITHER_WAY("the counters are right where it is not known any more who ran") {
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

TEST_CASE_EITHER_WAY("a thread waits for a CPU that nobody waited for, from the middle of a task's time on") {
    Node n;
    n.self(0);
    n.runs(1, 60, 60, "far");
    n.runs(2, 70, 70, "farther");
    n.runs(3, 80, 80, "kworker/3:1", POLTER_OWNER_KERNEL);
    clock_ns += 1000;
    n.off(0, POLTER_PREEMPTED);
    n.runs(0, 50, 50, "near");
    clock_ns += 10;
    n.move(1);  // and on, while one task runs there
    clock_ns += 3;
    n.move(2);  // its task leaves, and comes back
    clock_ns += 4;
    n.runs(2, 71, 71, "next");
    clock_ns += 5;
    n.runs(2, 70, 70, "farther");
    clock_ns += 6;
    n.move(3);
    clock_ns += 7;
    n.worked(3, 1000, "flush");
    n.self(3);
    // In the order in which they came, but for who is in a CPU's history already.
    const std::string taken = n.take();
    CHECK((taken == "preempt:near:10 preempt:far:3 preempt:farther:10 preempt:next:5 preempt:flush:7" ||
           taken == "preempt:near:10 preempt:far:3 preempt:farther:4 preempt:next:5 preempt:farther:6 preempt:flush:7"));
    CHECK(n.counters().ns[POLTER_PREEMPT] == 35);

    // Somebody is woken there after it was moved: each has what ran since.
    Node both;
    polter_thread other{};
    auto page = std::make_unique<polter_page>();
    polter_page_layout(&page->header, POLTER_BACKEND_BPF, ~0u);
    other.tid = other.tgid = 300;
    other.job = 11;
    other.off = POLTER_BLOCKED;
    both.self(0);
    both.runs(1, 60, 60, "far");
    clock_ns += 1000;
    both.off(0, POLTER_PREEMPTED);
    both.move(1);
    clock_ns += 20;
    polter_waiting_queue(&other, &cpus[1], 1, 1, 0, clock_ns);
    clock_ns += 2;
    both.leaves(1);
    polter_waiting_return(&other, page.get(), &cpus[1], 1, clock_ns);
    both.begins(1, 300, 300, "other");
    CHECK(other.master.ns[POLTER_RUNQUEUE] == 2);
    clock_ns += 1;
    both.self(1);
    CHECK(both.take() == "preempt:far:22 preempt:other:1");
}

TEST_CASE_EITHER_WAY("a task whose arrival was not shown has what ran since a wake-up") {
    for (const bool recorded : {true, false}) {
        CAPTURE(recorded);
        Node n;
        n.self(0);
        n.off(0, POLTER_BLOCKED);
        n.runs(0, 50, 50, "seen");
        clock_ns += 10;
        const std::uint64_t came = clock_ns;
        clock_ns += 5;
        n.wake(0);
        clock_ns += 6;
        REQUIRE(polter_ran_gap(&cpus[0], 60));
        if (const std::uint64_t known = polter_ran_came(&cpus[0], recorded ? came : 0, clock_ns)) {
            n.begins(0, 60, 60, "unseen");
            polter_ran_found(&cpus[0]);
        }
        n.self(0);
        CHECK(n.take() == (recorded ? "runqueue:unseen:6" : "runqueue:unknown:6"));
    }
}

TEST_CASE("each wait is counted on its CPU once, and taken back once") {
    windows_always = false;
    Node n;
    const auto waiting = [](unsigned cpu) { return cpus[cpu].waiting + cpus[cpu].moved; };
    n.begins(0, 100, 100, "self");  // registered while it ran
    n.wake(0);                      // itself, before it slept
    CHECK(waiting(0) == 0);
    n.off(0, POLTER_PREEMPTED);
    CHECK(waiting(0) == 1);
    n.move(1);
    CHECK(waiting(0) == 0);
    CHECK(waiting(1) == 1);
    n.self(2);  // a move was not seen
    CHECK(waiting(1) == 0);
    CHECK(waiting(2) == 0);
    n.off(2, POLTER_BLOCKED);
    n.idle(2);
    CHECK(waiting(2) == 0);
    n.wake(2);
    CHECK(cpus[2].following);
    // It is removed by the daemon at the moment in which it comes to its CPU.
    polter_waiting_give_up(&n.thread);
    CHECK(waiting(2) == 0);
    n.self(2);
    CHECK(waiting(2) == 0);
    n.off(2, POLTER_YIELDED);
    n.runs(2, 50, 50, "daemon");
    n.off(2, POLTER_PREEMPTED);  // its return was not seen
    CHECK(waiting(2) == 1);
    n.self(2);
    n.runs(2, 50, 50, "daemon");
    CHECK(waiting(2) == 0);
    CHECK_FALSE(cpus[2].following);
    windows_always = true;
}
