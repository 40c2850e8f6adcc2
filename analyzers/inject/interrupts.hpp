// SPDX-License-Identifier: BSD-3-Clause
// Noise without a task on the CPU that is hit: timer interrupts, network softirqs, function calls from another CPU.
#pragma once

#include <pthread.h>

#include <atomic>
#include <memory>
#include <vector>

#include "shared.hpp"

namespace polter::inject {

class Interrupts {
  public:
    explicit Interrupts(Shared& shared) : shared_(shared) {}
    // Returns 0 or an errno.
    int start(const Spec& spec, Target& target);
    void stop();
    bool running() const { return !timers_.empty() || !senders_.empty(); }

  private:
    // A thread on another CPU that causes interrupts on this one.
    struct Sender {
        Shared* shared;
        Target* target;
        Kind kind;
        int cpu;  // its own
        int64_t period_ns;
        int from = -1, to = -1;  // sockets; of calls: `from` is an event on the target's CPU
        pthread_t thread{};
        std::atomic<int> ready{-1};  // errno
    };
    static void* sender_main(void* sender);
    static int open_sender(Sender& sender);
    static void send_once(const Sender& sender);
    int start_timers(const Spec& spec, Target& target);
    int start_sender(const Spec& spec, Target& target);

    Shared& shared_;
    struct Timer {
        int fd;
        int64_t period_ns;
        Target* target;
    };
    std::vector<Timer> timers_;
    std::vector<std::unique_ptr<Sender>> senders_;
};

}  // namespace polter::inject
