// SPDX-License-Identifier: BSD-3-Clause
// The process that takes the CPUs: one thread for each place, real-time where that is allowed.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>

#include "interrupts.hpp"
#include "shared.hpp"

namespace polter::inject {

namespace {

constexpr const char* name = "polter-inject";  // the culprit in traces
constexpr int priority = 1;                    // above all ordinary tasks, below the kernel's own real-time threads

int64_t read_clock(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

void on_signal(int) {}  // ends a sleep

struct Thread {
    Shared* shared;
    Target* target;
    Schedule* schedule;
    const Spec* spec;
    bool real_time = false;
    int cpu = -1;   // where this thread is bound
    int stat = -1;  // of the rank
};

// When it woke up; 0: stopped.
int64_t sleep_until(const Shared& shared, int64_t at) {
    const timespec until{at / 1'000'000'000, at % 1'000'000'000};
    int64_t now = 0;
    while (!shared.stop.load(std::memory_order_relaxed) && (now = monotonic_ns()) < at)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
    return shared.stop.load(std::memory_order_relaxed) ? 0 : now;
}

bool bind_to(Thread& self, int cpu) {
    if (cpu == self.cpu) return true;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) return false;
    self.cpu = cpu;
    return true;
}

// The 39th field of /proc/PID/stat; the second, in brackets, may hold blanks.
int last_cpu(int stat) {
    char text[1024];
    const ssize_t n = pread(stat, text, sizeof text - 1, 0);
    if (n <= 0) return -1;
    text[n] = 0;
    char* at = std::strrchr(text, ')');
    for (int field = 2; at && field < 39; ++field) at = std::strchr(at + 1, ' ');
    return at ? std::atoi(at + 1) : -1;
}

// The rank's CPU. −1: it has gone.
int cpu_of_rank(const Thread& self) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(self.target->pid, sizeof set, &set) != 0) return -1;
    if (CPU_COUNT(&set) == 1)
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &set)) return cpu;
    self.target->unbound.store(true, std::memory_order_relaxed);
    return last_cpu(self.stat);
}

enum class Moved : uint8_t { no, yes, gone };
Moved follow(Thread& self) {
    if (self.target->pid == 0) return Moved::no;
    const int cpu = cpu_of_rank(self);
    if (cpu == self.cpu) return Moved::no;
    return cpu >= 0 && bind_to(self, cpu) ? Moved::yes : Moved::gone;
}

// Waits for the time of an event, and until the CPU's free part has passed. `woken`: since when this thread has the CPU.
Step wait_for_turn(Thread& self, int64_t at, int64_t& woken) {
    for (;;) {
        if (self.cpu >= 0) at = std::max(at, self.shared->free_from[self.cpu].load(std::memory_order_relaxed));
        woken = sleep_until(*self.shared, at);
        if (woken == 0) return Step::ended;
        const Moved moved = follow(self);
        if (moved == Moved::gone) return Step::rank_gone;
        if (moved == Moved::yes) woken = monotonic_ns();
        if (self.shared->free_from[self.cpu].load(std::memory_order_relaxed) <= woken) return Step::running;
    }
}

// `woken`: since when it has this CPU. Draws the event after it meanwhile: all that this thread does lies between the two stamps, but for
// going to sleep and waking up.
Injected take_cpu(Thread& self, int64_t woken, std::optional<Event>& event) {
    constexpr int64_t last_look = 1'000;  // reading the CPU clock is a system call
    Injected done;
    done.rank = self.target->place;
    done.cpu = self.cpu;
    const int64_t duration = event->duration_ns;
    const int64_t cpu_before = read_clock(CLOCK_THREAD_CPUTIME_ID), wall_before = monotonic_ns();
    event = self.schedule->next();
    if (self.real_time) {
        done.begin_ns = woken;
        int64_t now = wall_before;
        while (now < woken + duration - last_look) now = monotonic_ns();
        const int64_t cpu = read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu_before, wall = monotonic_ns() - wall_before;
        now = wall_before + wall;
        while (now < woken + duration) now = monotonic_ns();
        done.duration_ns = now - woken;
        done.cpu_ns = done.duration_ns - std::max<int64_t>(0, wall - cpu);
    } else {  // others may run in between: what counts is the CPU time that it gets
        done.begin_ns = wall_before;
        int64_t now = cpu_before;
        while (now < cpu_before + duration) now = read_clock(CLOCK_THREAD_CPUTIME_ID);
        done.duration_ns = done.cpu_ns = now - cpu_before;
    }
    return done;
}

