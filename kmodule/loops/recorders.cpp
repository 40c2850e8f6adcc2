// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "noise.h"
#include "watch.hpp"

namespace polter::loops {
namespace {

class PageRecorder final : public Recorder {
  public:
    explicit PageRecorder(polter_noise* page) : page_(page), offset_ns_(polter_noise_clock_offset()) {}
    std::string name() const override { return polter_backend_name(polter_noise_header(page_)->backend); }
    bool moved() override { return polter_noise_moved(page_) != 0; }
    void take(std::uint64_t, std::vector<Event>& events) override {
        // moved() compares with the last snapshot.
        polter_counters counters;
        polter_noise_snapshot(page_, &counters);
        for (std::size_t n; (n = polter_noise_drain(page_, ~0ull, entries_, std::size(entries_), &lost_)) > 0;)
            for (std::size_t i = 0; i < n; i++) {
                const auto end = static_cast<long long>(entries_[i].end_ns) - offset_ns_;
                events.push_back({static_cast<std::uint64_t>(end), entries_[i].duration_ns, entries_[i].account, entries_[i].culprit});
            }
    }
    std::uint64_t lost() const override { return lost_; }

  private:
    polter_noise* page_;
    long long offset_ns_;
    polter_ring_entry entries_[64];
    polter_u64 lost_ = 0;
};

class SchedstatRecorder final : public Recorder {
  public:
    explicit SchedstatRecorder(int fd) : fd_(fd) { last_ = delay(); }
    ~SchedstatRecorder() override { close(fd_); }
    std::string name() const override { return "proc"; }
    bool moved() override { return false; }  // a detour of its own shows that it was off the CPU
    void take(std::uint64_t until_ns, std::vector<Event>& events) override {
        const std::uint64_t now = delay();
        if (now > last_) events.push_back({until_ns, now - last_, POLTER_PREEMPT, "unknown"});
        last_ = now;
    }
    std::uint64_t lost() const override { return 0; }

  private:
    // proc(5) schedstat: time on the CPU, time spent waiting for it, slices.
    std::uint64_t delay() const {
        char text[96];
        const ssize_t n = pread(fd_, text, sizeof text - 1, 0);
        if (n <= 0) return last_;
        text[n] = 0;
        char* end = nullptr;
        (void)std::strtoull(text, &end, 10);
        return std::strtoull(end, nullptr, 10);
    }
    int fd_;
    std::uint64_t last_ = 0;
};

class NoRecorder final : public Recorder {
  public:
    std::string name() const override { return "none"; }
    bool moved() override { return false; }
    void take(std::uint64_t, std::vector<Event>&) override {}
    std::uint64_t lost() const override { return 0; }
};

}  // namespace

std::unique_ptr<Recorder> page_recorder(polter_noise* page) {
    return std::make_unique<PageRecorder>(page);
}

std::unique_ptr<Recorder> schedstat_recorder() {
    const int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return nullptr;
    return std::make_unique<SchedstatRecorder>(fd);
}

std::unique_ptr<Recorder> no_recorder() {
    return std::make_unique<NoRecorder>();
}

}  // namespace polter::loops
