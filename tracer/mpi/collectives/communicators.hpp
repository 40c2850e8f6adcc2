// SPDX-License-Identifier: BSD-3-Clause
// Making and freeing communicators: collectives of the trace as well. A creation is one on the parent where all of the parent take
// part, else on the new communicator; a free is one on the communicator itself.
#pragma once

#include "collectives.hpp"

namespace polter::mpi {

// Facts that stand in functions.txt.
namespace Fact {
inline constexpr uint8_t none = 0, same = 1;
inline constexpr uint8_t allocated = 1, put = 2, get = 3, accumulate = 4, fetch = 5, swap = 6;  // of windows
inline constexpr uint8_t standard = trace::send_standard, synchronous = trace::send_synchronous, ready = trace::send_ready,
                         buffered = trace::send_buffered;
}  // namespace Fact

namespace handler {

class CommCreate {
  public:
    CommCreate(Call& call, MPI_Comm parent, MPI_Comm* made, uint8_t same);
    void end(int result);

  private:
    Call& call_;
    const MPI_Comm parent_;
    MPI_Comm* const made_;
    const bool same_;
    uint32_t ordinal_ = 0;
    write::Collective collective_;
    bool known_ = false;
};

class CommCreateGroup {
  public:
    CommCreateGroup(Call& call, MPI_Comm parent, int tag, MPI_Comm* made)
        : CommCreateGroup(call, parent, static_cast<uint64_t>(tag), made) {}
    CommCreateGroup(Call& call, MPI_Comm parent, const char* tag, MPI_Comm* made);
    void end(int result);

  private:
    CommCreateGroup(Call& call, MPI_Comm parent, uint64_t tag, MPI_Comm* made);
    Call& call_;
    const MPI_Comm parent_;
    const uint64_t tag_;
    MPI_Comm* const made_;
};

class CommIdup : public Begins {
  public:
    CommIdup(Call& call, MPI_Comm parent, MPI_Comm* made, RequestVariables request);
    void end(int result);

  private:
    const MPI_Comm parent_;
    MPI_Comm* const made_;
    uint32_t ordinal_ = 0;
};

class CommFree {
  public:
    CommFree(Call& call, MPI_Comm* comm);
    void end(int result);

  private:
    Call& call_;
    MPI_Comm freed_{};
    write::Collective collective_;
    bool known_ = false;
};

class CommName {
  public:
    CommName(Call& call, MPI_Comm comm, const char* name);
    void end(int) { call_.leave(); }

  private:
    Call& call_;
};

}  // namespace handler
}  // namespace polter::mpi
