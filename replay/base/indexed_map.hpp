// SPDX-License-Identifier: BSD-3-Clause
// Ordered maps whose entries are found without walking a tree: beside the map lies an index of its nodes, which stay where they are. The
// index only remembers what was asked for, so a copy begins with an empty one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "flat_map.hpp"

namespace polter::replay {

// The keys are numbers from −1 on, none of them large: bins of a histogram.
template <class T>
class BinMap {
  public:
    using Map = std::map<int, T>;

    BinMap() = default;
    BinMap(const BinMap& other) : map_(other.map_) {}
    BinMap(BinMap&& other) noexcept : map_(std::move(other.map_)), at_(std::exchange(other.at_, {})) {}
    BinMap& operator=(BinMap other) noexcept {
        map_.swap(other.map_);
        at_.swap(other.at_);
        return *this;
    }

    T& operator[](int bin) {
        const auto i = static_cast<size_t>(bin + 1);
        if (i >= at_.size()) at_.resize(i + 1);
        if (!at_[i]) at_[i] = &map_[bin];
        return *at_[i];
    }
    const Map& map() const { return map_; }
    bool empty() const { return map_.empty(); }
    size_t size() const { return map_.size(); }
    auto begin() const { return map_.begin(); }
    auto end() const { return map_.end(); }
    auto rbegin() const { return map_.rbegin(); }
    auto rend() const { return map_.rend(); }
    auto find(int bin) const { return map_.find(bin); }
    auto lower_bound(int bin) const { return map_.lower_bound(bin); }

  private:
    Map map_;
    std::vector<T*> at_;
};

inline uint64_t index_hash(uint64_t key) {
    return mix(key);
}
inline uint64_t index_hash(const std::pair<uint64_t, uint64_t>& key) {
    return mix(key.first * 0x9e3779b97f4a7c15u ^ key.second);
}

template <class Key, class T>
class HashedMap {
  public:
    using Map = std::map<Key, T>;

    HashedMap() = default;
    HashedMap(const HashedMap& other) : map_(other.map_) {}
    HashedMap(HashedMap&& other) noexcept : map_(std::move(other.map_)), index_(std::exchange(other.index_, {})) {}
    HashedMap& operator=(HashedMap other) noexcept {
        map_.swap(other.map_);
        std::swap(index_, other.index_);
        return *this;
    }

    T& operator[](const Key& key) {
        if (T** known = index_.find({key})) return **known;
        T* value = &map_[key];
        index_.insert({key}, value);
        return *value;
    }
    // None: not there.
    T* get(const Key& key) {
        if (T** known = index_.find({key})) return *known;
        const auto found = map_.find(key);
        if (found == map_.end()) return nullptr;
        index_.insert({key}, &found->second);
        return &found->second;
    }
    // For what does more than ask; the index is built anew.
    Map& changed() {
        index_.clear();
        return map_;
    }
    const Map& map() const { return map_; }
    void clear() { changed().clear(); }
    bool empty() const { return map_.empty(); }
    size_t size() const { return map_.size(); }
    auto begin() const { return map_.begin(); }
    auto end() const { return map_.end(); }
    auto find(const Key& key) const { return map_.find(key); }
    auto lower_bound(const Key& key) const { return map_.lower_bound(key); }
    bool contains(const Key& key) const { return map_.contains(key); }
    const T& at(const Key& key) const { return map_.at(key); }

  private:
    struct IndexKey {
        Key key{};
        bool operator==(const IndexKey&) const = default;
        uint64_t hash() const { return index_hash(key); }
    };
    Map map_;
    FlatMap<IndexKey, T*> index_;
};

}  // namespace polter::replay
