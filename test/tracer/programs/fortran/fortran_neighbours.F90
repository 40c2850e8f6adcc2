! SPDX-License-Identifier: BSD-3-Clause
! Neighbourhood collectives of a Fortran program, in any binding: on a ring, a line, a graph whose ranks send to the next and receive from
! the one before, and one without neighbours. Rank 0 prints one number for each rank, of all that the rank received.
#include "bindings.h"
program neighbours
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer :: rank, ranks, ierr, before, next, i, digest, nobody(1), dims(1)
  integer :: own, two(2), got(2)
  integer, allocatable :: digests(:)
  logical :: around(1)
  HANDLE(MPI_Comm) :: ring, line, graph, apart

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  before = mod(rank + ranks - 1, ranks)
  next = mod(rank + 1, ranks)
  dims = ranks
  around = .true.
  call MPI_Cart_create(MPI_COMM_WORLD, 1, dims, around, .false., ring, ierr)
  around = .false.
  call MPI_Cart_create(MPI_COMM_WORLD, 1, dims, around, .false., line, ierr)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [before], [3], 1, [next], [3], MPI_INFO_NULL, .false., graph, ierr)
  nobody = 0
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, nobody, MPI_UNWEIGHTED, 0, nobody, MPI_UNWEIGHTED, &
                                      MPI_INFO_NULL, .false., apart, ierr)
  digest = rank
  do i = 1, 4
    own = rank * 10 + i
    two = [rank + i, 100 * rank + i]
    got = -1
    call MPI_Neighbor_allgather(own, 1, MPI_INTEGER, got, 1, MPI_INTEGER, ring, ierr)
    call digested(got)
    got = -1
    call MPI_Neighbor_alltoall(two, 1, MPI_INTEGER, got, 1, MPI_INTEGER, ring, ierr)
    call digested(got)
    got = -1
    call MPI_Neighbor_allgather(own, 1, MPI_INTEGER, got, 1, MPI_INTEGER, line, ierr)
    call digested(got)
    got = -1
    call MPI_Neighbor_alltoall(two, 1, MPI_INTEGER, got, 1, MPI_INTEGER, graph, ierr)
    call digested(got)
    if (got(1) /= before + i) call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
    call MPI_Neighbor_allgather(own, 1, MPI_INTEGER, got, 1, MPI_INTEGER, apart, ierr)
  end do
  call MPI_Comm_free(ring, ierr)
  call MPI_Comm_free(line, ierr)
  call MPI_Comm_free(graph, ierr)
  call MPI_Comm_free(apart, ierr)
  allocate(digests(ranks))
  call MPI_Gather(digest, 1, MPI_INTEGER, digests, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0) print *, digests
  call MPI_Finalize(ierr)

contains

  subroutine digested(values)
    integer, intent(in) :: values(2)
    digest = mod(mod(digest * 31 + values(1) + 1000, 1000003) * 31 + values(2) + 1000, 1000003)
  end subroutine
end program
