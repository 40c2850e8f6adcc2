// SPDX-License-Identifier: BSD-3-Clause
#include "requests.hpp"

namespace polter::mpi {
namespace {

// How many of one handle are looked through for the program's variable before the oldest is taken.
constexpr int most_looked_at = 64;

}  // namespace

uint32_t Requests::head(uint64_t handle) const {
    uint32_t i = buckets_[handle * 0x9e3779b97f4a7c15u >> shift_];
    while (i != absent && pool_[i].handle != handle) i = pool_[i].next;
    return i;
}

void Requests::link(uint32_t index) {
    Entry& entry = pool_[index];
    entry.twin = absent;
    if (const uint32_t first = head(entry.handle); first != absent) {
        pool_[pool_[first].last_twin].twin = index;
        pool_[first].last_twin = index;
        return;
    }
    uint32_t& start = bucket(entry.handle);
    entry.next = start;
    entry.last_twin = index;
    start = index;
}

void Requests::unlink(uint32_t index) {
    Entry& entry = pool_[index];
    const uint32_t first = head(entry.handle);
    if (first != index) {
        uint32_t before = first;
        while (pool_[before].twin != index) before = pool_[before].twin;
        pool_[before].twin = entry.twin;
        if (pool_[first].last_twin == index) pool_[first].last_twin = before;
        return;
    }
    uint32_t* to_head = &bucket(entry.handle);
    while (*to_head != index) to_head = &pool_[*to_head].next;
    if (entry.twin == absent) {
        *to_head = entry.next;
    } else {
        Entry& heir = pool_[entry.twin];
        heir.next = entry.next;
        heir.last_twin = entry.last_twin;
        *to_head = entry.twin;
    }
}

void Requests::grow() {
    // Twice the entries and twice the buckets, so that a bucket holds one on average.
    const auto old = static_cast<uint32_t>(pool_.size());
    const uint32_t size = old ? old * 2 : 512;
    pool_.resize(size);
    for (uint32_t i = size; i-- > old;) {
        pool_[i].next = free_;
        free_ = i;
    }
    if (size <= buckets_.size()) return;
    std::vector<uint32_t> heads;
    for (uint32_t i : buckets_)
        for (; i != absent; i = pool_[i].next) heads.push_back(i);
    buckets_.assign(buckets_.size() * 2, absent);
    shift_--;
    for (uint32_t i : heads) {
        uint32_t& start = bucket(pool_[i].handle);
        pool_[i].next = start;
        start = i;
    }
}

void Requests::add(uint64_t handle, const void* variable, const Request& request) {
    if (free_ == absent) grow();
    const uint32_t index = free_;
    Entry& entry = pool_[index];
    free_ = entry.next;
    entry.handle = handle;
    entry.variable = variable;
    entry.request = request;
    link(index);
}

uint32_t Requests::find(uint64_t handle, const void* variable) const {
    const uint32_t first = head(handle);
    uint32_t i = first;
    for (int n = 0; i != absent && n < most_looked_at; n++, i = pool_[i].twin)
        if (pool_[i].variable == variable) return i;
    return first;
}

void Requests::drop(uint32_t index) {
    pool_[index].next = free_;
    free_ = index;
}

void Requests::erase(uint32_t index) {
    unlink(index);
    drop(index);
}

uint32_t Requests::take(uint64_t handle, const void* variable) {
    const uint32_t index = find(handle, variable);
    if (index != absent) unlink(index);
    return index;
}

void Requests::put_back(uint32_t index) {
    link(index);
}

}  // namespace polter::mpi
