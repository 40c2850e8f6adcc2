! SPDX-License-Identifier: BSD-3-Clause
! One text for the three Fortran bindings: BINDING is 1 (mpif.h), 2 (mpi) or 3 (mpi_f08).
#if BINDING == 1
#define USE_MPI
#define INCLUDE_MPI include 'mpif.h'
#elif BINDING == 2
#define USE_MPI use mpi
#define INCLUDE_MPI
#else
#define USE_MPI use mpi_f08
#define INCLUDE_MPI
#endif
#if BINDING == 3
#define HANDLE(kind) type(kind)
#define ONE_STATUS(s) type(MPI_Status) :: s
#define MANY_STATUSES(s, n) type(MPI_Status) :: s(n)
#define SOURCE_OF(s) s%MPI_SOURCE
#define TAG_OF(s) s%MPI_TAG
#define SOURCE_AT(s, i) s(i)%MPI_SOURCE
#define TAG_AT(s, i) s(i)%MPI_TAG
#else
#define HANDLE(kind) integer
#define ONE_STATUS(s) integer :: s(MPI_STATUS_SIZE)
#define MANY_STATUSES(s, n) integer :: s(MPI_STATUS_SIZE, n)
#define SOURCE_OF(s) s(MPI_SOURCE)
#define TAG_OF(s) s(MPI_TAG)
#define SOURCE_AT(s, i) s(MPI_SOURCE, i)
#define TAG_AT(s, i) s(MPI_TAG, i)
#endif
