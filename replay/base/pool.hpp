// SPDX-License-Identifier: BSD-3-Clause
// Records that come and go with the messages in flight: taken from slabs, given back to a free list, never to the heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace polter::replay {

// Objects keep what they own (a vector's capacity) while they lie in the free list; take() hands them out as they were left.
template <class T>
class Pool {
  public:
    T* take() {
        if (free_.empty()) {
            slabs_.push_back(std::make_unique<T[]>(slab));
            for (size_t i = slab; i-- > 0;) free_.push_back(&slabs_.back()[i]);
        }
        T* object = free_.back();
        free_.pop_back();
        return object;
    }
    void give(T* object) { free_.push_back(object); }
    size_t in_use() const { return slabs_.size() * slab - free_.size(); }
    size_t allocated() const { return slabs_.size() * slab; }

  private:
    static constexpr size_t slab = 64;
    std::vector<std::unique_ptr<T[]>> slabs_;
    std::vector<T*> free_;
};

// Vectors of one length, in lanes. A length of 0 (the learning pass) hands out a pointer that must not be followed.
class LanePool {
  public:
    explicit LanePool(size_t lanes) : lanes_(lanes) {}
    int64_t* take() {
        if (free_.empty()) {
            const size_t stride = lanes_ == 0 ? 1 : lanes_;
            slabs_.push_back(std::make_unique<int64_t[]>(slab * stride));
            for (size_t i = slab; i-- > 0;) free_.push_back(&slabs_.back()[i * stride]);
        }
        int64_t* vector = free_.back();
        free_.pop_back();
        return vector;
    }
    void give(int64_t* vector) {
        if (vector) free_.push_back(vector);
    }
    size_t allocated_bytes() const { return slabs_.size() * slab * lanes_ * sizeof(int64_t); }

  private:
    static constexpr size_t slab = 64;
    size_t lanes_;
    std::vector<std::unique_ptr<int64_t[]>> slabs_;
    std::vector<int64_t*> free_;
};

}  // namespace polter::replay
