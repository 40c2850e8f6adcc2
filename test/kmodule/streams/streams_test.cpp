// SPDX-License-Identifier: BSD-3-Clause
// One stream of kernel events, given to the probes of the module and of the eBPF backend: the same pages, byte by byte, at every moment.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "world.hpp"

namespace {

constexpr std::array<unsigned, 5> waits = {POLTER_PREEMPT, POLTER_RUNQUEUE, POLTER_THROTTLE, POLTER_PREEMPT_JOB, POLTER_WAKEUP};

}  // namespace

TEST_CASE("random streams give both backends the same pages, and never more than the time that passed") {
    std::map<unsigned, std::uint64_t> counted;
    std::uint64_t yields = 0, unbalanced = 0, recorded = 0;
    for (const double faults : {0.0, 0.02, 0.2}) {
        for (unsigned seed = 1; seed <= 60; seed++) {
            CAPTURE(faults);
            CAPTURE(seed);
            World world(seed, faults);
            for (int i = 0; i < 4000; i++) {
                world.step();
                if (i % 16) continue;
                const std::string difference = world.difference();
                REQUIRE_MESSAGE(difference.empty(), difference, " after event ", i);
                if (faults == 0.0) REQUIRE(world.excess() <= 0);  // where events are lost a wait may be taken for longer for a while
            }
            CHECK(world.excess() <= 0);
            for (const auto& r : world.both().registered) {
                const auto& c = Both::front(*r.page[0]);
                for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) counted[a] += c.count[a];
                yields += c.yields;
                unbalanced += c.unbalanced;
                recorded += c.recorded;
                if (faults == 0.0) CHECK(c.unbalanced <= 1);  // its first arrival was before its registration
            }
        }
    }
    // They were streams that say something.
    for (const unsigned a : {POLTER_TIMER, POLTER_IRQ, POLTER_IPI, POLTER_SOFTIRQ, POLTER_NMI, POLTER_PREEMPT, POLTER_RUNQUEUE,
                             POLTER_THROTTLE, POLTER_PREEMPT_JOB, POLTER_WAKEUP, POLTER_NET, POLTER_STEAL, POLTER_FAULT}) {
        CAPTURE(a);
        CHECK(counted[a] > 100);
    }
    CHECK(yields > 50);
    CHECK(unbalanced > 1000);
    MESSAGE(recorded, " events recorded");
}

TEST_CASE("waits are divided among those who ran exactly, whether CPUs keep their history always or while somebody waits") {
    std::map<unsigned, std::uint64_t> divided;
    for (const bool always : {true, false}) {
        for (unsigned seed = 1; seed <= 100; seed++) {
            CAPTURE(always);
            CAPTURE(seed);
            World world(seed, 0.0, World::waiting, always);
            for (int i = 0; i < 4000; i++) {
                world.step();
                if (i % 16) continue;
                for (const auto& r : world.both().registered) {
                    CAPTURE(r.tid);
                    CAPTURE(i);
                    const Truth& truth = world.truth().at(r.tid);
                    std::map<unsigned, std::uint64_t> ns;
                    for (const auto& [key, value] : truth.ns) ns[key.first] += value;
                    for (const polter_page* page : r.page) {
                        const auto& c = Both::front(*page);
                        for (const unsigned a : waits) REQUIRE(c.ns[a] == ns[a]);
                        REQUIRE(c.after_yield_ns == truth.after_yield_ns);
                        REQUIRE(c.unbalanced == 0);
                    }
                }
            }
            for (const auto& r : world.both().registered) {
                const polter_page& page = *r.page[0];
                REQUIRE(Both::front(page).recorded <= POLTER_RING_ENTRIES);
                std::map<std::pair<unsigned, std::string>, std::uint64_t> culprits;
                for (unsigned i = 0; i < Both::front(page).recorded; i++) {
                    const polter_ring_entry& entry = page.ring[i];
                    if (std::find(waits.begin(), waits.end(), entry.account) == waits.end()) continue;
                    culprits[{static_cast<unsigned>(entry.account), entry.culprit}] += entry.duration_ns;
                }
                CHECK(culprits == world.truth().at(r.tid).ns);
                for (const unsigned a : waits) divided[a] += Both::front(page).ns[a];
                CHECK(std::memcmp(&Both::front(page), &Both::front(*r.page[1]), sizeof(polter_counters)) == 0);
            }
        }
    }
    for (const unsigned a : waits) CHECK(divided[a] > 1'000'000);
}

