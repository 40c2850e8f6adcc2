! SPDX-License-Identifier: BSD-3-Clause
! Messages of a Fortran program, in any binding: blocking, non-blocking, persistent, probed, cancelled; special constants for statuses
! and addresses. Rank 0 prints one number for each rank, of all that the rank received.
#include "bindings.h"
program messages
  USE_MPI
  use, intrinsic :: iso_c_binding, only: c_ptr
  implicit none
  INCLUDE_MPI
  integer, parameter :: long = selected_int_kind(18)
  integer :: rank, ranks, left, right, ierr, i
  integer(long) :: digest
  integer(long), allocatable :: digests(:)
  HANDLE(MPI_Comm) :: world

  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  digest = rank

  call blocking()
  call nonblocking()
  call several()
  call persistent()
  call probed()
  call cancelled()
  call absolute()
  call strided()
  call errors()

  allocate(digests(ranks))
  call MPI_Gather(digest, 1, MPI_INTEGER8, digests, 1, MPI_INTEGER8, 0, world, ierr)
  if (rank == 0) then
    do i = 1, ranks
      print *, 'rank', i - 1, digests(i)
    end do
  end if
  call MPI_Finalize(ierr)

contains

  subroutine digested(value)
    integer, intent(in) :: value
    digest = mod(digest * 31 + value + 1000, 1000003_long)
  end subroutine

  subroutine digested_status(status)
    ONE_STATUS(status)
    integer :: count
    call MPI_Get_count(status, MPI_INTEGER, count, ierr)
    call digested(SOURCE_OF(status))
    call digested(TAG_OF(status))
    call digested(count)
  end subroutine

  subroutine blocking()
    integer :: out(100), in(100), attached(1000), bytes
#if BINDING == 3
    type(c_ptr) :: detached
#endif
    ONE_STATUS(status)
    out = rank + 1
    if (rank == 0) then
      call MPI_Send(out, 10, MPI_INTEGER, right, 1, world, ierr)
      call MPI_Recv(in, 100, MPI_INTEGER, left, 1, world, status, ierr)
    else
      call MPI_Recv(in, 100, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, world, status, ierr)
      call MPI_Ssend(out, 10, MPI_INTEGER, right, 1, world, ierr)
    end if
    call digested(in(10))
    call digested_status(status)

    bytes = 4000
    call MPI_Buffer_attach(attached, bytes, ierr)
    call MPI_Bsend(out, 20, MPI_INTEGER, right, 2, world, ierr)
    call MPI_Recv(in, 100, MPI_INTEGER, left, 2, world, MPI_STATUS_IGNORE, ierr)
#if BINDING == 3
    call MPI_Buffer_detach(detached, bytes, ierr)
#else
    call MPI_Buffer_detach(attached, bytes, ierr)
