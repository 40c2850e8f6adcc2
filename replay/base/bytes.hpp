// SPDX-License-Identifier: BSD-3-Clause
// The bytes that analysis processes send each other: plain values one after the other, in the machine's representation (all run the same
// program).
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace polter::replay {

class Bytes {
  public:
    std::vector<uint8_t> data;

    template <class T>
    void put(const T& value) {
        put(&value, 1);
    }
    template <class T>
    void put(const T* values, size_t count) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (count == 0) return;
        const size_t before = data.size();
        data.resize(before + count * sizeof(T));
        std::memcpy(data.data() + before, values, count * sizeof(T));
    }
    template <class T>
    void put(const std::vector<T>& list) {
        put(static_cast<uint64_t>(list.size()));
        put(list.data(), list.size());
    }
    void put(const std::string& text) {
        put(static_cast<uint64_t>(text.size()));
        put(text.data(), text.size());
    }
    void put(const Bytes& bytes) { put(bytes.data); }
};

// Reads what Bytes wrote, which must outlive it. Reading beyond the end is a defect, and throws.
class Input {
  public:
    explicit Input(const Bytes& bytes, size_t from = 0) : at_(bytes.data.data() + from), end_(bytes.data.data() + bytes.data.size()) {}

    bool empty() const { return at_ == end_; }
    template <class T>
    T get() {
        T value;
        get(&value, 1);
        return value;
    }
    template <class T>
    void get(T* values, size_t count) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (count > static_cast<size_t>(end_ - at_) / sizeof(T))
            throw std::logic_error("replay: a message between analysis processes is short");
        if (count > 0) std::memcpy(values, at_, count * sizeof(T));
        at_ += count * sizeof(T);
    }
    template <class T>
    void get(std::vector<T>& list) {
        const auto size = get<uint64_t>();
        if (size > static_cast<size_t>(end_ - at_) / sizeof(T))
            throw std::logic_error("replay: a message between analysis processes is short");
        list.resize(size);
        get(list.data(), list.size());
    }
    void get(std::string& text) {
        std::vector<char> characters;
        get(characters);
        text.assign(characters.begin(), characters.end());
    }
    void get(Bytes& bytes) { get(bytes.data); }

  private:
    const uint8_t *at_, *end_;
};

}  // namespace polter::replay
