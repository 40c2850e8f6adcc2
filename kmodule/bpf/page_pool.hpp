// SPDX-License-Identifier: BSD-3-Clause
// Noise pages that are ready to be handed out. What makes a page visible to the programs waits for an RCU grace period, so a thread of the
// pool's own does it for many pages at once, and whoever registers waits for nothing while pages are left.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../backend.hpp"

namespace polter::exporter {

// All functions are called from one thread. The pool's own thread accesses only the maps that it was given.
class PagePool {
  public:
    // `outer`: the array of maps; `numbers`: its size. Both are kept as they are.
    PagePool(int outer, std::uint32_t numbers);
    ~PagePool();
    PagePool(const PagePool&) = delete;

    // Or the reason, which leaves nothing behind.
    Failure start();

    unsigned ready() const;
    // A page of zeros that no one has had before, frozen: user space can only read it. The caller owns the descriptor. Nothing: none is
    // ready; `want` some and look again when the event says so.
    std::optional<Page> take();
    // So many are asked for now.
    void want(unsigned pages);
    // The programs forget this page; its number comes back once none of them can be using it.
    void retire(const std::vector<std::uint32_t>& numbers);

    // Readable after each batch.
    int event() const { return event_; }
    // Clears the event. Why the last batch could not be prepared.
    Failure take_event();

  private:
    struct Batch {
        std::vector<Page> made;
        std::vector<std::uint32_t> keys;
        std::vector<std::uint32_t> values;  // descriptors
    };

    void work();
    Failure make(Batch& batch, const std::vector<std::uint32_t>& numbers) const;
    Failure insert(const Batch& batch) const;

    const int outer_;
    int event_ = -1;
    int placeholder_ = -1;  // stands in the array where a page was
    bool waits_for_each_;   // the kernel waits for a grace period with each element of a batch

    mutable std::mutex lock_;  // for all below
    std::condition_variable wake_;
    bool stop_ = false;
    unsigned wanted_ = 0;
    std::deque<Page> ready_;
    std::vector<std::uint32_t> free_, retired_;
    Failure failure_;
    std::thread thread_;
};

}  // namespace polter::exporter
