// SPDX-License-Identifier: BSD-3-Clause
// The request variables of a program: their handles, and the addresses that tell twins of one handle apart. In C the variable holds the
// handle; a Fortran program's is an integer, and the handle stands elsewhere.
#pragma once

#include <mpi.h>

namespace polter::mpi {

class RequestVariables {
  public:
    RequestVariables(MPI_Request* handles) : handles_(handles), first_(reinterpret_cast<const char*>(handles)), size_(sizeof *handles) {}
    RequestVariables(MPI_Request* handles, const MPI_Fint* variables)
        : handles_(handles), first_(reinterpret_cast<const char*>(variables)), size_(sizeof *variables) {}

    MPI_Request handle(int i = 0) const { return handles_[i]; }
    const void* address(int i = 0) const { return first_ + static_cast<size_t>(i) * size_; }

  private:
    MPI_Request* handles_;
    const char* first_;
    size_t size_;
};

}  // namespace polter::mpi