TEST_CASE("a CPU counts those who wait for it, whatever of it is shown") {
    std::uint64_t waited = 0;
    for (const double faults : {0.0, 0.02, 0.2}) {
        for (unsigned seed = 1; seed <= 30; seed++) {
            CAPTURE(faults);
            CAPTURE(seed);
            World world(seed, faults);
            for (int i = 0; i < 4000; i++) {
                world.step();
                for (const unit* u : units) {
                    unsigned counted[UNIT_CPUS] = {}, all = 0;
                    for (const auto& r : world.both().registered)
                        if (const unsigned on = u->state(r.tid)->waits_on) counted[on - 1]++;
                    for (unsigned cpu = 0; cpu < UNIT_CPUS; cpu++) {
                        REQUIRE(u->waiting(cpu) == counted[cpu]);
                        all += counted[cpu];
                    }
                    waited += all;
                }
            }
        }
    }
    CHECK(waited > 1'000'000);
}

TEST_CASE("page faults that are timed take nothing that others have, whatever comes in between") {
    std::uint64_t timed = 0, begun = 0;
    for (const double faults : {0.0, 0.02, 0.2}) {
        for (unsigned seed = 1; seed <= 60; seed++) {
            CAPTURE(faults);
            CAPTURE(seed);
            World world(seed, faults, World::timed);
            for (int i = 0; i < 4000; i++) {
                world.step();
                if (faults == 0.0) REQUIRE(world.excess() <= 0);  // where events are lost a wait may be taken for longer for a while
            }
            CHECK(world.excess() <= 0);
            for (const auto& r : world.both().registered) {
                timed += Both::front(*r.page[1]).ns[POLTER_FAULT];
                begun += Both::front(*r.page[1]).count[POLTER_FAULT];
                CHECK(Both::front(*r.page[0]).ns[POLTER_FAULT] == 0);  // the module counts
            }
        }
    }
    CHECK(begun > 1000);
    CHECK(timed > 100000);
}

namespace {

task_struct task(int pid, int tgid, const char* name) {
    static unit_signal alive{{9}};
    task_struct t{};
    t.pid = pid;
    t.tgid = tgid;
    std::snprintf(t.comm, sizeof t.comm, "%s", name);
    t.signal = &alive;
    return t;
}

// The task comes to the CPU, is interrupted and leaves it, all at times that an account would show.
void runs(Both& both, task_struct& t, task_struct& idle) {
    clock_ns += 10;
    both.give(0, &idle, [&](const unit& u) { u.on_switch(0, &idle, &t); });
    clock_ns += 10;
    both.give(0, &t, [&](const unit& u) { u.enter(POLTER_FRAME_TIMER, 0); });
    clock_ns += 7;
    both.give(0, &t, [&](const unit& u) { u.leave(POLTER_FRAME_TIMER, 0, nullptr); });
    clock_ns += 10;
    both.give(0, &t, [&](const unit& u) { u.on_switch(1, &t, &idle); });
}

}  // namespace

TEST_CASE("a thread is charged for interruptions even if no switch to it was shown") {
    Both both;
    task_struct idle = task(0, 0, "swapper"), thread = task(101, 100, "thread"), a = task(200, 200, "a"), b = task(201, 201, "b");
    both.add(thread, 9);
    const auto shown = [&](task_struct& from, task_struct& to) {
        clock_ns += 10;
        to.arrival_ns = clock_ns;
        both.give(0, &from, [&](const unit& u) { u.on_switch(1, &from, &to); });
    };
    std::uint64_t interrupts = 0;
    const auto interrupted = [&](task_struct& current) {
        interrupts += &current == &thread;
        clock_ns += 10;
        both.give(0, &current, [&](const unit& u) { u.enter(POLTER_FRAME_TIMER, 0); });
        clock_ns += 7;
        both.give(0, &current, [&](const unit& u) { u.leave(POLTER_FRAME_TIMER, 0, nullptr); });
        CHECK(both.difference().empty());
        const auto& c = Both::front(*both.registered[0].page[0]);
        CHECK(c.count[POLTER_TIMER] == interrupts);
        CHECK(c.ns[POLTER_TIMER] == 7 * interrupts);
    };
    shown(idle, a);
    interrupted(a);
    shown(a, thread);
    interrupted(thread);
    thread.blocks = 1;
    shown(thread, a);
    interrupted(a);
    thread.cpu = 0;
    both.give(0, &a, [&](const unit& u) { u.on_wakeup(&thread); });
    interrupted(thread);  // awaited, it came unseen
    shown(thread, idle);
    shown(idle, thread);
    interrupted(thread);
    interrupted(a);  // it left unseen
    shown(a, b);
    interrupted(b);
    interrupted(thread);  // and came back unseen
    shown(thread, a);
    interrupted(thread);  // nor was its wake-up shown
}

