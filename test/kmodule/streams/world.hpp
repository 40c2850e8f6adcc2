// SPDX-License-Identifier: BSD-3-Clause
// An invented node: CPUs, registered threads and others, scheduled at random. Each event goes to the probes of the module and of the eBPF
// backend at the same time. For one test file: it defines what the units ask of their kernel.
#pragma once

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

// What a thread's waits are to be on its page: counted beside the backends, at each moment by who runs on the CPU whose queue it is in.
class Truth {
  public:
    std::map<std::pair<unsigned, std::string>, std::uint64_t> ns;  // by account and culprit; of waits that are over
    std::uint64_t after_yield_ns = 0;

    Truth(const task_struct& self, std::uint64_t job) : self_(self), job_(job) {}
    void leaves(const task_struct& t, unsigned cpu, bool preempt) {
        off_ = !preempt && t.blocks     ? POLTER_BLOCKED
               : t.throttled            ? POLTER_THROTTLED
               : !preempt && t.in_yield ? POLTER_YIELDED
                                        : POLTER_PREEMPTED;
        throttled_ns_ = clock_ns;
        if (off_ != POLTER_BLOCKED) begin(cpu);
    }
    void wakes(unsigned cpu, bool made_way) {
        if (off_ != POLTER_BLOCKED) return;
        off_ = POLTER_WOKEN;
        begin(cpu);
        made_way_ = made_way;
    }
    void moves(unsigned cpu) {
        if (off_ == POLTER_BLOCKED || off_ == POLTER_RUNNING || off_ == POLTER_THROTTLED) return;
        if (stays_ < POLTER_STAYS)
            close_stay();
        else if (!parts_.empty())
            parts_ = {{account_unknown(), "unknown", total()}};  // no more of them are kept
        if (stays_++ >= POLTER_STAYS && !parts_.empty()) earlier_ns_ += parts_.front().ns, parts_.clear();
        cpu_ = cpu;
    }
    void returns() {
        if (earlier_ns_) parts_.push_back({account_unknown(), "unknown", earlier_ns_});
        const bool alone = stays_ == 1 && parts_.size() == 1 && off_ == POLTER_WOKEN && made_way_;
        if (alone) parts_.front().account = POLTER_WAKEUP;
        close_stay();
        if (off_ == POLTER_THROTTLED) closed_ = {{POLTER_THROTTLE, "cpu quota", clock_ns - throttled_ns_}};
        for (const Part& part : closed_)
            (part.account == POLTER_AFTER_YIELD ? after_yield_ns : ns[{part.account, part.culprit}]) += part.ns;
        closed_.clear();
        off_ = POLTER_RUNNING;
    }
    // That task has run on the CPU for some time; `goes_on`: as when it was told last.
    void ran(unsigned cpu, const task_struct& t, std::uint64_t took, bool goes_on) {
        if (off_ == POLTER_BLOCKED || off_ == POLTER_RUNNING || cpu != cpu_ || !took) return;
        const Part part = by(t, took);
        if (goes_on && !parts_.empty() && parts_.back().account == part.account && parts_.back().culprit == part.culprit)
            parts_.back().ns += took;
        else
            parts_.push_back(part);
    }
    // Another task than this thread comes to the CPU.
    void other_comes(unsigned cpu) {
        if (cpu == cpu_ && !parts_.empty()) made_way_ = false;
    }

  private:
    static constexpr unsigned POLTER_AFTER_YIELD = POLTER_ACCOUNT_SLOTS + 1;
    struct Part {
        unsigned account;
        std::string culprit;
        std::uint64_t ns;
    };
    void begin(unsigned cpu) {
        cpu_ = cpu;
        stays_ = 1;
        made_way_ = false;
        earlier_ns_ = 0;
        parts_.clear();
    }
    void close_stay() {
        closed_.insert(closed_.end(), parts_.begin(), parts_.end());
        parts_.clear();
    }
    std::uint64_t total() const {
        std::uint64_t sum = 0;
        for (const Part& part : parts_) sum += part.ns;
        return sum;
    }
    unsigned account_unknown() const {
        return off_ == POLTER_WOKEN ? unsigned{POLTER_RUNQUEUE} : off_ == POLTER_YIELDED ? POLTER_AFTER_YIELD : unsigned{POLTER_PREEMPT};
    }
    Part by(const task_struct& t, std::uint64_t took) const {
        const bool woken = off_ == POLTER_WOKEN, yielded = off_ == POLTER_YIELDED;
        const std::map<int, std::uint64_t> jobs = {{100, 9}, {110, 9}, {120, 7}, {130, 3}};
        const auto job = jobs.find(t.tgid);
        const bool named = t.owner == self_.owner || t.owner == POLTER_OWNER_KERNEL;
        unsigned account = woken ? unsigned{POLTER_RUNQUEUE} : unsigned{POLTER_PREEMPT};
        if (t.pid == 0)
            account = woken ? unsigned{POLTER_WAKEUP} : yielded ? POLTER_AFTER_YIELD : unsigned{POLTER_PREEMPT};
        else if (job != jobs.end() && job->second == job_)
            account = yielded ? POLTER_AFTER_YIELD : unsigned{POLTER_PREEMPT_JOB};
        return {account, named ? t.comm : POLTER_ANOTHER_USER, took};
    }

    task_struct self_;
    std::uint64_t job_, earlier_ns_ = 0, throttled_ns_ = 0;
    unsigned off_ = POLTER_BLOCKED, cpu_ = 0, stays_ = 0;
    bool made_way_ = false;
    std::vector<Part> parts_, closed_;  // of the stay on this CPU, of those before
};

