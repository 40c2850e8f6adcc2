! SPDX-License-Identifier: BSD-3-Clause
! Symmetric Gauss-Seidel sweeps over a box that is cut into columns of cells, as the NAS kernel LU communicates: plane by plane, each
! process waits for its two neighbours upstream, with a message of some cells each, and sends on to the two downstream. All see that the
! outcome is what one process alone computes; rank 0 prints its bits.
#include "bindings.h"
program lu
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer, parameter :: double = kind(1d0), long = selected_int_kind(18), n = 12, planes = 10, sweeps = 6
  integer :: rank, ranks, ierr, dims(2), coords(2), west, east, north, south, nx, ny, x0, y0, i, j, sweep
  logical :: periods(2)
  real(double), allocatable :: u(:, :, :), whole(:, :, :)
  real(double) :: error, worst, total, mine
  HANDLE(MPI_Comm) :: grid

  call MPI_Init(ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  dims = 0
  periods = .false.
  call MPI_Dims_create(ranks, 2, dims, ierr)
  if (mod(n, dims(1)) /= 0 .or. mod(n, dims(2)) /= 0) call MPI_Abort(MPI_COMM_WORLD, 2, ierr)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, .false., grid, ierr)
  call MPI_Comm_rank(grid, rank, ierr)
  call MPI_Cart_coords(grid, rank, 2, coords, ierr)
  call MPI_Cart_shift(grid, 0, 1, west, east, ierr)
  call MPI_Cart_shift(grid, 1, 1, north, south, ierr)
  nx = n / dims(1)
  ny = n / dims(2)
  x0 = coords(1) * nx
  y0 = coords(2) * ny
  allocate(u(0:nx + 1, 0:ny + 1, 0:planes + 1), whole(0:n + 1, 0:n + 1, 0:planes + 1))
  u = 0
  whole = 0
  do sweep = 1, sweeps
    call forward()
    call backward()
    call alone()
  end do

  mine = sum(u(1:nx, 1:ny, 1:planes))
  error = maxval(abs(u(1:nx, 1:ny, 1:planes) - whole(x0 + 1:x0 + nx, y0 + 1:y0 + ny, 1:planes)))
  call MPI_Allreduce(error, worst, 1, MPI_DOUBLE_PRECISION, MPI_MAX, grid, ierr)
  call MPI_Reduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, grid, ierr)
  if (.not. worst < 1d-12 .or. .not. maxval(whole) > 0.1d0) then
    print *, 'rank', rank, 'is off by', worst
    call MPI_Abort(grid, 1, ierr)
  end if
  if (rank == 0) print '(a, z16.16)', 'swept ', transfer(total, 1_long)
  call MPI_Comm_free(grid, ierr)
  call MPI_Finalize(ierr)

contains

  real(double) function source(x, y, z)
    integer, intent(in) :: x, y, z
    source = mod(x * 3 + y * 5 + z * 7, 11) / 11d0
  end function

  subroutine forward()
    integer :: k
    do k = 1, planes
      call receive_x(west, 0, k)
      call receive_y(north, 0, k)
      do j = 1, ny
        do i = 1, nx
          u(i, j, k) = (source(x0 + i, y0 + j, k) + u(i - 1, j, k) + u(i + 1, j, k) + u(i, j - 1, k) + u(i, j + 1, k) &
                        + u(i, j, k - 1) + u(i, j, k + 1)) / 6
        end do
      end do
      call send_x(east, nx, k)
      call send_y(south, ny, k)
    end do
  end subroutine

  subroutine backward()
    integer :: k
    do k = planes, 1, -1
      call receive_x(east, nx + 1, k)
      call receive_y(south, ny + 1, k)
      do j = ny, 1, -1
        do i = nx, 1, -1
          u(i, j, k) = (source(x0 + i, y0 + j, k) + u(i - 1, j, k) + u(i + 1, j, k) + u(i, j - 1, k) + u(i, j + 1, k) &
                        + u(i, j, k - 1) + u(i, j, k + 1)) / 6
        end do
      end do
      call send_x(west, 1, k)
      call send_y(north, 1, k)
    end do
  end subroutine

  subroutine send_x(to, at, k)
    integer, intent(in) :: to, at, k
    real(double) :: cells(ny)
    if (to == MPI_PROC_NULL) return
    cells = u(at, 1:ny, k)
    call MPI_Send(cells, ny, MPI_DOUBLE_PRECISION, to, k, grid, ierr)
  end subroutine

  ! To and from nobody as well: it is for MPI to see that there is none.
  subroutine send_y(to, at, k)
    integer, intent(in) :: to, at, k
    call MPI_Send(u(1, at, k), nx, MPI_DOUBLE_PRECISION, to, planes + k, grid, ierr)
  end subroutine

  subroutine receive_x(from, at, k)
    integer, intent(in) :: from, at, k
    real(double) :: cells(ny)
    ONE_STATUS(status)
    if (from == MPI_PROC_NULL) return
    call MPI_Recv(cells, ny, MPI_DOUBLE_PRECISION, from, k, grid, status, ierr)
    u(at, 1:ny, k) = cells
  end subroutine

  subroutine receive_y(from, at, k)
    integer, intent(in) :: from, at, k
    call MPI_Recv(u(1, at, k), nx, MPI_DOUBLE_PRECISION, from, planes + k, grid, MPI_STATUS_IGNORE, ierr)
  end subroutine

  ! The same two sweeps over the whole box.
  subroutine alone()
    integer :: x, y, z, turn, step
    do turn = 0, 1
      step = 1 - 2 * turn
      do z = merge(planes, 1, turn == 1), merge(1, planes, turn == 1), step
        do y = merge(n, 1, turn == 1), merge(1, n, turn == 1), step
          do x = merge(n, 1, turn == 1), merge(1, n, turn == 1), step
            whole(x, y, z) = (source(x, y, z) + whole(x - 1, y, z) + whole(x + 1, y, z) + whole(x, y - 1, z) &
                              + whole(x, y + 1, z) + whole(x, y, z - 1) + whole(x, y, z + 1)) / 6
          end do
        end do
      end do
    end do
  end subroutine
end program
