// SPDX-License-Identifier: BSD-3-Clause
#include "page_pool.hpp"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tids.h"

namespace polter::exporter {
namespace {

// Pages kept ready in advance, 57 kB of memory each, so that the processes of a typical node register without waiting.
constexpr unsigned low = 32, full = 64;
constexpr unsigned most_in_batch = 512;  // so that in a large request the first threads get their pages early
constexpr unsigned writers = 16;         // that share grace periods where each element waits for one

int create_page() {
    LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
    return bpf_map_create(BPF_MAP_TYPE_ARRAY, POLTER_BPF_PAGE_NAME, sizeof(__u32), POLTER_PAGE_SIZE, 1, &options);
}

std::uint32_t id_of(int map) {
    bpf_map_info info{};
    __u32 size = sizeof info;
    return bpf_obj_get_info_by_fd(map, &info, &size) == 0 ? info.id : 0;
}

// 06e5c999f102 ("bpf: Call maybe_wait_bpf_programs() only once for generic_map_update_batch()", 6.8). A kernel that has it without saying
// so is only written to by more threads than it needs.
bool waits_for_each_element() {
    utsname kernel{};
    int major = 0, minor = 0;
    if (uname(&kernel) != 0 || std::sscanf(kernel.release, "%d.%d", &major, &minor) != 2) return true;
    return major < 6 || (major == 6 && minor < 8);
}

// One part of a batch. Maps of maps take batches from 5.19 on.
int insert_part(int outer, const std::uint32_t* keys, const std::uint32_t* values, std::size_t n) {
    auto count = static_cast<__u32>(n);
    LIBBPF_OPTS(bpf_map_batch_opts, options);
    int error = bpf_map_update_batch(outer, keys, values, &count, &options);
    constexpr int enotsupp = 524;  // the kernel's own, not in errno.h
    if (error == -enotsupp || error == -EOPNOTSUPP || error == -EINVAL)
        for (std::size_t i = error = 0; i < n && !error; i++) error = bpf_map_update_elem(outer, keys + i, values + i, BPF_ANY);
    return error;
}

}  // namespace

PagePool::PagePool(int outer, std::uint32_t numbers) : outer_(outer), waits_for_each_(waits_for_each_element()) {
    for (std::uint32_t n = numbers; n-- > 0;) free_.push_back(n);
}

PagePool::~PagePool() {
    {
        const std::lock_guard guard(lock_);
        stop_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    for (const Page& page : ready_) close(page.fd);
    if (placeholder_ >= 0) close(placeholder_);
    if (event_ >= 0) close(event_);
}

Failure PagePool::start() {
    event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_ < 0) return fmt::format("no event descriptor to be had: {}", std::strerror(errno));
    placeholder_ = create_page();
    if (placeholder_ < 0) return fmt::format("no memory for a noise page of {} bytes: {}", POLTER_PAGE_SIZE, std::strerror(errno));
    thread_ = std::thread([this] { work(); });
    return std::nullopt;
}

unsigned PagePool::ready() const {
    const std::lock_guard guard(lock_);
    return static_cast<unsigned>(ready_.size());
}

std::optional<Page> PagePool::take() {
    const std::lock_guard guard(lock_);
    if (ready_.empty()) return std::nullopt;
    const Page page = ready_.front();
    ready_.pop_front();
    if (ready_.size() < low) wake_.notify_all();
    return page;
}

void PagePool::want(unsigned pages) {
    const std::lock_guard guard(lock_);
    wanted_ = pages;
    if (ready_.size() < wanted_) wake_.notify_all();
}

void PagePool::retire(const std::vector<std::uint32_t>& numbers) {
    const std::lock_guard guard(lock_);
    retired_.insert(retired_.end(), numbers.begin(), numbers.end());
    wake_.notify_all();
}

Failure PagePool::take_event() {
    std::uint64_t ignored;
    (void)!read(event_, &ignored, sizeof ignored);
    const std::lock_guard guard(lock_);
    return std::exchange(failure_, std::nullopt);
}

// New maps for these numbers, frozen before anybody else can have them.
Failure PagePool::make(Batch& batch, const std::vector<std::uint32_t>& numbers) const {
    for (const std::uint32_t number : numbers) {
        const int fd = create_page();
        if (fd >= 0 && bpf_map_freeze(fd) == 0) {
            batch.made.push_back({fd, id_of(fd), number});
            continue;
        }
        const int error = errno;
        if (fd >= 0) close(fd);
        return fmt::format("bpf: no memory for a noise page of {} bytes: {}", POLTER_PAGE_SIZE, std::strerror(error));
    }
    return std::nullopt;
}

Failure PagePool::insert(const Batch& batch) const {
    const std::size_t n = batch.keys.size(), parts = waits_for_each_ ? std::min<std::size_t>(writers, n) : 1;
    std::atomic<int> error{0};
    const auto part = [&](std::size_t i) {
        const std::size_t from = n * i / parts, to = n * (i + 1) / parts;
        if (const int e = insert_part(outer_, &batch.keys[from], &batch.values[from], to - from)) error = e;
    };
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < parts; i++) others.emplace_back(part, i);
    part(0);
    for (auto& other : others) other.join();
    if (error == 0) return std::nullopt;
    return fmt::format("bpf: cannot show noise pages to the programs: {}", std::strerror(-error));
}