// Four CPUs, registered threads of several jobs, strangers; scheduled at random, and not always shown as it was.
class World {
  public:
    enum Kind {
        all,
        timed,   // page faults too, by those backends that can
        waiting  // with nothing that makes the truth about waits hard to tell: no work items, no new processes, no interrupts within probes
    };
    // `always`: the CPUs keep windows always.
    World(unsigned seed, double faults, Kind kind = all, bool always = false)
        : random_(seed), faults_(faults), timed_(kind == timed), simple_(kind == waiting) {
        for (const unit* u : units) {
            if (timed_ && u->time_faults) u->time_faults();
            if (always) u->keep_windows();
        }
        for (unsigned i = 0; i < UNIT_CPUS; i++) {
            idle_[i] = make(0, 0, "swapper");
            running_[i] = &idle_[i];
        }
        const std::array<std::array<int, 3>, 5> registered = {{{100, 100, 9}, {101, 100, 9}, {110, 110, 9}, {120, 120, 7}, {130, 130, 3}}};
        for (const auto& [pid, tgid, job] : registered) {
            tasks_.push_back(make(pid, tgid, "thread" + std::to_string(pid)));
            both_.add(tasks_.back(), static_cast<std::uint64_t>(job));
            truth_.try_emplace(pid, tasks_.back(), static_cast<std::uint64_t>(job));
        }
        last_ns_.fill(clock_ns);
        for (int i = 0; i < 14; i++) {
            tasks_.push_back(make(200 + i, i < 2 ? 100 : 200 + i, "other" + std::to_string(i)));
            if (i >= 2) tasks_.back().owner = i < 6 ? POLTER_OWNER_KERNEL : i < 10 ? 1000u : static_cast<unsigned>(2000 + i);
        }
        for (auto& task : tasks_) sleeping_.push_back(&task);
        for (unsigned i = 0; i < UNIT_CPUS; i++)  // who runs there is known from the beginning
            both_.give(i, &idle_[i], [&](const unit& u) { u.on_switch(0, &idle_[i], &idle_[i]); });
        if (faults == 0.0) return;
        // A switch to this task was not shown; the backends know now that there are such.
        unseen_ = make(199, 199, "unseen");
        both_.give(0, &unseen_, [&](const unit& u) { u.on_switch(1, &unseen_, &idle_[0]); });
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
    // By thread.
    const std::map<int, Truth>& truth() const { return truth_; }

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
    int nested() {
        const int at = draw(8) ? -1 : static_cast<int>(draw(3));
        return simple_ ? -1 : at;
    }
    // Whoever runs there has done so until now; everybody who waits there is told.
    void pass(unsigned cpu) {
        for (auto& [pid, truth] : truth_) truth.ran(cpu, *running_[cpu], clock_ns - last_ns_[cpu], told_[cpu].contains(pid));
        for (auto& [pid, truth] : truth_)
            if (clock_ns > last_ns_[cpu]) told_[cpu].insert(pid);
        last_ns_[cpu] = clock_ns;
    }
    Truth* truth_of(const task_struct* task) {
        const auto found = truth_.find(task->pid);
        return found == truth_.end() ? nullptr : &found->second;
    }

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
        pass(cpu);
        told_[cpu].clear();
        for (auto& [pid, truth] : truth_)
            if (pid != next->pid) truth.other_comes(cpu);
        if (Truth* t = gone ? nullptr : truth_of(prev)) t->leaves(*prev, cpu, preempt);
        if (Truth* t = truth_of(next)) t->returns();
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
        makes_way[cpu] = clock_ns % 3 == 0 || running_[cpu] == &idle_[cpu];
        pass(cpu);
        if (Truth* t = truth_of(task)) t->wakes(cpu, makes_way[cpu] && running_[cpu] != &idle_[cpu]), told_[cpu].erase(task->pid);
        if (fault()) return;
        const unsigned waker = draw(UNIT_CPUS);
        both_.give(waker, running_[waker], [&](const unit& u) { u.on_wakeup(task); });
        if (fault()) both_.give(waker, running_[waker], [&](const unit& u) { u.on_wakeup(task); });
    }
    void migrate() {
        const unsigned from = draw(UNIT_CPUS), to = draw(UNIT_CPUS);
        if (queue_[from].empty()) return;
        task_struct* task = queue_[from].front();
        queue_[from].pop_front();
        queue_[to].push_back(task);
        pass(from);
        pass(to);
        if (Truth* t = truth_of(task)) t->moves(to), told_[to].erase(task->pid);
        if (!fault()) both_.give(to, running_[to], [&](const unit& u) { u.on_migrate(task, static_cast<int>(to)); });
        task->cpu = to;
    }
    // Its ids are few, so that they are used again.
    void fork(unsigned cpu) {
        task_struct* parent = running_[cpu];
        if (parent == &idle_[cpu] || forked_ >= 400 || simple_) return;
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
        if (simple_) return;
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
    bool timed_, simple_;
    std::map<int, Truth> truth_;
    std::array<std::uint64_t, UNIT_CPUS> last_ns_;
    std::array<std::set<int>, UNIT_CPUS> told_;  // who has been told of what runs there now
    std::set<const task_struct*> in_page_fault_;
    std::array<std::uint64_t, UNIT_CPUS> unbooked_{};
    unsigned exited_ = 0, forked_ = 0;
    task_struct unseen_{};
    std::array<task_struct, UNIT_CPUS> idle_;
    std::array<task_struct*, UNIT_CPUS> running_;
    std::array<std::deque<task_struct*>, UNIT_CPUS> queue_;
    std::array<std::vector<Open>, UNIT_CPUS> open_;
    std::deque<task_struct> tasks_;
    std::vector<task_struct*> sleeping_;
};

}  // namespace
