// SPDX-License-Identifier: BSD-3-Clause
#include "observe.hpp"

#include <algorithm>
#include <ctime>

#include "interrupt.hpp"
#include "summary.hpp"
#ifdef POLTER_HAVE_BPF
#include "../bpf/node.hpp"
#endif

namespace polter::node {

std::variant<std::unique_ptr<Observer>, std::string> make_observer() {
#ifdef POLTER_HAVE_BPF
    return bpf_observer();
#else
    return "this build has no eBPF: building it needs clang, bpftool and a kernel with /sys/kernel/btf/vmlinux";
#endif
}

Observation observe(Observer& observer, std::uint64_t duration_ns, const std::function<void(const Observation&)>& each_second) {
    constexpr std::uint64_t second = 1'000'000'000;
    const auto now_ns = [] {
        timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return static_cast<std::uint64_t>(t.tv_sec) * second + static_cast<std::uint64_t>(t.tv_nsec);
    };
    const std::uint64_t begin = now_ns();
    Observation before = each_second ? observer.read() : Observation{};
    while (!Interrupt::requested()) {
        const std::uint64_t passed = now_ns() - begin;
        if (duration_ns && passed >= duration_ns) break;
        const std::uint64_t left = duration_ns ? duration_ns - passed : ~0ull;
        if (!each_second) {
            Interrupt::sleep_ns(std::min(left, 3600 * second));
            continue;
        }
        Interrupt::sleep_ns(std::min(left, second - passed % second));
        Observation now = observer.read();
        each_second(between(before, now));
        before = std::move(now);
    }
    observer.stop();
    return observer.read();
}

}  // namespace polter::node
