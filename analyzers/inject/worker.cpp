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

// False: stopped.
bool sleep_until(const Shared& shared, int64_t at) {
    const timespec until{at / 1'000'000'000, at % 1'000'000'000};
    while (!shared.stop.load(std::memory_order_relaxed) && monotonic_ns() < at)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
    return !shared.stop.load(std::memory_order_relaxed);
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

// `woken`: since when it has this CPU.
Injected take_cpu(const Thread& self, int64_t woken, int64_t duration) {
    Injected event;
    event.rank = self.target->place;
    event.cpu = self.cpu;
    const int64_t cpu_before = read_clock(CLOCK_THREAD_CPUTIME_ID);
    event.begin_ns = self.real_time ? woken : monotonic_ns();
    if (self.real_time) {
        int64_t now = event.begin_ns;
        while (now < event.begin_ns + duration) now = monotonic_ns();
        event.duration_ns = now - event.begin_ns;
        event.cpu_ns = std::min(event.duration_ns, read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu_before);
    } else {  // others may run in between: what counts is the CPU time that it gets
        int64_t now = cpu_before;
        while (now < cpu_before + duration) now = read_clock(CLOCK_THREAD_CPUTIME_ID);
        event.duration_ns = event.cpu_ns = now - cpu_before;
    }
    return event;
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
    int64_t earliest = 0;  // so that no burst takes more of the CPU than allowed
    while (const auto event = self.schedule->next()) {
        const int64_t at = std::max(self.shared->start_ns + event->begin_ns, earliest);
        if (at >= self.shared->until_ns) break;
        if (!sleep_until(*self.shared, at)) return Step::ended;
        int64_t woken = monotonic_ns();
        const Moved moved = follow(self);
        if (moved == Moved::gone) return Step::rank_gone;
        if (moved == Moved::yes) woken = monotonic_ns();
        const Injected done = take_cpu(self, woken, event->duration_ns);
        if (!keep(*self.target, done)) return Step::ring_full;
        earliest = done.begin_ns + done.duration_ns + static_cast<int64_t>(free_part * static_cast<double>(done.duration_ns));
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

void work(Shared& shared, Target* targets, std::vector<Schedule> schedules, const std::vector<Spec>& specs, pid_t supervisor) {
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
    Interrupts interrupts(shared);
    std::vector<Thread> threads(schedules.size());
    std::vector<pthread_t> started;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);  // locked memory is scarce
    for (size_t i = 0; i < schedules.size(); ++i) {
        const Spec& spec = specs[static_cast<size_t>(targets[i].spec)];
        if (spec.interrupts()) {
            const int error = interrupts.start(spec, targets[i].cpu);
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
