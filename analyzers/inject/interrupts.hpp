// SPDX-License-Identifier: BSD-3-Clause
// Noise without a task: timer interrupts and network softirqs on a CPU.
#pragma once

#include <pthread.h>

#include <memory>
#include <vector>

#include "shared.hpp"

namespace polter::inject {

class Interrupts {
  public:
    explicit Interrupts(Shared& shared) : shared_(shared) {}
    // Returns 0 or an errno.
    int start(const Spec& spec, int cpu);
    void stop();
    bool running() const { return !timers_.empty() || !senders_.empty(); }

  private:
    struct Sender {
        Shared* shared;
        int cpu;
        int64_t period_ns;
        int from, to;  // sockets
        pthread_t thread;
    };
    static void* send_packets(void* sender);
    int start_timers(const Spec& spec, int cpu);
    int start_packets(const Spec& spec, int cpu);

    Shared& shared_;
    struct Timer {
        int fd;
        int64_t period_ns;
    };
    std::vector<Timer> timers_;
    std::vector<std::unique_ptr<Sender>> senders_;
};

}  // namespace polter::inject
