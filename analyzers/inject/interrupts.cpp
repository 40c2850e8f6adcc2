// SPDX-License-Identifier: BSD-3-Clause
#include "interrupts.hpp"

#include <linux/perf_event.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "loopback.hpp"

namespace polter::inject {

namespace {

int open_event(uint64_t config, uint64_t period, int cpu) {
    perf_event_attr attributes{};
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.config = config;
    attributes.sample_period = period;
    if (period) attributes.sample_type = PERF_SAMPLE_IP;
    return static_cast<int>(syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

// An allowed CPU other than this; the CPU itself where there is none.
int other_cpu(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int step = 1; step < CPU_SETSIZE; ++step)
        if (CPU_ISSET((cpu + step) % CPU_SETSIZE, &set)) return (cpu + step) % CPU_SETSIZE;
    return cpu;
}

bool bind_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace

int Interrupts::start(const Spec& spec, Target& target) {
    return spec.kind == Kind::timers ? start_timers(spec, target) : start_sender(spec, target);
}

// A sampling event on a CPU's clock is a high-resolution timer that starts itself again in its interrupt, and no task is woken. Timers of
// user space are no storm: the kernel starts one again only when a task takes its expiry.
int Interrupts::start_timers(const Spec& spec, Target& target) {
    const int fd = open_event(PERF_COUNT_SW_CPU_CLOCK, static_cast<uint64_t>(spec.period_ns), target.cpu);
    if (fd < 0) return errno;
    timers_.push_back({fd, spec.period_ns, &target});
    return 0;
}

int Interrupts::start_sender(const Spec& spec, Target& target) {
    auto sender = std::make_unique<Sender>();
    sender->shared = &shared_;
    sender->target = &target;
    sender->kind = spec.kind;
    sender->cpu = other_cpu(target.cpu);
    sender->period_ns = spec.period_ns;
    if (spec.kind == Kind::calls && sender->cpu == target.cpu) return ENODEV;  // a call to the own CPU is no interrupt
    if (const int error = pthread_create(&sender->thread, nullptr, sender_main, sender.get()); error != 0) return error;
    sender->ready.wait(-1);
    const int error = sender->ready;
    if (error != 0) {
        pthread_join(sender->thread, nullptr);
        return error;
    }
    senders_.push_back(std::move(sender));
    return 0;
}

// A call: reading an event that counts on another CPU makes that CPU read it, in an interrupt.
// Packets: received in a softirq of the CPU that the loopback device steers them to. Where that cannot be set: of the CPU that sends them.
int Interrupts::open_sender(Sender& sender) {
    const int hit = sender.target->cpu;
    if (sender.kind == Kind::calls) {
        sender.from = open_event(PERF_COUNT_SW_DUMMY, 0, hit);
        if (sender.from < 0) return errno;
    } else {
        if (sender.cpu == hit || !own_loopback(hit)) {
            sender.shared->packets_here = true;
            sender.cpu = hit;
        }
        if (const int error = loopback_sockets(sender.from, sender.to); error != 0) return error;
    }
    return bind_to(sender.cpu) ? 0 : errno;
}

void Interrupts::send_once(const Sender& sender) {
    if (sender.kind == Kind::calls) {
        uint64_t value = 0;
        if (read(sender.from, &value, sizeof value) == sizeof value) ++sender.target->caused;
        return;
    }
    constexpr int burst = 16;
    char packet[1400] = {};
    for (int i = 0; i < burst; ++i)
        if (send(sender.from, packet, sizeof packet, MSG_DONTWAIT) > 0) ++sender.target->caused;
    while (recv(sender.to, packet, sizeof packet, MSG_DONTWAIT) > 0) {
    }
}

void* Interrupts::sender_main(void* argument) {
    auto& self = *static_cast<Sender*>(argument);
    prctl(PR_SET_NAME, self.kind == Kind::calls ? "polter-calls" : "polter-packets");
    const int error = open_sender(self);
    self.ready = error;
    self.ready.notify_one();
    if (error != 0) return nullptr;
    const sched_param parameters{1};
    sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &parameters);
    for (int64_t at = self.shared->start_ns; at < self.shared->until_ns && !self.shared->stop;) {
        const timespec until{at / 1'000'000'000, at % 1'000'000'000};
        while (!self.shared->stop && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
        }
        const int64_t began = monotonic_ns();
        send_once(self);
        const int64_t ended = monotonic_ns();
        at = std::max(at + self.period_ns, ended + (ended - began) / 10);  // its own CPU keeps time for others
    }
    return nullptr;
}

void Interrupts::stop() {
    for (const Timer& timer : timers_) {
        uint64_t counted_ns = 0;
        ioctl(timer.fd, PERF_EVENT_IOC_DISABLE, 0);
        if (read(timer.fd, &counted_ns, sizeof counted_ns) == sizeof counted_ns)
            timer.target->caused += counted_ns / static_cast<uint64_t>(timer.period_ns);
        close(timer.fd);
    }
    timers_.clear();
    for (const auto& sender : senders_) {
        pthread_join(sender->thread, nullptr);
        for (const int fd : {sender->from, sender->to})
            if (fd >= 0) close(fd);
    }
    senders_.clear();
}

}  // namespace polter::inject
