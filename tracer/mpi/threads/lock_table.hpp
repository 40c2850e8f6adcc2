// SPDX-License-Identifier: BSD-3-Clause
// Places for the locks of the program, by their address. A place is never given back: a lock that is made where another one was goes on
// counting. Any thread may look a place up at any time, without a lock of ours.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace polter::mpi {

// `Place` has the member `lock`, a std::atomic<const void*> that is NULL at first.
template <typename Place>
class LockTable {
  public:
    static constexpr size_t size = 1 << 12;  // a power of two

    // Its own, from now on. NULL: there are too many.
    Place* add(const void* lock) { return find<true>(lock); }
    // NULL: it has none.
    Place* known(const void* lock) { return find<false>(lock); }
    uint32_t number(const Place& place) const { return static_cast<uint32_t>(&place - places_.data()); }

  private:
    static constexpr size_t most_steps = 32;

    template <bool adds>
    Place* find(const void* lock) {
        size_t at = reinterpret_cast<size_t>(lock) >> 3;
        at ^= at >> 9;
        for (size_t step = 0; step < most_steps; ++step, ++at) {
            Place& place = places_[at & (size - 1)];
            const void* other = place.lock.load(std::memory_order_relaxed);
            if (other == lock) return &place;
            if (other) continue;
            if (!adds) return nullptr;
            if (place.lock.compare_exchange_strong(other, lock) || other == lock) return &place;
        }
        return nullptr;
    }

    std::array<Place, size> places_;
};

}  // namespace polter::mpi
