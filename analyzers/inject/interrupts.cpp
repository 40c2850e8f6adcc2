// SPDX-License-Identifier: BSD-3-Clause
#include "interrupts.hpp"

#include <arpa/inet.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace polter::inject {

int Interrupts::start(const Spec& spec, int cpu) {
    return spec.kind == Kind::timers ? start_timers(spec, cpu) : start_packets(spec, cpu);
}

// A sampling event on a CPU's clock is a high-resolution timer that starts itself again in its interrupt, and no task is woken. Timers of
// user space are no storm: the kernel starts one again only when a task takes its expiry.
int Interrupts::start_timers(const Spec& spec, int cpu) {
    perf_event_attr attributes{};
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.config = PERF_COUNT_SW_CPU_CLOCK;
    attributes.sample_period = static_cast<uint64_t>(spec.period_ns);
    attributes.sample_type = PERF_SAMPLE_IP;
    const int fd = static_cast<int>(syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
    if (fd < 0) return errno;
    timers_.push_back({fd, spec.period_ns});
    return 0;
}

// A packet over the loopback device is received in a softirq on the CPU that sends it. The sender is an ordinary task, bound to that CPU.
int Interrupts::start_packets(const Spec& spec, int cpu) {
    auto sender = std::make_unique<Sender>();
    sender->shared = &shared_;
    sender->cpu = cpu;
    sender->period_ns = spec.period_ns;
    sender->to = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sender->from = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (sender->to < 0 || sender->from < 0 || bind(sender->to, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        getsockname(sender->to, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
        connect(sender->from, reinterpret_cast<sockaddr*>(&address), length) != 0)
        return errno;
    if (const int error = pthread_create(&sender->thread, nullptr, send_packets, sender.get()); error != 0) return error;
    senders_.push_back(std::move(sender));
    return 0;
}

void* Interrupts::send_packets(void* argument) {
    const auto& self = *static_cast<Sender*>(argument);
    constexpr int burst = 16;
    char packet[1400] = {};
    prctl(PR_SET_NAME, "polter-packets");
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(self.cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) return nullptr;
    const sched_param parameters{1};
    sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &parameters);
    for (int64_t at = self.shared->start_ns; at < self.shared->until_ns && !self.shared->stop; at += self.period_ns) {
        const timespec until{at / 1'000'000'000, at % 1'000'000'000};
        while (!self.shared->stop && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
        }
        for (int i = 0; i < burst; ++i)
            if (send(self.from, packet, sizeof packet, MSG_DONTWAIT) > 0) ++self.shared->caused;
        while (recv(self.to, packet, sizeof packet, MSG_DONTWAIT) > 0) {
        }
    }
    return nullptr;
}

void Interrupts::stop() {
    for (const Timer& timer : timers_) {
        uint64_t counted_ns = 0;
        ioctl(timer.fd, PERF_EVENT_IOC_DISABLE, 0);
        if (read(timer.fd, &counted_ns, sizeof counted_ns) == sizeof counted_ns)
            shared_.caused += counted_ns / static_cast<uint64_t>(timer.period_ns);
        close(timer.fd);
    }
    timers_.clear();
    for (const auto& sender : senders_) {
        pthread_join(sender->thread, nullptr);
        close(sender->from);
        close(sender->to);
    }
    senders_.clear();
}

}  // namespace polter::inject
