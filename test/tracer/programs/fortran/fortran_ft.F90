! SPDX-License-Identifier: BSD-3-Clause
! Fourier transforms of a square there and back again, as the NAS kernel FT communicates: each process transforms its columns, and all
! transpose the square by Alltoall. All see that it came back, and that a wave of known direction becomes one point; rank 0 prints the bits
! of a checksum of what was between.
#include "bindings.h"
program ft
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer, parameter :: double = kind(1d0), long = selected_int_kind(18), n = 48, times = 4
  integer :: rank, ranks, ierr, mine, turn, i, j
  complex(double), allocatable :: a(:, :), given(:, :)
  complex(double) :: roots(0:n - 1), part, checksum

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  if (mod(n, ranks) /= 0) call MPI_Abort(MPI_COMM_WORLD, 2, ierr)
  mine = n / ranks
  roots = [(exp(cmplx(0, -2 * acos(-1d0) * i / n, double)), i = 0, n - 1)]
  allocate(a(n, mine), given(n, mine))
  do j = 1, mine
    a(:, j) = [(cmplx(mod(i * 17 + (rank * mine + j) * 29, 101), mod(i * 7 + j, 13), double), i = 1, n)]
  end do
  given = a
  call wave()
  a = given
  checksum = 0
  do turn = 1, times
    call transform(.false.)
    call transpose_all()
    call transform(.false.)
    part = sum(a(1:n:5, :)) / n
    call MPI_Allreduce(part, checksum, 1, MPI_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD, ierr)
    call transform(.true.)
    call transpose_all()
    call transform(.true.)
    call check(maxval(abs(a - given)))
  end do
  if (rank == 0) print '(a, 2(1x, z16.16))', 'between', transfer(real(checksum), 1_long), transfer(aimag(checksum), 1_long)
  call MPI_Finalize(ierr)

contains

  subroutine check(error)
    real(double), intent(in) :: error
    real(double) :: worst
    call MPI_Allreduce(error, worst, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)
    if (worst < 1d-9) return
    print *, 'rank', rank, 'is off by', worst
    call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end subroutine

  ! 3 times around along the columns, 5 times across them.
  subroutine wave()
    complex(double) :: point(n, mine)
    do j = 1, mine
      a(:, j) = [(conjg(roots(mod(3 * i + 5 * (rank * mine + j - 1), n))), i = 0, n - 1)]
    end do
    call transform(.false.)
    call transpose_all()
    call transform(.false.)
    point = 0
    if (rank == 3 / mine) point(5 + 1, mod(3, mine) + 1) = n * n
    call check(maxval(abs(a - point)))
  end subroutine

  subroutine transform(back)
    logical, intent(in) :: back
    complex(double) :: column(0:n - 1), root
    integer :: k, l
    do j = 1, mine
      column = a(:, j)
      do k = 0, n - 1
        a(k + 1, j) = 0
        do l = 0, n - 1
          root = roots(mod(k * l, n))
          if (back) root = conjg(root) / n
          a(k + 1, j) = a(k + 1, j) + column(l) * root
        end do
      end do
    end do
  end subroutine

  subroutine transpose_all()
    complex(double) :: out(mine, mine, ranks), in(mine, mine, ranks)
    integer :: other
    do other = 1, ranks
      out(:, :, other) = transpose(a((other - 1) * mine + 1:other * mine, :))
    end do
    call MPI_Alltoall(out, mine * mine, MPI_DOUBLE_COMPLEX, in, mine * mine, MPI_DOUBLE_COMPLEX, MPI_COMM_WORLD, ierr)
    do other = 1, ranks
      a((other - 1) * mine + 1:other * mine, :) = in(:, :, other)
    end do
  end subroutine
end program
