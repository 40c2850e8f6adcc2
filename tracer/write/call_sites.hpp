// SPDX-License-Identifier: BSD-3-Clause
// Where the program calls MPI from. A call site is a return address; its id is an attribute of the call's Enter, but only where it is
// not the one that is expected behind the call site before (README.md, "Call sites"): programs repeat themselves, so that most calls
// cost a comparison and no byte.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "loaded_object.hpp"

namespace polter::write {

class Archive;

// How often the process has unloaded something: addresses may mean something else since.
inline std::atomic<uint32_t> unloaded{0};

// The ids of a process: dense from 0, each defined in the sidecar before it is given. Thread-safe.
class CallSiteIds {
  public:
    explicit CallSiteIds(Archive& archive) : archive_(archive) {}
    uint32_t id(const void* address);

  private:
    uint32_t object(const void* address, uint64_t* offset);

    Archive& archive_;
    std::mutex mutex_;
    std::vector<LoadedObject> objects_;
    std::map<std::pair<uint32_t, uint64_t>, uint32_t> ids_;  // by object and address in it
};

// Those of one location, in the order in which they follow each other.
class CallSites {
  public:
    explicit CallSites(CallSiteIds& ids) : ids_(ids), last_(&sites_.emplace_back()) { forget_addresses(); }

    // The call site is the one that the reader of the trace expects.
    bool expected(const void* address) {
        if (last_->next_address != address || generation_ != unloaded.load(std::memory_order_relaxed)) [[unlikely]]
            return false;
        last_->doubted = false;
        last_ = last_->next;
        return true;
    }
    // Where it is another: its id. It will be expected from the second time in a row on.
    uint32_t id(const void* address);

  private:
    struct Site {
        const void* next_address = this;  // of the expected one, as of this generation; itself: where nothing returns to
        Site* next = nullptr;
        uint32_t id = 0;
        bool doubted = false;  // another came in its place the last time
    };
    struct Slot {
        const void* address = nullptr;
        Site* site = nullptr;
    };
    void forget_addresses();
    Site& find(const void* address);
    Slot& slot(const void* address);
    void grow();

    CallSiteIds& ids_;
    std::deque<Site> sites_;  // the first: before the location's first call
    std::unordered_map<uint32_t, Site*> by_id_;
    std::vector<Slot> slots_;  // by address, of this generation: open addressing; a power of two, at most half full
    size_t used_ = 0;
    Site* last_;
    uint32_t generation_ = 0;
};

}  // namespace polter::write
