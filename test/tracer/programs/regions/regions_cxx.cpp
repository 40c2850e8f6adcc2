// SPDX-License-Identifier: BSD-3-Clause
// Regions of a C++ program: "solver" ten times on each rank, left by an exception every second time; "touch" touches 64 pages of its own
// that nobody touched before, once on each rank. "MPI_Alltoall" is a region of rank 0.
#include <mpi.h>
#include <polter.h>
#include <sys/mman.h>

static void solve(int step) {
    POLTER_REGION("solver");
    if (step % 2) throw step;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int caught = 0;
    for (int step = 0; step < 10; step++) {
        try {
            solve(step);
        } catch (int) {
            caught++;
        }
    }
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        POLTER_REGION("MPI_Alltoall");  // a name like any other
    }
    constexpr int pages = 64, page = 4096;
    void* memory = mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    madvise(memory, pages * page, MADV_NOHUGEPAGE);
    {
        POLTER_REGION("touch");
        for (int i = 0; i < pages; i++) static_cast<volatile char*>(memory)[i * page] = 1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return caught == 5 ? 0 : 1;
}
