! SPDX-License-Identifier: BSD-3-Clause
! Conjugate gradients on a sparse matrix that is cut into blocks, as the NAS kernel CG communicates: sums along the rows of processes by
! exchanges in halves, a transpose exchange, dot products along rows. 1, 2 or 4 processes. Rank 0 prints the bits of what came out, after
! all have seen that it solves the system.
#include "bindings.h"
program cg
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer, parameter :: double = kind(1d0), long = selected_int_kind(18), n = 240, iterations = 25
  integer :: rank, ranks, ierr, rows, columns, row, column, first_row, first_column, height, width, transposed, i
  integer, allocatable :: start(:), at(:)
  real(double), allocatable :: a(:), p(:), q(:), r(:), x(:), z(:)
  real(double) :: rho, rho_before, alpha, error
  HANDLE(MPI_Comm) :: world, row_comm

  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  rows = merge(2, 1, ranks == 4)
  columns = ranks / rows
  if (rows * columns /= ranks .or. ranks > 4 .or. ranks == 3) call MPI_Abort(world, 2, ierr)
  row = rank / columns
  column = mod(rank, columns)
  height = n / rows
  width = n / columns
  first_row = row * height
  first_column = column * width
  transposed = merge(column * columns + row, rank, rows == columns)
  call MPI_Comm_split(world, row, column, row_comm, ierr)
  call make_matrix()

  allocate(p(width), q(width), r(width), x(width), z(width))
  x = [(1 + mod(first_column + i, 7), i = 1, width)]
  z = 0
  r = x
  p = r
  rho = dot(r, r)
  do i = 1, iterations
    call multiply(p, q)
    alpha = rho / dot(p, q)
    z = z + alpha * p
    r = r - alpha * q
    rho_before = rho
    rho = dot(r, r)
    p = r + (rho / rho_before) * p
  end do

  call multiply(z, q)
  error = sqrt(dot(x - q, x - q) / dot(x, x))
  if (.not. error < 1d-10) then
    print *, 'rank', rank, 'is off by', error
    call MPI_Abort(world, 1, ierr)
  end if
  rho = dot(x, z)
  if (rank == 0) print '(a, z16.16)', 'solved ', transfer(rho, 1_long)
  call MPI_Comm_free(row_comm, ierr)
  call MPI_Finalize(ierr)

contains

  ! Symmetric, one element in sixteen, the diagonal above the sum of its row; this process's block of it, by rows.
  subroutine make_matrix()
    integer :: i, j, k, low, high, draw
    allocate(start(height + 1), at(height * width), a(height * width))
    k = 0
    do i = 1, height
      start(i) = k + 1
      do j = 1, width
        low = min(first_row + i, first_column + j)
        high = max(first_row + i, first_column + j)
        draw = mod(low * 7919 + high * 104729, 997)
        if (low == high) then
          k = k + 1
          a(k) = n / 8
        else if (mod(draw, 16) == 3) then
          k = k + 1
          a(k) = (draw - 498) / 1000d0
        else
          cycle
        end if
        at(k) = j
      end do
    end do
    start(height + 1) = k + 1
  end subroutine

  ! of = A v: both by columns, alike in all processes of a column.
  subroutine multiply(v, of)
    real(double), intent(in) :: v(width)
    real(double), intent(out) :: of(width)
    real(double) :: w(height), other(height), sum
    integer :: step, partner, i, k
    HANDLE(MPI_Request) :: request
    do i = 1, height
      sum = 0
      do k = start(i), start(i + 1) - 1
        sum = sum + a(k) * v(at(k))
      end do
      w(i) = sum
    end do
    step = 1
    do while (step < columns)
      partner = ieor(column, step)
      call MPI_Irecv(other, height, MPI_DOUBLE_PRECISION, partner, step, row_comm, request, ierr)
      call MPI_Send(w, height, MPI_DOUBLE_PRECISION, partner, step, row_comm, ierr)
      call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
      w = w + other
      step = step * 2
    end do
    call MPI_Irecv(of, width, MPI_DOUBLE_PRECISION, transposed, 9, world, request, ierr)
    call MPI_Send(w(merge(first_column + 1, 1, rows == 1)), width, MPI_DOUBLE_PRECISION, transposed, 9, world, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  end subroutine

  real(double) function dot(v, w)
    real(double), intent(in) :: v(width), w(width)
    real(double) :: mine
    mine = sum(v * w)
    call MPI_Allreduce(mine, dot, 1, MPI_DOUBLE_PRECISION, MPI_SUM, row_comm, ierr)
  end function
end program
