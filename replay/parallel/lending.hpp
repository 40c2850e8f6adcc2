// SPDX-License-Identifier: BSD-3-Clause
// Temporary files of all processes, read by process 0. It requests pieces of them as messages, so no file must be visible to another
// process, and memory does not grow with their size.
#pragma once

#include "group.hpp"
#include "replay/base/file_bytes.hpp"

namespace polter::replay {

// In every process but 0: answers the requests of process 0 until it ends them. Throws what `read` throws.
void lend(Group& group, const ReadAt& read);

// In process 0, while all others are in lend(). No other messages may be under way.
class Borrowing {
  public:
    explicit Borrowing(Group& group) : group_(group) {}
    // Reads the file of another process; valid while this object lives. Throws PeerError if that process cannot read it.
    ReadAt of(int process);
    void end();  // ends lend() in the other processes

  private:
    Group& group_;
};

}  // namespace polter::replay
