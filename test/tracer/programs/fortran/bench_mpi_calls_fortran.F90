! SPDX-License-Identifier: BSD-3-Clause
! bench_mpi_calls.c in Fortran: the same cases, the same lines.
!
!     bench_mpi_calls_fortran [ROUNDS]     a repetition
#include "bindings.h"
module cases
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer, parameter :: double = kind(1d0), repetitions = 21
  integer :: rank, ranks, ierr, rounds
  real(double) :: times(repetitions), sent, got
  HANDLE(MPI_Comm) :: world

contains

  subroutine send_to_nobody()
    call MPI_Send(sent, 1, MPI_DOUBLE_PRECISION, MPI_PROC_NULL, 1, world, ierr)
  end subroutine

  subroutine to_oneself()
    HANDLE(MPI_Request) :: request
    call MPI_Irecv(got, 1, MPI_DOUBLE_PRECISION, rank, 1, world, request, ierr)
    call MPI_Send(sent, 1, MPI_DOUBLE_PRECISION, rank, 1, world, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  end subroutine

  subroutine ping_pong()
    if (rank == 0) then
      call MPI_Send(sent, 1, MPI_DOUBLE_PRECISION, 1, 1, world, ierr)
      call MPI_Recv(got, 1, MPI_DOUBLE_PRECISION, 1, 1, world, MPI_STATUS_IGNORE, ierr)
    else if (rank == 1) then
      call MPI_Recv(got, 1, MPI_DOUBLE_PRECISION, 0, 1, world, MPI_STATUS_IGNORE, ierr)
      call MPI_Send(sent, 1, MPI_DOUBLE_PRECISION, 0, 1, world, ierr)
    end if
  end subroutine

  subroutine allreduce()
    call MPI_Allreduce(sent, got, 1, MPI_DOUBLE_PRECISION, MPI_SUM, world, ierr)
  end subroutine

  subroutine measure(name, round, calls_a_round)
    character(len=*), intent(in) :: name
    integer, intent(in) :: calls_a_round
    integer :: i, r, place
    real(double) :: start, one
    interface
      subroutine round()
      end subroutine
    end interface
    do i = 1, rounds / 10
      call round()
    end do
    do r = 1, repetitions
      call MPI_Barrier(world, ierr)
      start = MPI_Wtime()
      do i = 1, rounds
        call round()
      end do
      one = (MPI_Wtime() - start) / rounds / calls_a_round * 1d9
      place = r  ! sorted as they come
      do while (place > 1)
        if (times(place - 1) <= one) exit
        times(place) = times(place - 1)
        place = place - 1
      end do
      times(place) = one
    end do
    if (rank == 0) print '(3a, f14.1, a, f14.1, a, i0, a)', '{"case": "', name, '", "ns_per_call": ', &
      times((repetitions + 1) / 2), ', "least": ', times(1), ', "ranks": ', ranks, '}'
  end subroutine
end module

program bench
  USE_MPI
  use cases, only: world, rank, ranks, rounds, sent, ierr, measure, send_to_nobody, to_oneself, ping_pong, allreduce
  implicit none
  INCLUDE_MPI
  character(len=20) :: argument

  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  rounds = 20000
  call get_command_argument(1, argument)
  if (len_trim(argument) > 0) read (argument, *) rounds
  sent = 0
  call measure('send_to_nobody', send_to_nobody, 1)
  call measure('irecv_send_wait_to_oneself', to_oneself, 3)
  if (ranks > 1) call measure('ping_pong_8', ping_pong, 2)
  call measure('allreduce_8', allreduce, 1)
  call MPI_Finalize(ierr)
end program
