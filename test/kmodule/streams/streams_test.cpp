// SPDX-License-Identifier: BSD-3-Clause
// One stream of kernel events, given to the probes of the module and of the eBPF backend: the same pages, byte by byte, at every moment.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "backend_unit.h"

namespace {

constexpr const unit* units[] = {&module_unit, &bpf_unit};

std::uint64_t clock_ns;
// An interrupt that comes while a probe runs: at which reading of the clock in it; -1: none.
int interrupt_at = -1;
const unit* running;  // the unit whose probe runs

}  // namespace

task_struct* unit_current;
unsigned unit_cpu;

std::uint64_t unit_now() {
    if (interrupt_at >= 0 && interrupt_at-- == 0) {
        running->enter(POLTER_FRAME_TIMER, 0);
        clock_ns += 3;
        running->leave(POLTER_FRAME_TIMER, 0, nullptr);
        clock_ns += 1;
    }
    return clock_ns;
}

int unit_is_net_irq(unsigned irq) {
    return irq == 5;
}

bool makes_way[UNIT_CPUS];
int unit_makes_way(unsigned cpu) {
    return makes_way[cpu];
}

std::uint64_t stolen[UNIT_CPUS];
std::uint64_t unit_stolen(unsigned cpu) {
    return stolen[cpu];
}

namespace {

// Both backends, and the pages of the registered threads in each.
struct Both {
    struct Registered {
        int tid;
        polter_page* page[2];
        std::uint64_t start_ns;
    };
    std::vector<Registered> registered;

    Both() {
        clock_ns = 1000;
        interrupt_at = -1;
        for (const unit* u : units) u->reset();
    }
    void add(const task_struct& task, std::uint64_t job) {
        registered.push_back({task.pid, {units[0]->add_thread(&task, job), units[1]->add_thread(&task, job)}, clock_ns});
        for (polter_page* page : registered.back().page) page->header.state = POLTER_PAGE_LIVE;
    }
    // The event at the same time in both.
    template <typename Event>
    void give(unsigned cpu, task_struct* current, Event event, int interrupt = -1) {
        const std::uint64_t start = clock_ns;
        unit_cpu = cpu;
        unit_current = current;
        for (const unit* u : units) {
            clock_ns = start;
            interrupt_at = interrupt;
            running = u;
            event(*u);
        }
        interrupt_at = -1;
    }
    // Empty: they are equal. Else which thread's page differs.
    std::string difference() const {
        for (const auto& r : registered)
            if (std::memcmp(r.page[0], r.page[1], sizeof(polter_page)) != 0) return "thread " + std::to_string(r.tid);
        return "";
    }
    static const polter_counters& front(const polter_page& page) { return page.copy[page.header.seq & 1]; }
    // By how much a thread's accounts exceed the time since its registration, at worst.
    long long excess() const {
        long long worst = -1;
        for (const auto& r : registered)
            for (const polter_page* page : r.page) {
                long long sum = static_cast<long long>(front(*page).after_yield_ns);
                for (const auto ns : front(*page).ns) {
                    CHECK(ns < 1ull << 62);  // negative
                    sum += static_cast<long long>(ns);
                }
                worst = std::max(worst, sum - static_cast<long long>(clock_ns - r.start_ns));
            }
        return worst;
    }
};

// Four CPUs, registered threads of several jobs, strangers; scheduled at random, and not always shown as it was.
class World {
  public:
    // `timed`: page faults, by those backends that can.
    World(unsigned seed, double faults, bool timed = false) : random_(seed), faults_(faults), timed_(timed) {
        if (timed)
            for (const unit* u : units)
                if (u->time_faults) u->time_faults();
        for (unsigned i = 0; i < UNIT_CPUS; i++) {
            idle_[i] = make(0, 0, "swapper");
            running_[i] = &idle_[i];
        }
        const std::array<std::array<int, 3>, 5> registered = {{{100, 100, 9}, {101, 100, 9}, {110, 110, 9}, {120, 120, 7}, {130, 130, 3}}};
        for (const auto& [pid, tgid, job] : registered) {
            tasks_.push_back(make(pid, tgid, "thread" + std::to_string(pid)));
            both_.add(tasks_.back(), static_cast<std::uint64_t>(job));
        }
        for (int i = 0; i < 14; i++) {
            tasks_.push_back(make(200 + i, i < 2 ? 100 : 200 + i, "other" + std::to_string(i)));
            if (i >= 2) tasks_.back().owner = i < 6 ? POLTER_OWNER_KERNEL : i < 10 ? 1000u : static_cast<unsigned>(2000 + i);
        }
        for (auto& task : tasks_) sleeping_.push_back(&task);
    }

