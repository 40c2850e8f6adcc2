! SPDX-License-Identifier: BSD-3-Clause
! Each thread of a region takes a lock, a nestable lock twice, and tests both until it has them. Ends with 1 if the sums are wrong.
program openmp_locks
  use mpi
  use omp_lib
  implicit none
  integer, parameter :: times = 10
  integer(omp_lock_kind) :: lock
  integer(omp_nest_lock_kind) :: nested
  integer :: i, error, under_lock, under_nested
  under_lock = 0
  under_nested = 0
  call MPI_Init(error)
  call omp_init_lock(lock)
  call omp_init_nest_lock(nested)
  !$omp parallel do num_threads(3) schedule(static) shared(lock, nested, under_lock, under_nested)
  do i = 1, 3 * times
    call omp_set_lock(lock)
    under_lock = under_lock + 1
    call omp_unset_lock(lock)
    call omp_set_nest_lock(nested)
    call omp_set_nest_lock(nested)
    under_nested = under_nested + 1
    call omp_unset_nest_lock(nested)
    call omp_unset_nest_lock(nested)
    do while (.not. omp_test_lock(lock))
    end do
    under_lock = under_lock + 1
    call omp_unset_lock(lock)
    do while (omp_test_nest_lock(nested) == 0)
    end do
    under_nested = under_nested + 1
    call omp_unset_nest_lock(nested)
  end do
  !$omp end parallel do
  call omp_destroy_lock(lock)
  call omp_destroy_nest_lock(nested)
  call MPI_Finalize(error)
  if (under_lock /= 6 * times .or. under_nested /= 6 * times) stop 1
end program
