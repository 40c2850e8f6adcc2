// SPDX-License-Identifier: BSD-3-Clause
// The tail file: the event chunks of one location that need not be in its event file yet. It is a shared file mapping, so the kernel
// keeps what was stored whatever kills the process. Layout and order of the stores: ../conventions.hpp.
//
// OTF2 holds at most `live` chunks and then flushes. What it flushes goes through a buffer of stdio (4 MiB with OTF2 3.0), so a
// flushed chunk is kept here until the event file has grown over it. Used by the location's own thread only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../conventions.hpp"

namespace polter::write {

class Tail {
  public:
    // Makes the file at its full size (its blocks are reserved: a full disk must show here, not as SIGBUS later) and maps it.
    // False on failure, with the reason.
    bool open(const std::string& path, const std::string& event_file, unsigned live, std::string& error);
    // A zeroed chunk; NULL: flush first.
    void* take();
    // All chunks taken are flushed.
    void flushed();
    // The event file is whole: the tail is no longer needed.
    void remove();
    // Returns when what is in memory has reached the disk.
    void sync();

  private:
    void reclaim();
    unsigned free_slot() const;

    std::string path_, event_file_;
    trace::TailHeader* header_ = nullptr;
    size_t size_ = 0;
    unsigned slots_ = 0, most_live_ = 0;
    std::vector<bool> used_;  // by slot
    unsigned live_ = 0;       // the newest of order[], in OTF2's hands
    uint64_t first_ = 0;      // number, in the event file, of the chunk in order[0]
};

}  // namespace polter::write