TEST_CASE("a page ends when its thread executes another program, and whoever has the thread's id then is not on it") {
    Both both;
    task_struct idle = task(0, 0, "swapper"), thread = task(101, 100, "thread"), mate = task(110, 110, "mate");
    both.add(thread, 9);
    both.add(mate, 9);
    const auto same = [&](unsigned which, const auto& events) {
        const polter_page before[2] = {*both.registered[which].page[0], *both.registered[which].page[1]};
        events();
        for (int u = 0; u < 2; u++) {
            CAPTURE(units[u]->name);
            CHECK(std::memcmp(both.registered[which].page[u], &before[u], sizeof before[u]) == 0);
        }
    };
    runs(both, thread, idle);
    CHECK(both.difference().empty());
    CHECK(Both::front(*both.registered[0].page[0]).count[POLTER_TIMER] == 1);
    // In the middle of the exec: the thread has the leader's id by now, and its own is free.
    task_struct stranger = task(101, 101, "stranger"), other_mate = task(101, 110, "mate's thread");
    thread.pid = 100;
    same(0, [&] {
        runs(both, stranger, idle);
        runs(both, other_mate, idle);
        both.give(0, &idle, [&](const unit& u) { u.on_wakeup(&stranger); });
        both.give(0, &idle, [&](const unit& u) { u.on_migrate(&stranger, 1); });
        both.give(0, &idle, [&](const unit& u) { u.on_exit(&stranger); });
    });
    clock_ns += 5;
    both.give(0, &thread, [&](const unit& u) { u.on_exec(&thread, 101); });
    for (const polter_page* page : both.registered[0].page) {
        CHECK(page->header.state == POLTER_PAGE_FROZEN);
        CHECK(page->header.end_ns == clock_ns);
    }
    task_struct again = task(101, 100, "another program");
    same(0, [&] {
        runs(both, thread, idle);
        runs(both, again, idle);
        runs(both, stranger, idle);
    });
    CHECK(both.difference().empty());

    // Nor is it a mate of its job any longer.
    both.give(0, &idle, [&](const unit& u) { u.on_switch(0, &idle, &mate); });
    both.give(0, &mate, [&](const unit& u) { u.on_switch(1, &mate, &thread); });
    clock_ns += 10;
    both.give(0, &thread, [&](const unit& u) { u.on_switch(1, &thread, &mate); });
    CHECK(both.difference().empty());
    const auto& c = Both::front(*both.registered[1].page[0]);
    CHECK(c.count[POLTER_PREEMPT] == 1);
    CHECK(c.count[POLTER_PREEMPT_JOB] == 0);
}

TEST_CASE("what a measured process starts is of its job until it ends, whatever it executes, and what that starts too") {
    static unit_signal ended{{0}};
    Both both;
    task_struct idle = task(0, 0, "swapper"), thread = task(101, 100, "thread"), stranger = task(200, 200, "stranger");
    task_struct child = task(300, 300, "child"), grandchild = task(301, 301, "grandchild"), strangers = task(302, 302, "stranger's");
    task_struct sibling = task(102, 100, "thread's");
    both.add(thread, 9);
    const auto forks = [&](task_struct& parent, task_struct& started) {
        both.give(0, &parent, [&](const unit& u) { u.on_fork(&parent, &started); });
    };
    // The account of what `by` takes from the thread.
    const auto takes = [&](task_struct& by) {
        const polter_counters before = Both::front(*both.registered[0].page[0]);
        both.give(0, &idle, [&](const unit& u) { u.on_switch(0, &idle, &thread); });
        both.give(0, &thread, [&](const unit& u) { u.on_switch(1, &thread, &by); });
        clock_ns += 10;
        both.give(0, &by, [&](const unit& u) { u.on_switch(1, &by, &thread); });
        both.give(0, &thread, [&](const unit& u) { u.on_switch(0, &thread, &idle); });
        CHECK(both.difference().empty());
        const polter_counters& after = Both::front(*both.registered[0].page[0]);
        for (const unsigned account : {POLTER_PREEMPT, POLTER_PREEMPT_JOB})
            if (after.ns[account] == before.ns[account] + 10) return account;
        return static_cast<unsigned>(POLTER_ACCOUNTS);
    };
    thread.blocks = 1;
    CHECK(takes(child) == POLTER_PREEMPT);
    forks(thread, child);
    forks(thread, sibling);
    forks(stranger, strangers);
    CHECK(takes(child) == POLTER_PREEMPT_JOB);
    CHECK(takes(sibling) == POLTER_PREEMPT_JOB);
    CHECK(takes(stranger) == POLTER_PREEMPT);
    CHECK(takes(strangers) == POLTER_PREEMPT);
    both.give(0, &child, [&](const unit& u) { u.on_exec(&child, child.pid); });
    CHECK(takes(child) == POLTER_PREEMPT_JOB);
    forks(child, grandchild);
    child.signal = &ended;
    both.give(0, &child, [&](const unit& u) { u.on_exit(&child); });
    CHECK(takes(child) == POLTER_PREEMPT);  // another process has its id
    CHECK(takes(grandchild) == POLTER_PREEMPT_JOB);
}

