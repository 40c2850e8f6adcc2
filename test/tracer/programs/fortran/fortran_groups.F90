! SPDX-License-Identifier: BSD-3-Clause
! Collectives, communicators, windows and texts of a Fortran program, in any binding. Rank 0 prints one number for each rank, of all
! that the rank received.
#include "bindings.h"
program groups
  USE_MPI
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

  call collectives()
  call in_place()
  call nonblocking()
  call communicators()
  call windows()
  call texts()

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

  ! counts(i) = i for rank i - 1, one behind the other
  subroutine of_each(counts, places)
    integer, intent(out) :: counts(ranks), places(ranks)
    counts = [(i, i = 1, ranks)]
    places = [(i * (i - 1) / 2, i = 1, ranks)]
  end subroutine

  subroutine collectives()
    integer :: one(100), all(1000), counts(ranks), places(ranks), bytes(ranks)
    HANDLE(MPI_Datatype) :: types(ranks)
    one = [(rank + i, i = 1, 100)]
    all = 0
    call of_each(counts, places)
    call MPI_Barrier(world, ierr)
    call MPI_Bcast(one, 10, MPI_INTEGER, ranks - 1, world, ierr)
    call digested(one(10))
    call MPI_Gather(one, 3, MPI_INTEGER, all, 3, MPI_INTEGER, 0, world, ierr)
    call digested(sum(all))
    call MPI_Gatherv(one, rank + 1, MPI_INTEGER, all, counts, places, MPI_INTEGER, 1, world, ierr)
    call digested(sum(all))
    call MPI_Scatter(all, 3, MPI_INTEGER, one, 3, MPI_INTEGER, 0, world, ierr)
    call digested(one(3))
    call MPI_Scatterv(all, counts, places, MPI_INTEGER, one, rank + 1, MPI_INTEGER, 0, world, ierr)
    call digested(one(1))
    call MPI_Allgather(one, 4, MPI_INTEGER, all, 4, MPI_INTEGER, world, ierr)
    call digested(sum(all))
    call MPI_Allgatherv(one, rank + 1, MPI_INTEGER, all, counts, places, MPI_INTEGER, world, ierr)
    call digested(sum(all))
    call MPI_Alltoall(one, 5, MPI_INTEGER, all, 5, MPI_INTEGER, world, ierr)
    call digested(sum(all))
    call MPI_Alltoallv(one, [(rank + 1, i = 1, ranks)], places, MPI_INTEGER, all, counts, places, MPI_INTEGER, world, ierr)
    call digested(sum(all))
    types = MPI_INTEGER
    bytes = 4 * places
    call MPI_Alltoallw(one, [(rank + 1, i = 1, ranks)], bytes, types, all, counts, bytes, types, world, ierr)
    call digested(sum(all))
    call MPI_Reduce(one, all, 6, MPI_INTEGER, MPI_SUM, 0, world, ierr)
    call digested(all(6))
    call MPI_Allreduce(one, all, 7, MPI_INTEGER, MPI_MAX, world, ierr)
    call digested(all(7))
    call MPI_Reduce_scatter(one, all, counts, MPI_INTEGER, MPI_SUM, world, ierr)
    call digested(all(1))
    call MPI_Reduce_scatter_block(one, all, 2, MPI_INTEGER, MPI_SUM, world, ierr)
    call digested(all(2))
    call MPI_Scan(one, all, 8, MPI_INTEGER, MPI_SUM, world, ierr)
    call digested(all(8))
    call MPI_Exscan(one, all, 9, MPI_INTEGER, MPI_SUM, world, ierr)
    call digested(all(9))
  end subroutine

  subroutine in_place()
    integer :: all(1000), nothing(1), counts(ranks), places(ranks), bytes(ranks)
    HANDLE(MPI_Datatype) :: types(ranks)
    all = rank
    call of_each(counts, places)
    call MPI_Allreduce(MPI_IN_PLACE, all, 10, MPI_INTEGER, MPI_SUM, world, ierr)
    call digested(all(10))
    if (rank == 0) then
      call MPI_Reduce(MPI_IN_PLACE, all, 11, MPI_INTEGER, MPI_SUM, 0, world, ierr)
      call MPI_Gather(MPI_IN_PLACE, 0, MPI_INTEGER, all, 2, MPI_INTEGER, 0, world, ierr)
      call MPI_Gatherv(MPI_IN_PLACE, 0, MPI_INTEGER, all, counts, places, MPI_INTEGER, 0, world, ierr)
      call MPI_Scatter(all, 2, MPI_INTEGER, MPI_IN_PLACE, 0, MPI_INTEGER, 0, world, ierr)
      call MPI_Scatterv(all, counts, places, MPI_INTEGER, MPI_IN_PLACE, 0, MPI_INTEGER, 0, world, ierr)
    else
      call MPI_Reduce(all, nothing, 11, MPI_INTEGER, MPI_SUM, 0, world, ierr)
      call MPI_Gather(all, 2, MPI_INTEGER, nothing, 0, MPI_INTEGER, 0, world, ierr)
      call MPI_Gatherv(all, rank + 1, MPI_INTEGER, nothing, counts, places, MPI_INTEGER, 0, world, ierr)
      call MPI_Scatter(nothing, 0, MPI_INTEGER, all, 2, MPI_INTEGER, 0, world, ierr)
      call MPI_Scatterv(nothing, counts, places, MPI_INTEGER, all, rank + 1, MPI_INTEGER, 0, world, ierr)
    end if
    call digested(all(2))
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_INTEGER, all, 3, MPI_INTEGER, world, ierr)
    call MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_INTEGER, all, counts, places, MPI_INTEGER, world, ierr)
    call MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INTEGER, all, 4, MPI_INTEGER, world, ierr)
    counts = 2
    places = [(2 * i, i = 1, ranks)]
    call MPI_Alltoallv(MPI_IN_PLACE, counts, places, MPI_INTEGER, all, counts, places, MPI_INTEGER, world, ierr)
    types = MPI_INTEGER
    bytes = 4 * places
    call MPI_Alltoallw(MPI_IN_PLACE, counts, bytes, types, all, counts, bytes, types, world, ierr)
    call digested(sum(all))
    call MPI_Scan(MPI_IN_PLACE, all, 5, MPI_INTEGER, MPI_SUM, world, ierr)
    call MPI_Reduce_scatter_block(MPI_IN_PLACE, all, 2, MPI_INTEGER, MPI_MAX, world, ierr)
    call digested(all(1))
  end subroutine

  subroutine nonblocking()
    integer :: one(100), all(1000), sums(10)
    HANDLE(MPI_Request) :: requests(5)
    one = rank + 1
    sums = rank
    call MPI_Ibarrier(world, requests(1), ierr)
    call MPI_Ibcast(one, 12, MPI_INTEGER, 0, world, requests(2), ierr)
    call MPI_Iallreduce(MPI_IN_PLACE, sums, 10, MPI_INTEGER, MPI_SUM, world, requests(3), ierr)
    call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE, ierr)
    call digested(one(12))
    call digested(sums(10))
    call MPI_Ialltoall(one, 2, MPI_INTEGER, all, 2, MPI_INTEGER, world, requests(4), ierr)
    call MPI_Igather(sums, 3, MPI_INTEGER, all(500), 3, MPI_INTEGER, ranks - 1, world, requests(5), ierr)
    call MPI_Wait(requests(5), MPI_STATUS_IGNORE, ierr)
    call MPI_Wait(requests(4), MPI_STATUS_IGNORE, ierr)
    call digested(sum(all(1:2 * ranks)))
  end subroutine

  subroutine communicators()
    integer :: part_rank, other, length, place(1)
    integer :: leader
    logical :: inter
    character(len=MPI_MAX_OBJECT_NAME) :: name
    HANDLE(MPI_Comm) :: part, copy, ring, between, merged, later, created
    HANDLE(MPI_Group) :: everybody, some
    HANDLE(MPI_Request) :: request
    call MPI_Comm_split(world, mod(rank, 2), -rank, part, ierr)
    call MPI_Comm_set_name(part, 'even and odd   ', ierr)
    call MPI_Comm_get_name(part, name, length, ierr)
    call digested(length)
    if (name == 'even and odd') call digested(5)
    call MPI_Comm_rank(part, part_rank, ierr)
    call MPI_Bcast(part_rank, 1, MPI_INTEGER, 0, part, ierr)
    call digested(part_rank)

    call MPI_Comm_dup(world, copy, ierr)
    call MPI_Sendrecv(rank, 1, MPI_INTEGER, right, 1, other, 1, MPI_INTEGER, left, 1, copy, MPI_STATUS_IGNORE, ierr)
    call digested(other)
    call MPI_Comm_idup(world, later, request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call MPI_Barrier(later, ierr)
    call MPI_Cart_create(world, 1, [ranks], [.true.], .false., ring, ierr)
    call MPI_Cart_coords(ring, rank, 1, place, ierr)
    call digested(place(1))
    call MPI_Barrier(ring, ierr)

    call MPI_Comm_group(world, everybody, ierr)
    call MPI_Group_incl(everybody, 1, [0], some, ierr)
    call MPI_Comm_create(world, some, created, ierr)
    if (created /= MPI_COMM_NULL) then
      call MPI_Barrier(created, ierr)
      call MPI_Comm_free(created, ierr)
    end if
    call MPI_Group_free(some, ierr)
    call MPI_Group_free(everybody, ierr)

    ! The other side's leader is its rank 0, which the split has made of its highest rank of world.
    leader = ranks - 1
    if (mod(leader, 2) == mod(rank, 2)) leader = leader - 1
    call MPI_Intercomm_create(part, 0, world, leader, 9, between, ierr)
    call MPI_Comm_test_inter(between, inter, ierr)
    if (inter) call digested(6)
    call MPI_Allreduce(rank, other, 1, MPI_INTEGER, MPI_SUM, between, ierr)
    call digested(other)
    call MPI_Intercomm_merge(between, mod(rank, 2) == 1, merged, ierr)
    call MPI_Allreduce(rank, other, 1, MPI_INTEGER, MPI_SUM, merged, ierr)
    call digested(other)

    call MPI_Comm_free(merged, ierr)
    call MPI_Comm_free(between, ierr)
    call MPI_Comm_free(ring, ierr)
    call MPI_Comm_free(later, ierr)
    call MPI_Comm_free(copy, ierr)
    call MPI_Comm_free(part, ierr)
    if (part == MPI_COMM_NULL) call digested(7)
  end subroutine

  subroutine windows()
    integer, target, asynchronous :: mine(10), got(10), also(10)
    integer(kind=MPI_ADDRESS_KIND) :: bytes, place
    HANDLE(MPI_Win) :: win
    HANDLE(MPI_Request) :: transfer
    mine = rank
    got = -1
    bytes = 40
    place = 0
    call MPI_Win_create(mine, bytes, 4, MPI_INFO_NULL, world, win, ierr)
    call MPI_Win_set_name(win, 'halo', ierr)
    call MPI_Win_fence(0, win, ierr)
    call MPI_Get(got, 10, MPI_INTEGER, right, place, 10, MPI_INTEGER, win, ierr)
    call MPI_Win_fence(0, win, ierr)
    call digested(got(10))
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, left, 0, win, ierr)
    call MPI_Rget(also, 5, MPI_INTEGER, left, place, 5, MPI_INTEGER, win, transfer, ierr)
    call MPI_Wait(transfer, MPI_STATUS_IGNORE, ierr)
    call digested(also(5))
    call MPI_Put(got, 5, MPI_INTEGER, left, place, 5, MPI_INTEGER, win, ierr)
    call MPI_Win_unlock(left, win, ierr)
    call MPI_Barrier(world, ierr)
    call digested(mine(1))
    call MPI_Win_free(win, ierr)
  end subroutine

  ! Texts have lengths that no C programmer sees.
  subroutine texts()
    character(len=20) :: value
    character(len=MPI_MAX_PROCESSOR_NAME) :: name
    integer :: length
    logical :: there
    HANDLE(MPI_Info) :: info
    call MPI_Info_create(info, ierr)
    call MPI_Info_set(info, 'first', 'one and two', ierr)
    call MPI_Info_get(info, 'first', 20, value, there, ierr)
    if (there .and. value == 'one and two') call digested(8)
    call MPI_Info_free(info, ierr)
    name = ''
    call MPI_Get_processor_name(name, length, ierr)
    call digested(len_trim(name) - length)
    call MPI_Type_set_name(MPI_INTEGER, 'number', ierr)
    call MPI_Type_get_name(MPI_INTEGER, name, length, ierr)
    call digested(length)
  end subroutine
end program
