// SPDX-License-Identifier: BSD-3-Clause
// The counters of one thread: events of perf_event and of PAPI, as `polter run` asked for (POLTER_COUNTERS). Each reading is one system
// call for all of perf's and one of PAPI's.
#pragma once

#include <array>
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

    // True if one has moved since the last time. By the thread itself.
    bool read();
    const std::array<int64_t, most>& values() const { return values_; }
    size_t size() const { return perf_.size() + papi_count_; }
    // The kernel had no hardware counter for the group at all times: its values are too small.
    bool shared() const { return shared_; }

  private:
    Counters() = default;
    bool read_perf();
    bool read_papi();
    bool take(size_t at, int64_t value);  // whether it is another one

    std::vector<int> perf_;  // descriptors; the first leads
    size_t papi_count_ = 0;
    int papi_set_ = -1;
    bool first_ = true, shared_ = false;
    std::array<int64_t, most> values_{};
};

}  // namespace polter::write
