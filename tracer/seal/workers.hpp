// SPDX-License-Identifier: BSD-3-Clause
// The same work for each of many ranks, in several threads or processes. Items are taken in order, so the outcome is that of one worker:
// if items fail, the error is that of the first of them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace polter::seal {

// Anonymous memory shared with child processes; zeros at first. Throws std::runtime_error.
class SharedMemory {
  public:
    explicit SharedMemory(size_t bytes);
    ~SharedMemory() { munmap(at_, bytes_); }
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    void* at() const { return at_; }

  private:
    void* at_;
    size_t bytes_;
};

template <typename T>
class SharedArray {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

  public:
    explicit SharedArray(size_t size) : memory_(size * sizeof(T)) {
        for (size_t i = 0; i < size; ++i) new (&(*this)[i]) T();
    }
    T& operator[](size_t i) { return static_cast<T*>(memory_.at())[i]; }

  private:
    SharedMemory memory_;
};

// How many workers a number of ranks is worth; `wanted` 0: as many as this process has CPUs.
unsigned workers_for(size_t ranks, unsigned wanted);

// What work() throws is thrown again. Where no further thread can be started those that run do it all.
void in_threads(unsigned workers, size_t items, const std::function<void(size_t item)>& work);

// For OTF2, which is not made for threads. What work() changes is lost with its process, but for files and SharedArrays. An exception
// arrives as a std::runtime_error of the same text; a worker that dies is one too. One worker: in this process.
// The workers die with this process.
void in_processes(unsigned workers, size_t items, const std::function<void(unsigned worker, size_t item)>& work);

// In a child process: it dies when `parent` does.
void die_with(int parent);

}  // namespace polter::seal
