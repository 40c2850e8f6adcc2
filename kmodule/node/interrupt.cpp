// SPDX-License-Identifier: BSD-3-Clause
#include "interrupt.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <initializer_list>

namespace polter::node {
namespace {

volatile sig_atomic_t seen = 0;
int wake = -1;

void on_signal(int signal) {
    const std::uint64_t one = 1;
    seen = 1;
    (void)!write(wake, &one, sizeof one);
    ::signal(signal, SIG_DFL);
}

}  // namespace

Interrupt::Interrupt() {
    seen = 0;
    wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct sigaction action {};
    action.sa_handler = on_signal;
    for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

Interrupt::~Interrupt() {
    for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
    if (wake >= 0) close(wake);
    wake = -1;
}

bool Interrupt::requested() {
    return seen != 0;
}

void Interrupt::sleep_ns(std::uint64_t ns) {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const auto in_ns = [](const timespec& t) {
        return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
    };
    const std::uint64_t end = in_ns(now) + ns;
    for (; !requested(); clock_gettime(CLOCK_MONOTONIC, &now)) {
        if (in_ns(now) >= end) return;
        const std::uint64_t left = end - in_ns(now);
        const timespec timeout{static_cast<time_t>(left / 1000000000u), static_cast<long>(left % 1000000000u)};
        pollfd p{wake, POLLIN, 0};
        ppoll(&p, 1, &timeout, nullptr);
    }
}

}  // namespace polter::node
