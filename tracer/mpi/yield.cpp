// SPDX-License-Identifier: BSD-3-Clause
// The program's and its MPI's yields and sleeps. A thread that measures itself cannot tell yields from preemptions (kmodule/perf,
// kmodule/proc); and in an MPI call that lasts, the noise is taken from the ring before that is full: MPIs wait by one of these.
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "core/process.hpp"

namespace {

// Within MPI calls alone: no thread's noise ends while it is in one.
void put_noise_aside() {
    const polter::mpi::Thread& thread = polter::mpi::thread;
    if (thread.feed && thread.depth > 0) thread.feed->put_aside();
}

// As the C library's; not noexcept, since the thread may be cancelled here.
int sleep_for(const timespec* time, timespec* left) {
    put_noise_aside();
    const int error = clock_nanosleep(CLOCK_REALTIME, 0, time, left);
    if (error == 0) return 0;
    errno = error;
    return -1;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int sched_yield() noexcept {
    put_noise_aside();
    return polter_noise_yield(polter::mpi::thread.noise);
}

__attribute__((visibility("default"))) int nanosleep(const timespec* time, timespec* left) {
    return sleep_for(time, left);
}

__attribute__((visibility("default"))) int usleep(useconds_t microseconds) {
    const timespec time{static_cast<time_t>(microseconds / 1'000'000), static_cast<long>(microseconds % 1'000'000) * 1000};
    return sleep_for(&time, nullptr);
}
}
