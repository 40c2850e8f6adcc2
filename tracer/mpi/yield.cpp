// SPDX-License-Identifier: BSD-3-Clause
// The program's and its MPI's yields: a thread that measures itself cannot tell them from preemptions (kmodule/perf, kmodule/proc).
#include <sched.h>

#include "process.hpp"

extern "C" __attribute__((visibility("default"))) int sched_yield() noexcept {
    return polter_noise_yield(polter::mpi::thread.noise);
}