#endif
    call digested(in(20))

    call MPI_Sendrecv(out, 5, MPI_INTEGER, right, 3, in, 100, MPI_INTEGER, left, 3, world, status, ierr)
    call digested_status(status)
    call MPI_Sendrecv_replace(out, 7, MPI_INTEGER, right, 4, left, MPI_ANY_TAG, world, MPI_STATUS_IGNORE, ierr)
    call digested(out(7))
    call MPI_Send(out, 7, MPI_INTEGER, MPI_PROC_NULL, 4, world, ierr)
    call MPI_Recv(in, 7, MPI_INTEGER, MPI_PROC_NULL, 4, world, MPI_STATUS_IGNORE, ierr)
  end subroutine

  subroutine nonblocking()
    integer :: out(100), in(100)
    logical :: done
    ONE_STATUS(status)
    HANDLE(MPI_Request) :: sending, receiving
    out = rank + 2
    call MPI_Irecv(in, 100, MPI_INTEGER, left, 5, world, receiving, ierr)
    call MPI_Isend(out, 30, MPI_INTEGER, right, 5, world, sending, ierr)
    call MPI_Wait(receiving, status, ierr)
    call digested_status(status)
    call MPI_Wait(sending, MPI_STATUS_IGNORE, ierr)
    call MPI_Wait(sending, MPI_STATUS_IGNORE, ierr)
    if (sending == MPI_REQUEST_NULL) call digested(1)

    call MPI_Irecv(in, 100, MPI_INTEGER, MPI_ANY_SOURCE, 6, world, receiving, ierr)
    call MPI_Issend(out, 31, MPI_INTEGER, right, 6, world, sending, ierr)
    done = .false.
    do while (.not. done)
      call MPI_Test(receiving, done, status, ierr)
    end do
    call digested_status(status)
    done = .false.
    do while (.not. done)
      call MPI_Test(sending, done, MPI_STATUS_IGNORE, ierr)
    end do

    call MPI_Isend(out, 3, MPI_INTEGER, right, 7, world, sending, ierr)
    call MPI_Request_free(sending, ierr)
    call MPI_Recv(in, 100, MPI_INTEGER, left, 7, world, MPI_STATUS_IGNORE, ierr)
    call MPI_Barrier(world, ierr)
  end subroutine

  ! The forms for several requests. What index a request has is not digested: MPICH 4.0 counts from zero in mpi_f08.
  subroutine several()
    integer :: out(100, 4), in(100, 4), indices(8), index, count, found, all_found, round
    logical :: done
    ONE_STATUS(status)
    MANY_STATUSES(statuses, 8)
    HANDLE(MPI_Request) :: requests(8)
    out = rank + 3
    do round = 1, 8
      do i = 1, 4
        call MPI_Irecv(in(1, i), 100, MPI_INTEGER, left, 10 + i, world, requests(i), ierr)
      end do
      do i = 1, 4
        call MPI_Isend(out(1, i), 10 * i, MPI_INTEGER, right, 10 + i, world, requests(4 + i), ierr)
      end do
      found = 0
      select case (round)
      case (1)
        call MPI_Waitall(8, requests, statuses, ierr)
        do i = 1, 4
          call digested(SOURCE_AT(statuses, i))
          call digested(TAG_AT(statuses, i))
        end do
      case (2)
        call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE, ierr)
      case (3)
        do i = 1, 8
          call MPI_Waitany(8, requests, index, status, ierr)
          found = found + 1
        end do
        ! There is none any more; MPICH's mpif.h makes MPI_UNDEFINED + 1 of the index.
        call MPI_Waitany(8, requests, index, status, ierr)
      case (4)
        all_found = 0
        do while (all_found < 8)
          call MPI_Waitsome(8, requests, count, indices, statuses, ierr)
          all_found = all_found + count
        end do
      case (5)
        done = .false.
        do while (.not. done)
          call MPI_Testall(8, requests, done, statuses, ierr)
        end do
        found = TAG_AT(statuses, 4)
      case (6)
        all_found = 0
        do while (all_found < 8)
          call MPI_Testany(8, requests, index, done, MPI_STATUS_IGNORE, ierr)
          if (.not. done) cycle
          all_found = all_found + 1
        end do
      case (7)
        all_found = 0
        do while (all_found < 8)
          call MPI_Testsome(8, requests, count, indices, MPI_STATUSES_IGNORE, ierr)
          all_found = all_found + count
        end do
      case (8)
        call MPI_Waitall(4, requests(1:4), statuses, ierr)
        call MPI_Waitsome(4, requests(5:8), count, indices, MPI_STATUSES_IGNORE, ierr)
        call MPI_Waitall(4, requests(5:8), MPI_STATUSES_IGNORE, ierr)
      end select
      call digested(found)
      call digested(in(1, 4))
    end do
    call MPI_Waitall(0, requests, statuses, ierr)
  end subroutine

  subroutine persistent()
    integer :: out(50), in(50), round
    MANY_STATUSES(statuses, 2)
    HANDLE(MPI_Request) :: requests(2)
    call MPI_Send_init(out, 40, MPI_INTEGER, right, 20, world, requests(1), ierr)
    call MPI_Recv_init(in, 50, MPI_INTEGER, left, 20, world, requests(2), ierr)
    do round = 1, 3
      out = rank * round
      if (round == 2) then
        call MPI_Start(requests(1), ierr)
        call MPI_Start(requests(2), ierr)
      else
        call MPI_Startall(2, requests, ierr)
      end if
      call MPI_Waitall(2, requests, statuses, ierr)
      call digested(in(40))
      call digested(SOURCE_AT(statuses, 2))
    end do
    call MPI_Request_free(requests(1), ierr)
    call MPI_Request_free(requests(2), ierr)
    if (requests(2) == MPI_REQUEST_NULL) call digested(2)
  end subroutine

  subroutine probed()
    integer :: out(10), in(100)
    logical :: found
    ONE_STATUS(status)
    HANDLE(MPI_Request) :: sending(4), receiving
    HANDLE(MPI_Message) :: message
    out = rank + 4
    do i = 1, 4
      call MPI_Isend(out, 2 * i, MPI_INTEGER, right, 30 + i, world, sending(i), ierr)
    end do
    call MPI_Probe(left, 31, world, status, ierr)
    call digested_status(status)
    call MPI_Recv(in, 100, MPI_INTEGER, SOURCE_OF(status), 31, world, MPI_STATUS_IGNORE, ierr)
    found = .false.
    do while (.not. found)
      call MPI_Iprobe(MPI_ANY_SOURCE, 32, world, found, MPI_STATUS_IGNORE, ierr)
    end do
    call MPI_Recv(in, 100, MPI_INTEGER, left, 32, world, status, ierr)
    call digested_status(status)
    call MPI_Mprobe(MPI_ANY_SOURCE, 33, world, message, status, ierr)
    call digested_status(status)
    call MPI_Mrecv(in, 100, MPI_INTEGER, message, MPI_STATUS_IGNORE, ierr)
    if (message == MPI_MESSAGE_NULL) call digested(in(6))
    found = .false.
    do while (.not. found)
      call MPI_Improbe(left, 34, world, found, message, MPI_STATUS_IGNORE, ierr)
    end do
    call MPI_Imrecv(in, 100, MPI_INTEGER, message, receiving, ierr)
    call MPI_Wait(receiving, status, ierr)
    call digested_status(status)
    call MPI_Waitall(4, sending, MPI_STATUSES_IGNORE, ierr)
  end subroutine

  subroutine cancelled()
    integer :: in(10)
    logical :: really
    ONE_STATUS(status)
    HANDLE(MPI_Request) :: receiving
    call MPI_Irecv(in, 10, MPI_INTEGER, left, 40, world, receiving, ierr)
    call MPI_Cancel(receiving, ierr)
    call MPI_Wait(receiving, status, ierr)
    call MPI_Test_cancelled(status, really, ierr)
    if (really) call digested(3)
  end subroutine

  ! Two variables sent as one, by their addresses.
  subroutine absolute()
    integer, target, asynchronous :: whole(4)
    real(kind(1d0)), target, asynchronous :: part(3)
    integer(kind=MPI_ADDRESS_KIND) :: addresses(2)
    integer :: lengths(2)
    HANDLE(MPI_Datatype) :: types(2), both
    ONE_STATUS(status)
    whole = rank + 5
    part = rank + 6
    call MPI_Get_address(whole, addresses(1), ierr)
    call MPI_Get_address(part, addresses(2), ierr)
    lengths = [4, 3]
    types(1) = MPI_INTEGER
    types(2) = MPI_DOUBLE_PRECISION
    call MPI_Type_create_struct(2, lengths, addresses, types, both, ierr)
    call MPI_Type_commit(both, ierr)
    call MPI_Sendrecv_replace(MPI_BOTTOM, 1, both, right, 50, left, 50, world, status, ierr)
    call digested(whole(4))
    call digested(int(part(3)))
    call MPI_Bcast(MPI_BOTTOM, 1, both, 0, world, ierr)
    call digested(whole(1))
    call MPI_Type_free(both, ierr)
  end subroutine

  ! Parts of arrays: with mpi_f08 the MPI may get a descriptor of them.
  subroutine strided()
    integer :: out(20), in(20)
    out = [(rank + i, i = 1, 20)]
    in = 0
    if (rank == 0) then
      call MPI_Send(out(1:19:2), 10, MPI_INTEGER, right, 60, world, ierr)
      call MPI_Recv(in(2:20:2), 10, MPI_INTEGER, left, 60, world, MPI_STATUS_IGNORE, ierr)
    else
      call MPI_Recv(in(2:20:2), 10, MPI_INTEGER, left, 60, world, MPI_STATUS_IGNORE, ierr)
      call MPI_Send(out(1:19:2), 10, MPI_INTEGER, right, 60, world, ierr)
    end if
    call digested(sum(in))
#if BINDING == 3
    call MPI_Barrier(world)
    call MPI_Sendrecv(out, 1, MPI_INTEGER, right, 61, in, 1, MPI_INTEGER, left, 61, world, MPI_STATUS_IGNORE)
#else
    call MPI_Barrier(world, ierr)
    call MPI_Sendrecv(out, 1, MPI_INTEGER, right, 61, in, 1, MPI_INTEGER, left, 61, world, MPI_STATUS_IGNORE, ierr)
#endif
  end subroutine

  ! What fails is told, and does not end the program.
  subroutine errors()
    integer :: code, class, length
    character(len=MPI_MAX_ERROR_STRING) :: message
    integer :: in(1)
    HANDLE(MPI_Errhandler) :: handler
    call MPI_Comm_get_errhandler(world, handler, ierr)
    call MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN, ierr)
    call MPI_Recv(in, -1, MPI_INTEGER, left, 70, world, MPI_STATUS_IGNORE, code)
    call MPI_Error_class(code, class, ierr)
    if (class == MPI_ERR_COUNT) call digested(4)
    call MPI_Error_string(class, message, length, ierr)
    call digested(len_trim(message) - length)
    call MPI_Comm_set_errhandler(world, handler, ierr)
  end subroutine
end program
