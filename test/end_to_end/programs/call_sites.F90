! SPDX-License-Identifier: BSD-3-Clause
! MPI calls from places that the test knows: of the main program, and of a module's subroutine.
#ifdef F08
#define LIBRARY mpi_f08
#else
#define LIBRARY mpi
#endif
module halo
  use LIBRARY
  implicit none
contains
  subroutine exchange(value)
    double precision, intent(inout) :: value
    double precision :: total
    integer :: error
    call MPI_Allreduce(value, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error) ! line: exchange
    value = total
  end subroutine
end module

program sites
  use halo
  implicit none
  double precision :: value = 1
  integer :: error
  call MPI_Init(error)
  call exchange(value)
  call MPI_Barrier(MPI_COMM_WORLD, error) ! line: barrier
  call MPI_Finalize(error)
end program