    void step() {
        clock_ns += draw(40) ? draw(30) : draw(5000);
        const unsigned cpu = draw(UNIT_CPUS);
        if (!draw(150)) steal_unseen(cpu);
        if (timed_ && !draw(4)) end_page_fault(cpu);
        if (timed_ && !draw(8)) page_fault(cpu);
        switch (draw(10)) {
            case 0:
            case 1:
            case 2:
                return switch_task(cpu);
            case 3:
            case 4:
                return wake(cpu);
            case 5:
                if (!draw(20)) return fork(cpu);
                if (draw(4)) return migrate();
                if (!draw(3)) return work(cpu);
                return draw(2) ? steal(cpu) : page_fault(cpu);
            case 6:
                return both_.give(cpu, running_[cpu], [&, ns = static_cast<std::int64_t>(draw(9))](const unit& u) { u.nmi(ns); });
            default:
                return interrupt(cpu);
        }
    }
    // At the end everybody runs once more, so that no wait is left open.
    std::string difference() const { return both_.difference(); }
    long long excess() const { return both_.excess(); }
    const Both& both() const { return both_; }

  private:
    struct Open {
        unsigned kind, id;
    };

    static task_struct make(int pid, int tgid, const std::string& name) {
        static unit_signal alive{{1000}};
        task_struct task{};
        task.pid = pid;
        task.tgid = tgid;
        name.copy(task.comm, sizeof task.comm - 1);
        task.signal = &alive;
        task.owner = pid ? 1000 : POLTER_OWNER_KERNEL;
        return task;
    }
    unsigned draw(unsigned n) { return std::uniform_int_distribution<unsigned>(0, n - 1)(random_); }
    bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
    bool fault() { return chance(faults_); }
    // An interrupt inside the probe, now and then.
    int nested() { return draw(8) ? -1 : static_cast<int>(draw(3)); }

