! SPDX-License-Identifier: BSD-3-Clause
! Fortran with OpenMP, as most such programs are: threads compute, the first one communicates (MPI_THREAD_FUNNELED).
#include "bindings.h"
program threads
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer, parameter :: cells = 1000, steps = 50
  integer :: rank, ranks, left, right, ierr, provided, step, i
  real(kind(1d0)) :: old(0:cells + 1), new(0:cells + 1), change, most
  HANDLE(MPI_Request) :: requests(4)

  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierr)
  if (provided < MPI_THREAD_FUNNELED) stop 77
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
  old = 0
  if (rank == 0) old(0) = 1

  !$omp parallel private(step)
  do step = 1, steps
    !$omp master
    call MPI_Irecv(old(0), 1, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, requests(1), ierr)
    call MPI_Irecv(old(cells + 1), 1, MPI_DOUBLE_PRECISION, right, 2, MPI_COMM_WORLD, requests(2), ierr)
    call MPI_Isend(old(cells), 1, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD, requests(3), ierr)
    call MPI_Isend(old(1), 1, MPI_DOUBLE_PRECISION, left, 2, MPI_COMM_WORLD, requests(4), ierr)
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, ierr)
    change = 0
    !$omp end master
    !$omp barrier
    !$omp do reduction(max:change)
    do i = 1, cells
      new(i) = 0.5d0 * (old(i - 1) + old(i + 1))
      change = max(change, abs(new(i) - old(i)))
    end do
    !$omp do
    do i = 1, cells
      old(i) = new(i)
    end do
    !$omp master
    call MPI_Allreduce(change, most, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)
    !$omp end master
    !$omp barrier
  end do
  !$omp end parallel
  if (rank == 0) print '(a,es20.12)', 'change ', most
  call MPI_Finalize(ierr)
end program