bool keep(Target& target, const Injected& event) {
    const uint64_t written = target.written.load(std::memory_order_relaxed);
    if (written - target.taken.load(std::memory_order_acquire) >= Target::ring) return false;
    target.events[written % Target::ring] = event;
    target.written.store(written + 1, std::memory_order_release);
    return true;
}

Step run_schedule(Thread& self) {
    const double free_part = (1 - self.shared->most_load) / self.shared->most_load;
    auto event = self.schedule->next();
    while (event) {
        const int64_t at = self.shared->start_ns + event->begin_ns;
        if (at >= self.shared->until_ns) break;
        int64_t woken = 0;
        if (const Step step = wait_for_turn(self, at, woken); step != Step::running) return step;
        const Injected done = take_cpu(self, woken, event);
        self.shared->free_from[self.cpu].store(
            done.begin_ns + done.duration_ns + static_cast<int64_t>(free_part * static_cast<double>(done.duration_ns)),
            std::memory_order_relaxed);
        if (!keep(*self.target, done)) return Step::ring_full;
    }
    return Step::ended;
}

bool become_real_time(Thread& self) {
    const sched_param parameters{priority};
    self.real_time = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &parameters) == 0;
    if (self.real_time) return true;
    if (errno != EPERM) return false;
    self.shared->normal_priority = true;
    setpriority(PRIO_PROCESS, 0, -20);  // where that is allowed
    prctl(PR_SET_TIMERSLACK, 1);
    return true;
}

void* thread_main(void* argument) {
    auto& self = *static_cast<Thread*>(argument);
    prctl(PR_SET_NAME, name);
    self.target->thread = static_cast<pid_t>(syscall(SYS_gettid));
    const auto end = [&](Step step, int error) -> void* {
        self.target->error = error;
        self.target->step = step;
        return nullptr;
    };
    if (self.target->pid != 0) {
        char path[64];
        std::snprintf(path, sizeof path, "/proc/%d/stat", self.target->pid);
        self.stat = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (self.target->pid == 0 && !bind_to(self, self.target->cpu)) return end(Step::failed, errno);
    if (!become_real_time(self)) return end(Step::failed, errno);
    self.target->step = Step::running;
    return end(run_schedule(self), 0);
}

}  // namespace

int64_t monotonic_ns() {
    return read_clock(CLOCK_MONOTONIC);
}

void work(Shared& shared, Target* targets, const std::function<Schedule(const Target&)>& schedule_of, const std::vector<Spec>& specs,
          pid_t supervisor, int begin_fd) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) _exit(1);
    prctl(PR_SET_NAME, name);
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, nullptr);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) shared.not_locked = true;
    char byte = 0;
    if (read(begin_fd, &byte, 1) != 1) _exit(0);
    Interrupts interrupts(shared);
    std::vector<Schedule> schedules;
    for (size_t i = 0; i < shared.targets; ++i) schedules.push_back(schedule_of(targets[i]));
    std::vector<Thread> threads(schedules.size());
    std::vector<pthread_t> started;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);  // locked memory is scarce, and is given page by page before the thread starts
    for (size_t i = 0; i < schedules.size(); ++i) {
        const Spec& spec = specs[static_cast<size_t>(targets[i].spec)];
        if (spec.interrupts()) {
            const int error = interrupts.start(spec, targets[i]);
            targets[i].error = error;
            targets[i].step = error ? Step::failed : Step::running;
            continue;
        }
        threads[i] = {&shared, &targets[i], &schedules[i], &spec};
        pthread_t thread;
        if (const int error = pthread_create(&thread, &attributes, thread_main, &threads[i]); error != 0) {
            targets[i].error = error;
            targets[i].step = Step::failed;
            continue;
        }
        started.push_back(thread);
    }
    for (const pthread_t thread : started) pthread_join(thread, nullptr);
    if (interrupts.running()) sleep_until(shared, shared.until_ns);
    interrupts.stop();
    _exit(0);
}

}  // namespace polter::inject