    void switch_task(unsigned cpu) {
        if (!open_[cpu].empty() && !fault()) return;  // no switch in an interrupt
        open_[cpu].clear();
        task_struct* prev = running_[cpu];
        task_struct* next = &idle_[cpu];
        if (!queue_[cpu].empty() && draw(8)) {
            next = queue_[cpu].front();
            queue_[cpu].pop_front();
        } else if (prev == next) {
            return;
        }
        bool preempt = false;
        prev->blocks = prev->throttled = prev->in_yield = 0;
        bool gone = false;
        if (prev != &idle_[cpu]) {
            const unsigned why = draw(12);
            preempt = why < 3;
            prev->blocks = why >= 3 && why < 8;
            prev->throttled = why == 8;
            prev->in_yield = why == 9;
            gone = exited_ < 3 && prev->blocks && !draw(400);
            if (gone) {
                exited_++;
                both_.give(cpu, prev, [&](const unit& u) { u.on_exit(prev); });
            } else if (prev->blocks && prev->pid >= 300 && !draw(20)) {
                gone = true;
                if (!fault()) both_.give(cpu, prev, [&](const unit& u) { u.on_exit(prev); });
            } else if (prev->blocks) {
                sleeping_.push_back(prev);
            } else {
                queue_[cpu].push_back(prev);
            }
        }
        running_[cpu] = next;
        next->cpu = cpu;
        next->arrival_ns = fault() ? 0 : clock_ns;
        if (fault()) return;  // not shown
        both_.give(
            cpu, prev, [&](const unit& u) { u.on_switch(preempt, prev, next); }, open_[cpu].empty() ? nested() : -1);
    }
    void wake(unsigned cpu) {
        if (sleeping_.empty()) return;
        const unsigned i = draw(static_cast<unsigned>(sleeping_.size()));
        task_struct* task = sleeping_[i];
        sleeping_.erase(sleeping_.begin() + i);
        task->cpu = cpu;
        task->blocks = 0;
        queue_[cpu].push_back(task);
        if (fault()) return;
        const unsigned waker = draw(UNIT_CPUS);
        makes_way[cpu] = clock_ns % 3 == 0 || running_[cpu] == &idle_[cpu];
        both_.give(waker, running_[waker], [&](const unit& u) { u.on_wakeup(task); });
        if (fault()) both_.give(waker, running_[waker], [&](const unit& u) { u.on_wakeup(task); });
    }
    void migrate() {
        const unsigned from = draw(UNIT_CPUS), to = draw(UNIT_CPUS);
        if (queue_[from].empty()) return;
        task_struct* task = queue_[from].front();
        queue_[from].pop_front();
        queue_[to].push_back(task);
        if (!fault()) both_.give(to, running_[to], [&](const unit& u) { u.on_migrate(task, static_cast<int>(to)); });
        task->cpu = to;
    }
    // Its ids are few, so that they are used again.
    void fork(unsigned cpu) {
        task_struct* parent = running_[cpu];
        if (parent == &idle_[cpu] || forked_ >= 400) return;
        const int id = 300 + static_cast<int>(forked_++ % 100);
        tasks_.push_back(make(id, draw(8) ? id : parent->tgid, "started" + std::to_string(id)));
        task_struct* child = &tasks_.back();
        static unit_signal ended{{0}};
        if (child->tgid == id) child->signal = &ended;  // once it exits
        if (!fault()) both_.give(cpu, parent, [&](const unit& u) { u.on_fork(parent, child); });
        child->cpu = cpu;
        queue_[cpu].push_back(child);
    }
    // Whoever runs there is a kworker now, as far as the backends can tell.
    void work(unsigned cpu) {
        work_struct work{reinterpret_cast<void (*)()>(static_cast<std::uintptr_t>(0xf000 + draw(60)))};
        both_.give(cpu, running_[cpu], [&](const unit& u) { u.on_work(&work); });
    }
    // Whatever the CPU does: computing, interrupts, another task than at the tick that books it.
    void steal_unseen(unsigned cpu) {
        const unsigned ns = draw(2) ? draw(2000) : 300000 + draw(400000);
        clock_ns += ns;
        unbooked_[cpu] += ns;
    }
    void book_steal(unsigned cpu) { stolen[cpu] += std::exchange(unbooked_[cpu], 0); }
    // Nothing runs meanwhile; the timer that was due comes first.
    void steal(unsigned cpu) {
        if (!open_[cpu].empty()) return;
        const unsigned ns = 500000 + draw(2000);  // less often than a tick it is not looked at
        clock_ns += ns;
        stolen[cpu] += ns;
        book_steal(cpu);
        both_.give(cpu, running_[cpu], [](const unit& u) { u.enter(POLTER_FRAME_TIMER, 0); });
        clock_ns += draw(20);
        both_.give(cpu, running_[cpu], [](const unit& u) { u.leave(POLTER_FRAME_TIMER, 0, nullptr); });
    }
    void page_fault(unsigned cpu) {
        if (timed_ && !open_[cpu].empty()) return;
        both_.give(
            cpu, running_[cpu], [](const unit& u) { u.fault(); }, timed_ ? nested() : -1);
        in_page_fault_.insert(running_[cpu]);
    }
    // It may have slept in it, and moved.
    void end_page_fault(unsigned cpu) {
        if (!open_[cpu].empty() || !in_page_fault_.contains(running_[cpu])) return;
        const bool again = !draw(8);
        if (!again) in_page_fault_.erase(running_[cpu]);
        if (fault()) return;
        both_.give(
            cpu, running_[cpu],
            [&](const unit& u) {
                if (u.fault_ends) u.fault_ends(again);
            },
            nested());
    }
    void interrupt(unsigned cpu) {
        static irqaction action{"a device with a long name"};
        auto& open = open_[cpu];
        if (open.size() < 3 && draw(2)) {
            const unsigned kind = POLTER_FRAME_TIMER + draw(4);
            const unsigned id = kind == POLTER_FRAME_TIMER ? 0
                                : kind == POLTER_FRAME_IPI ? 1 + draw(4)
                                : kind == POLTER_FRAME_IRQ ? 4 + draw(3)
                                                           : draw(10);
            open.push_back({kind, id});
            if (kind == POLTER_FRAME_TIMER) book_steal(cpu);
            if (!fault())
                both_.give(
                    cpu, running_[cpu], [&](const unit& u) { u.enter(kind, id); }, nested());
        } else if (!open.empty()) {
            const Open last = open.back();
            open.pop_back();
            if (!fault())
                both_.give(
                    cpu, running_[cpu], [&](const unit& u) { u.leave(last.kind, last.id, &action); }, nested());
        } else if (fault()) {
            both_.give(cpu, running_[cpu], [&](const unit& u) { u.leave(POLTER_FRAME_IRQ, 7, &action); });
        }
    }

    Both both_;
    std::mt19937 random_;
    double faults_;
    bool timed_;
    std::set<const task_struct*> in_page_fault_;
    std::array<std::uint64_t, UNIT_CPUS> unbooked_{};
    unsigned exited_ = 0, forked_ = 0;
    std::array<task_struct, UNIT_CPUS> idle_;
    std::array<task_struct*, UNIT_CPUS> running_;
    std::array<std::deque<task_struct*>, UNIT_CPUS> queue_;
    std::array<std::vector<Open>, UNIT_CPUS> open_;
    std::deque<task_struct> tasks_;
    std::vector<task_struct*> sleeping_;
};

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

TEST_CASE("page faults that are timed take nothing that others have, whatever comes in between") {
    std::uint64_t timed = 0, begun = 0;
    for (const double faults : {0.0, 0.02, 0.2}) {
        for (unsigned seed = 1; seed <= 60; seed++) {
            CAPTURE(faults);
            CAPTURE(seed);
            World world(seed, faults, true);
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
