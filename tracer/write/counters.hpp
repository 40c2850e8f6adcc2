// SPDX-License-Identifier: BSD-3-Clause
// The counters of one thread: events of perf_event and of PAPI, as `polter run` asked for (POLTER_COUNTERS). Each reading is one system
// call for all of perf's and one of PAPI's.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../perf_event.hpp"

namespace polter::write {

// For all threads of a process.
struct CounterPlan {
    std::vector<trace::PerfEvent> perf;
    std::vector<std::string> papi;
    size_t size() const { return perf.size() + papi.size(); }
};

// From the environment; empty where nothing is asked for. False with the reason where it cannot be had.
bool read_counter_plan(CounterPlan& plan, std::string& error);

class Counters {
  public:
    static constexpr size_t most = trace::PerfGroup::most;

    // For the calling thread. NULL with the reason.
    static std::unique_ptr<Counters> open(const CounterPlan& plan, std::string& error);
    ~Counters();
    Counters(const Counters&) = delete;

    // True if one has moved since the last time. By the thread itself. Behind a system call the processor has forgotten where branches and
    // returns go, on many machines: so there are no calls and few branches here, and four counters are compared at once.
    bool read() {
        if (leader_ >= 0) [[likely]] {
            read_group(leader_, group_);
            if (group_.number != perf_.size()) [[unlikely]]
                take_back();
            shared_ |= group_.running_ns < group_.enabled_ns;
        }
        if (papi_count_) [[unlikely]]
            read_papi();
        uint64_t differs = 0;
        size_t i = 0;
        do {
            for (size_t n = 0; n < at_once; n++, i++) {
                differs |= group_.values[i] ^ before_[i];
                before_[i] = group_.values[i];
            }
        } while (i < size_);
        return differs != 0;
    }
    const uint64_t* values() const { return group_.values; }
    size_t size() const { return size_; }
    // The kernel had no hardware counter for the group at all times: its values are too small.
    bool shared() const { return shared_; }

  private:
    static constexpr size_t at_once = 4;
    static_assert(most % at_once == 0);

    Counters() { before_[0] = UINT64_MAX; }  // which no counter has: so the first reading moves it
    // By the system call itself: read(3) is a place where the thread may be cancelled, and guarding it against that costs a tenth of it.
    // errno stays as it is. Where it fails the values do.
    static void read_group(int file, trace::PerfGroup& group) {
#if defined(__x86_64__)
        long result;
        asm volatile("syscall" : "=a"(result) : "0"(long{SYS_read}), "D"(file), "S"(&group), "d"(sizeof group) : "rcx", "r11", "memory");
#else
        const int error = errno;
        syscall(SYS_read, file, &group, sizeof group);
        errno = error;
#endif
    }
    void take_back();
    void read_papi();

    std::vector<int> perf_;  // descriptors; the first leads
    int leader_ = -1;        // -1: none of perf's
    size_t papi_count_ = 0, size_ = 0;
    int papi_set_ = -1;
    bool shared_ = false;
    trace::PerfGroup group_{};  // behind perf's values those of PAPI
    std::array<uint64_t, most> before_{};
};

}  // namespace polter::write