void PagePool::work() {
    pthread_setname_np(pthread_self(), "polterd-pages");
    std::unique_lock guard(lock_);
    bool failed = false;     // the last batch: the next one is made when somebody asks, not at once
    unsigned target = full;  // twice as many as the last time while they are used up as fast as they are made
    for (;;) {
        wake_.wait(guard,
                   [&] { return stop_ || !retired_.empty() || (!free_.empty() && ready_.size() < std::max(failed ? 0u : low, wanted_)); });
        if (stop_) return;
        std::vector<std::uint32_t> numbers;
        while (!free_.empty() && ready_.size() + numbers.size() < std::max(failed ? 0u : target, wanted_) &&
               numbers.size() < most_in_batch) {
            numbers.push_back(free_.back());
            free_.pop_back();
        }
        std::vector<std::uint32_t> retired = std::exchange(retired_, {});
        // Release the surplus that was made for a large request when its threads leave.
        for (; target == full && !retired.empty() && ready_.size() > full; ready_.pop_back()) {
            retired.push_back(ready_.back().number);
            close(ready_.back().fd);
        }
        wanted_ = 0;
        guard.unlock();

        Batch batch;
        Failure failure = make(batch, numbers);
        for (const Page& page : batch.made) {
            batch.keys.push_back(page.number);
            batch.values.push_back(static_cast<std::uint32_t>(page.fd));
        }
        for (const std::uint32_t number : retired) {
            batch.keys.push_back(number);
            batch.values.push_back(static_cast<std::uint32_t>(placeholder_));
        }
        Failure refused = batch.keys.empty() ? std::nullopt : insert(batch);
        if (refused)
            for (const Page& page : batch.made) close(page.fd);

        guard.lock();
        target = ready_.size() < low && numbers.size() >= target / 2 ? std::min(2 * target, most_in_batch) : full;
        const std::size_t made = refused ? 0 : batch.made.size();
        if (!refused) ready_.insert(ready_.end(), batch.made.begin(), batch.made.end());
        free_.insert(free_.end(), numbers.begin() + static_cast<std::ptrdiff_t>(made), numbers.end());
        // Still in the array: the next batch writes over it.
        auto& to = refused ? retired_ : free_;
        to.insert(to.end(), retired.begin(), retired.end());
        failure_ = refused ? refused : failure;
        failed = failure_.has_value();
        const std::uint64_t one = 1;
        (void)!write(event_, &one, sizeof one);
        if (refused && !stop_) wake_.wait_for(guard, std::chrono::seconds(1), [&] { return stop_; });
    }
}

}  // namespace polter::exporter
