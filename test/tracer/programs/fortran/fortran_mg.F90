! SPDX-License-Identifier: BSD-3-Clause
! Multigrid V-cycles for Poisson's equation on a periodic square, as the NAS kernel MG communicates: on each level halos go around by
! Sendrecv, columns of cells as they lie, rows as vector datatypes; norms by Allreduce. All see that the residual vanishes; rank 0 prints
! the bits of what is left of it and of the solution.
#include "bindings.h"
program mg
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer, parameter :: double = kind(1d0), long = selected_int_kind(18), cycles = 4, coarsest = 4
  integer :: ranks, rank, ierr, dims(2), coords(2), west, east, north, south, n, cycle_number
  logical :: periods(2)
  real(double), allocatable :: u(:, :), f(:, :), rest(:, :)
  real(double) :: first, left, sums(2), all(2)
  HANDLE(MPI_Comm) :: grid

  call MPI_Init(ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  dims = 0
  periods = .true.
  call MPI_Dims_create(ranks, 2, dims, ierr)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, .true., grid, ierr)
  call MPI_Comm_rank(grid, rank, ierr)
  call MPI_Cart_coords(grid, rank, 2, coords, ierr)
  call MPI_Cart_shift(grid, 0, 1, west, east, ierr)
  call MPI_Cart_shift(grid, 1, 1, north, south, ierr)
  n = 32  ! of each process, in both directions
  allocate(u(0:n + 1, 0:n + 1), f(0:n + 1, 0:n + 1), rest(0:n + 1, 0:n + 1))
  u = 0
  f = 0
  f(3, 5) = 1
  f(n - 6, n - 1) = -1
  first = norm(f)
  do cycle_number = 1, cycles
    call v_cycle(u, f, n)
  end do
  call residual(u, f, n, rest)
  left = norm(rest)
  if (.not. left < first / 1000) then
    print *, 'rank', rank, 'has left', left, 'of', first
    call MPI_Abort(grid, 1, ierr)
  end if
  sums = [sum(u(1:n, 1:n)**2), u(3, 5)]
  call MPI_Allreduce(sums, all, 2, MPI_DOUBLE_PRECISION, MPI_SUM, grid, ierr)
  if (rank == 0) print '(a, 3(1x, z16.16))', 'left', transfer(left, 1_long), transfer(all(1), 1_long), transfer(all(2), 1_long)
  call MPI_Comm_free(grid, ierr)
  call MPI_Finalize(ierr)

contains

  subroutine exchange(v, m)
    integer, intent(in) :: m
    real(double), intent(inout) :: v(0:m + 1, 0:m + 1)
    HANDLE(MPI_Datatype) :: one_row
    ONE_STATUS(status)
    call MPI_Type_vector(m, 1, m + 2, MPI_DOUBLE_PRECISION, one_row, ierr)
    call MPI_Type_commit(one_row, ierr)
    call MPI_Sendrecv(v(m, 1), 1, one_row, east, 1, v(0, 1), 1, one_row, west, 1, grid, status, ierr)
    call MPI_Sendrecv(v(1, 1), 1, one_row, west, 2, v(m + 1, 1), 1, one_row, east, 2, grid, MPI_STATUS_IGNORE, ierr)
    call MPI_Type_free(one_row, ierr)
    call MPI_Sendrecv(v(1, m), m, MPI_DOUBLE_PRECISION, south, 3, v(1, 0), m, MPI_DOUBLE_PRECISION, north, 3, grid, &
                      MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(v(1, 1), m, MPI_DOUBLE_PRECISION, north, 4, v(1, m + 1), m, MPI_DOUBLE_PRECISION, south, 4, grid, &
                      MPI_STATUS_IGNORE, ierr)
  end subroutine

  subroutine residual(v, g, m, r)
    integer, intent(in) :: m
    real(double), intent(inout) :: v(0:m + 1, 0:m + 1)
    real(double), intent(in) :: g(0:m + 1, 0:m + 1)
    real(double), intent(out) :: r(0:m + 1, 0:m + 1)
    call exchange(v, m)
    r = 0
    r(1:m, 1:m) = g(1:m, 1:m) - 4 * v(1:m, 1:m) + v(0:m - 1, 1:m) + v(2:m + 1, 1:m) + v(1:m, 0:m - 1) + v(1:m, 2:m + 1)
  end subroutine

  subroutine smooth(v, g, m, times)
    integer, intent(in) :: m, times
    real(double), intent(inout) :: v(0:m + 1, 0:m + 1)
    real(double), intent(in) :: g(0:m + 1, 0:m + 1)
    real(double) :: r(0:m + 1, 0:m + 1)
    integer :: i
    do i = 1, times
      call residual(v, g, m, r)
      v = v + r / 5  ! Jacobi's, damped by 4/5
    end do
  end subroutine

  recursive subroutine v_cycle(v, g, m)
    integer, intent(in) :: m
    real(double), intent(inout) :: v(0:m + 1, 0:m + 1)
    real(double), intent(in) :: g(0:m + 1, 0:m + 1)
    real(double), allocatable :: r(:, :), coarse(:, :), correction(:, :)
    integer :: half, i, j
    if (m <= coarsest) then
      call smooth(v, g, m, 12)
      return
    end if
    call smooth(v, g, m, 2)
    half = m / 2
    allocate(r(0:m + 1, 0:m + 1), coarse(0:half + 1, 0:half + 1), correction(0:half + 1, 0:half + 1))
    call residual(v, g, m, r)
    coarse = 0
    correction = 0
    coarse(1:half, 1:half) = r(1:m:2, 1:m:2) + r(2:m:2, 1:m:2) + r(1:m:2, 2:m:2) + r(2:m:2, 2:m:2)
    call v_cycle(correction, coarse, half)
    do j = 1, m
      do i = 1, m
        v(i, j) = v(i, j) + correction((i + 1) / 2, (j + 1) / 2)
      end do
    end do
    call smooth(v, g, m, 2)
  end subroutine

  real(double) function norm(v)
    real(double), intent(in) :: v(0:, 0:)
    real(double) :: mine, sum_of_all
    integer :: m
    m = ubound(v, 1) - 1
    mine = sum(v(1:m, 1:m)**2)
    call MPI_Allreduce(mine, sum_of_all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, grid, ierr)
    norm = sqrt(sum_of_all)
  end function
end program
