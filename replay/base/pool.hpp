// SPDX-License-Identifier: BSD-3-Clause
// Pools of records that live as long as messages are in flight: taken from slabs and returned to a free list, without the heap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace polter::replay {

// Objects keep what they own (a vector's capacity) in the free list; take() returns them as they were left.
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
    // As new, in its place: without a temporary that is moved there.
    T* take_new() {
        T* object = take();
        std::destroy_at(object);
        return std::construct_at(object);
    }
    void give(T* object) { free_.push_back(object); }
    size_t in_use() const { return slabs_.size() * slab - free_.size(); }
    size_t allocated() const { return slabs_.size() * slab; }

  private:
    static constexpr size_t slab = 64;
    std::vector<std::unique_ptr<T[]>> slabs_;
    std::vector<T*> free_;
};

// A few lanes have mostly just been written, one by one: wide loads would wait for that.
inline void copy_lanes(int64_t* to, const int64_t* from, size_t lanes) {
    constexpr size_t few = 32;
    if (lanes > few)
        std::copy_n(from, lanes, to);
    else
        for (size_t i = 0; i < lanes; ++i) to[i] = from[i];
}

class LanePool;

// Owns one vector with an entry for each scenario lane, and returns it to its pool. Empty by default.
class LaneVector {
  public:
    LaneVector() = default;
    LaneVector(LaneVector&& other) noexcept : pool_(other.pool_), data_(std::exchange(other.data_, nullptr)) {}
    LaneVector& operator=(LaneVector&& other) noexcept {
        if (this == &other) return *this;
        reset();
        pool_ = other.pool_;
        data_ = std::exchange(other.data_, nullptr);
        return *this;
    }
    ~LaneVector() { reset(); }

    inline void reset();
    int64_t* get() const { return data_; }
    // Like a pointer to the first lane; deleted for temporaries, whose pointer would dangle.
    operator int64_t*() const& { return data_; }
    operator int64_t*() const&& = delete;

  private:
    friend class LanePool;
    LaneVector(LanePool& pool, int64_t* data) : pool_(&pool), data_(data) {}

    LanePool* pool_ = nullptr;
    int64_t* data_ = nullptr;
};

// Vectors of one length, by lane. The pool outlives them. Vectors of length 0 (learning pass) must not be read.
class LanePool {
  public:
    explicit LanePool(size_t lanes) : lanes_(lanes) {}
    LaneVector take() {  // uninitialised
        if (lanes_ == 0) return {*this, &nothing_};
        if (free_.empty()) {
            slabs_.push_back(std::make_unique<int64_t[]>(slab * lanes_));
            for (size_t i = slab; i-- > 0;) free_.push_back(&slabs_.back()[i * lanes_]);
        }
        int64_t* vector = free_.back();
        free_.pop_back();
        return {*this, vector};
    }
    LaneVector filled(int64_t value) {
        LaneVector vector = take();
        std::fill_n(vector.data_, lanes_, value);
        return vector;
    }
    LaneVector copy(const int64_t* from) {
        LaneVector vector = take();
        copy_lanes(vector.data_, from, lanes_);
        return vector;
    }
    size_t allocated_bytes() const { return slabs_.size() * slab * lanes_ * sizeof(int64_t); }

  private:
    friend class LaneVector;
    static constexpr size_t slab = 64;
    size_t lanes_;
    std::vector<std::unique_ptr<int64_t[]>> slabs_;
    std::vector<int64_t*> free_;
    int64_t nothing_ = 0;  // all vectors of length 0
};

inline void LaneVector::reset() {
    int64_t* data = std::exchange(data_, nullptr);
    if (data && data != &pool_->nothing_) pool_->free_.push_back(data);
}

}  // namespace polter::replay
