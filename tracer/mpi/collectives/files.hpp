// SPDX-License-Identifier: BSD-3-Clause
// Collectives of files: opening and closing, the _all and _ordered forms, what sets something of a file for all. OTF2 has no record of
// them: their Leave names the communicator of the file. What a rank reads and writes alone is its own affair, and has no records.
#pragma once

#include "communicators.hpp"
#include "messages/point_to_point.hpp"

namespace polter::mpi::handler {

class FileOpen {
  public:
    FileOpen(Call& call, MPI_Comm comm, const MPI_File* made) : call_(call), comm_(comm), made_(made) {}
    void end(int result);

  private:
    Call& call_;
    const MPI_Comm comm_;
    const MPI_File* const made_;
};

class FileCollective {
  public:
    FileCollective(Call& call, MPI_File file);
    FileCollective(Call& call, const MPI_File* file) : FileCollective(call, *file) {}
    void end(int);

  protected:
    void leave();
    Call& call_;
    const MPI_File file_;
    bool known_ = false;
    uint32_t comm_ = 0;
};

// Non-blocking: the records of a non-blocking collective, of an operation of our own.
class FileRequest : public Begins {
  public:
    FileRequest(Call& call, MPI_File file, RequestVariables request);
};

class FileClose : FileCollective {
  public:
    using FileCollective::FileCollective;
    void end(int result);
};

}  // namespace polter::mpi::handler
