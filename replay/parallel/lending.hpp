// SPDX-License-Identifier: BSD-3-Clause
// What each process has spilled to a temporary file of its own, read by process 0: in pieces, as it asks for them. So no file has to be
// seen by another process, and no memory grows with what lies in it.
#pragma once

#include "group.hpp"
#include "replay/base/file_bytes.hpp"

namespace polter::replay {

// Any process but 0: gives what process 0 asks for, until that needs no more. Throws what `read` throws.
void lend(Group& group, const ReadAt& read);

// Process 0, while all others lend. Nothing else may be under way between the processes.
class Borrowing {
  public:
    explicit Borrowing(Group& group) : group_(group) {}
    // Of another process; lives no longer than this. Throws PeerError where that cannot read it.
    ReadAt of(int process);
    void end();  // what is lent is needed no longer

  private:
    Group& group_;
};

}  // namespace polter::replay
