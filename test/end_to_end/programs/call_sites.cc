// SPDX-License-Identifier: BSD-3-Clause
// A method of a template and a lambda that call MPI.
#include <mpi.h>

namespace halo {
template <typename T>
class Exchange {
  public:
    __attribute__((noinline)) T run(T value) const {
        T sum = 0;
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);  // line: method
        return sum + 1;
    }
};
}  // namespace halo

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    volatile double sum = halo::Exchange<double>().run(1);
    sum = sum + 1;
    MPI_Finalize();
    return 0;
}
