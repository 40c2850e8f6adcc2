// SPDX-License-Identifier: BSD-3-Clause
// A hash map by open addressing: one array, no allocation an entry, deletion by shifting back (no tombstones, so a map whose
// entries come and go stays as small as what it holds at once).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace polter::replay {

inline uint64_t mix(uint64_t x) {  // the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA'14)
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Key: equality-comparable with `uint64_t hash() const`. A Value that converts to false marks a free slot.
template <class Key, class Value>
class FlatMap {
  public:
    Value* find(const Key& key) {
        if (size_ == 0) return nullptr;
        for (size_t i = key.hash() & mask_;; i = (i + 1) & mask_) {
            if (!slots_[i].value) return nullptr;
            if (slots_[i].key == key) return &slots_[i].value;
        }
    }

    // `value` must convert to true. An equal key is overwritten.
    void insert(const Key& key, Value value) { exchange(key, value); }

    // What the key had before; a free slot's value if nothing.
    Value exchange(const Key& key, Value value) {
        if ((size_ + 1) * 2 > slots_.size()) grow();
        size_t i = key.hash() & mask_;
        while (slots_[i].value && !(slots_[i].key == key)) i = (i + 1) & mask_;
        if (!slots_[i].value) ++size_;
        Value before = slots_[i].value;
        slots_[i] = {key, value};
        return before;
    }

    bool erase(const Key& key) { return static_cast<bool>(take(key)); }

    // Erases it; a free slot's value if there was none.
    Value take(const Key& key) {
        if (size_ == 0) return {};
        size_t i = key.hash() & mask_;
        while (slots_[i].value && !(slots_[i].key == key)) i = (i + 1) & mask_;
        if (!slots_[i].value) return {};
        const Value taken = slots_[i].value;
        for (size_t j = (i + 1) & mask_; slots_[j].value; j = (j + 1) & mask_) {
            const size_t home = slots_[j].key.hash() & mask_;
            // An entry may move to the hole if its home does not lie cyclically in (hole, entry].
            const bool stays = i <= j ? (i < home && home <= j) : (i < home || home <= j);
            if (!stays) {
                slots_[i] = slots_[j];
                i = j;
            }
        }
        slots_[i] = {};
        --size_;
        return taken;
    }

    size_t size() const { return size_; }

    template <class Visit>
    void each(Visit visit) {
        for (auto& slot : slots_)
            if (slot.value) visit(slot.key, slot.value);
    }

    void clear() {
        slots_.clear();
        size_ = 0;
    }

  private:
    struct Slot {
        Key key{};
        Value value{};
    };

    void grow() {
        std::vector<Slot> old(slots_.empty() ? 16 : slots_.size() * 2);
        old.swap(slots_);
        mask_ = slots_.size() - 1;
        for (const Slot& slot : old) {
            if (!slot.value) continue;
            size_t i = slot.key.hash() & mask_;
            while (slots_[i].value) i = (i + 1) & mask_;
            slots_[i] = slot;
        }
    }

    std::vector<Slot> slots_;
    size_t mask_ = 0, size_ = 0;
};

}  // namespace polter::replay
