// SPDX-License-Identifier: BSD-3-Clause
#include "thread_clock.hpp"

#if defined(__x86_64__)

#include <cpuid.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "own_part.hpp"

namespace polter::write {
namespace {

constexpr int64_t followed_ns = 100'000;
constexpr int64_t least_base_ns = 2'000'000;  // for the first rate: 100 ns of it are 50 ppm, in 100 us 5 ns
constexpr int64_t least_check_ns = 500'000;   // before it is followed, for seeing that it holds
constexpr int64_t next_base_ns = 100'000'000;
constexpr uint64_t most_reading_ticks = 400;  // of the clock, between two readings of the TSC, and of those; more: interrupted in between
constexpr unsigned most_disagreements = 3;
constexpr unsigned enough_rates = 2;  // found, and held since: the clock was not set meanwhile

std::atomic<uint64_t> known_rate = 0;  // of the process: the latest that was found; 0: none, or it did not hold

// Whether the kernel's clock is the TSC, and the TSC runs alike whatever the processor's frequency and sleep.
bool clock_is_tsc() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned power_leaf = 0x80000007, invariant = 1u << 8;
    if (!__get_cpuid(power_leaf, &a, &b, &c, &d) || !(d & invariant)) return false;
    const NoCancel no_cancel;
    const int error = errno;
    const int file = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    char name[32] = "";
    const ssize_t size = file < 0 ? -1 : read(file, name, sizeof name - 1);
    if (file >= 0) close(file);
    errno = error;
    return size > 0 && (std::strcmp(name, "tsc\n") == 0 || std::strcmp(name, "kvm-clock\n") == 0);
}

bool usable() {
    static const bool is = clock_is_tsc();
    return is;
}

}  // namespace

uint64_t ThreadClock::ns_of(uint64_t ticks) const {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(ticks) * rate_ >> rate_shift);
}

// Whether this point is where the last one led, if that is not old; and the rate still what it was, within what a time service changes.
bool ThreadClock::agrees(uint64_t ticks, uint64_t ns) const {
    const auto off = [&](uint64_t from_ticks, uint64_t from_ns) {
        const auto difference = static_cast<int64_t>(ns - from_ns - ns_of(ticks - from_ticks));
        return difference < 0 ? -difference : difference;
    };
    constexpr int64_t largest_rate_change = 1000;  // one part in so many
    constexpr auto most = static_cast<int64_t>(most_disagreement_ns);
    const auto since = static_cast<int64_t>(ns - ns_), base = static_cast<int64_t>(ns - base_ns_);
    if (since < 0 || base < 0 || ticks < ticks_) return false;
    return off(base_ticks_, base_ns_) <= most + base / largest_rate_change && (since > 2 * followed_ns || off(ticks_, ns_) <= most);
}

// Reads both clocks. The clock itself is what is returned, whatever becomes of the point.
uint64_t ThreadClock::next_point() {
    if (disagreements_ >= most_disagreements || !usable()) return write::now();
    if (base_ticks_ == 0) {
        rate_ = known_rate.load(std::memory_order_relaxed);
        rates_ = rate_ ? enough_rates : 0;
    } else if (rates_ < enough_rates) {  // too early for a rate, mostly
        const uint64_t early = write::now();
        if (early - base_ns_ < static_cast<uint64_t>(rates_ ? least_check_ns : least_base_ns)) return early;
    }
    _mm_lfence();
    const uint64_t before = __rdtsc();
    const uint64_t ns = write::now();  // waits for what was before it, too
    const uint64_t reading = __rdtsc() - before;
    follows_ = 0;
    if (reading > most_reading_ticks) return ns;
    const uint64_t ticks = before + reading / 2;
    const bool first = base_ticks_ == 0, disagrees = rate_ != 0 && !first && !agrees(ticks, ns);
    ticks_ = ticks;
    ns_ = ns;
    const uint64_t span = ticks - base_ticks_, base = ns - base_ns_;
    if (first || disagrees || base > INT64_MAX || span == 0) {
        disagreements_ += disagrees;
        if (uint64_t wrong = rate_; disagrees) known_rate.compare_exchange_strong(wrong, 0, std::memory_order_relaxed);
        if (!first) rate_ = rates_ = 0;
        base_ticks_ = ticks;
        base_ns_ = ns;
    } else if (rates_ != 0 && rates_ < enough_rates) {
        rates_++;  // it holds
        known_rate.store(rate_, std::memory_order_relaxed);
    } else if (base >= static_cast<uint64_t>(rates_ < enough_rates ? least_base_ns : next_base_ns)) {
        rate_ = static_cast<uint64_t>((static_cast<unsigned __int128>(base) << rate_shift) / span);
        rates_++;
        base_ticks_ = ticks;
        base_ns_ = ns;
        if (rates_ > enough_rates) known_rate.store(rate_, std::memory_order_relaxed);
    }
    if (rates_ < enough_rates) return ns;
    follows_ = (static_cast<uint64_t>(followed_ns) << rate_shift) / rate_;
    return ns;
}

}  // namespace polter::write

#endif