namespace {

// A stream that a kernel recorded, one event a line (see README.md): SECONDS CPU PID EVENT …
struct Recorded {
    Both both;
    std::map<int, task_struct> tasks;
    std::map<std::pair<unsigned, int>, int> idle;
    unit_signal alive{{1}};
    unsigned long events = 0;
    std::string wrong;

    task_struct& task(int pid, const std::string& name) {
        task_struct& t = tasks[pid];
        t.pid = pid;
        t.tgid = pid;
        t.signal = &alive;
        std::memset(t.comm, 0, sizeof t.comm);
        name.copy(t.comm, sizeof t.comm - 1);
        return t;
    }
    void take(const std::string& line) {
        std::istringstream in(line);
        std::uint64_t ns;
        unsigned cpu;
        int pid;
        std::string event;
        if (!(in >> ns >> cpu >> pid >> event)) return;
        clock_ns = std::max(clock_ns, ns);
        task_struct* current = &tasks[pid];
        current->pid = current->tgid = pid;
        current->signal = &alive;
        events++;
        if (event == "switch") {
            std::string prev_name, next_name, state;
            int prev_pid, next_pid;
            in >> prev_name >> prev_pid >> state >> next_name >> next_pid;
            task_struct& prev = task(prev_pid, prev_name);
            task_struct& next = task(next_pid, next_name);
            prev.blocks = state[0] != 'R';
            next.cpu = cpu;
            next.arrival_ns = clock_ns;
            both.give(cpu, &prev, [&](const unit& u) { u.on_switch(state == "R+", &prev, &next); });
        } else if (event == "wakeup") {
            std::string name;
            int tid;
            unsigned target;
            in >> name >> tid >> target;
            task_struct& woken = task(tid, name);
            woken.cpu = target;
            both.give(cpu, current, [&](const unit& u) { u.on_wakeup(&woken); });
        } else if (event == "migrate") {
            int tid, to;
            in >> tid >> to;
            both.give(cpu, current, [&](const unit& u) { u.on_migrate(&tasks[tid], to); });
        } else if (event == "enter" || event == "leave") {
            unsigned kind, id;
            std::string name = "?";
            in >> kind >> id >> name;
            irqaction action{name.c_str()};
            both.give(cpu, current, [&](const unit& u) { event == "enter" ? u.enter(kind, id) : u.leave(kind, id, &action); });
        }
        if (wrong.empty()) {
            const std::string difference = both.difference();
            if (!difference.empty()) wrong = difference + " after event " + std::to_string(events) + ": " + line;
        }
    }
};

}  // namespace

TEST_CASE("a stream that a kernel recorded gives both backends the same pages") {
    std::ifstream in(RECORDED_STREAM);
    std::string line;
    std::vector<std::string> lines;
    std::map<int, int> switches;
    while (std::getline(in, line)) {
        if (line.empty() || line[0] == '#') continue;
        lines.push_back(line);
        std::istringstream fields(line);
        std::string skip, name, event;
        int tid;
        if (fields >> skip >> skip >> skip >> event && event == "switch" && fields >> name >> tid && tid) switches[tid]++;
    }
    REQUIRE(lines.size() > 1000);
    // The busiest are the registered ones.
    std::vector<std::pair<int, int>> busiest;
    for (const auto& [tid, n] : switches) busiest.emplace_back(n, tid);
    std::sort(busiest.rbegin(), busiest.rend());
    Recorded recorded;
    clock_ns = std::stoull(lines.front());
    for (unsigned i = 0; i < 4 && i < busiest.size(); i++) {
        task_struct task{};
        task.pid = task.tgid = busiest[i].second;
        recorded.both.add(task, i < 2 ? 5 : 6);
    }
    for (const auto& text : lines) recorded.take(text);
    CHECK(recorded.wrong == "");
    CHECK(recorded.both.excess() <= 0);
    std::map<unsigned, std::uint64_t> counted;
    for (const auto& r : recorded.both.registered)
        for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) counted[a] += Both::front(*r.page[0]).count[a];
    for (const unsigned a : {POLTER_TIMER, POLTER_SOFTIRQ, POLTER_PREEMPT}) {
        CAPTURE(a);
        CHECK(counted[a] > 10);
    }
}
