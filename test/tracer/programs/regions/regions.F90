! SPDX-License-Identifier: BSD-3-Clause
! Regions of a Fortran program: "assembly" three times on each rank, with "inner" in each; with MPI_Pcontrol(0) once more, not in the trace.
program regions
  use mpi
  use polter
  implicit none
  integer :: i, ierror
  call MPI_Init(ierror)
  do i = 1, 4
    if (i == 4) call MPI_Pcontrol(0)
    call polter_region_begin('assembly ')
    call polter_region_begin('inner')
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call polter_region_end('inner')
    call polter_region_end('assembly')
  end do
  call MPI_Pcontrol(1)
  call MPI_Finalize(ierror)
end program
