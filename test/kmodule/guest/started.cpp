// SPDX-License-Identifier: BSD-3-Clause
// What a measured process starts is of its job, and a stranger is not.
#include <sys/prctl.h>

#include "guest.hpp"

namespace guest {
namespace {

pid_t burner() {
    return child([] {
        pin(1);
        for (;;) spin(5 * ms);
        return 0;
    });
}

pid_t executes() {
    return child([] {
        execl("/bin/sh", "sh", "-c", "while :; do :; done", nullptr);
        return 127;
    });
}

// Its parent has ended.
pid_t grandchild() {
    int ends[2];
    CHECK(pipe(ends) == 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    CHECK_EQ(in_child([&] {
                 const pid_t pid = executes();
                 return write(ends[1], &pid, sizeof pid) == sizeof pid ? 0 : 1;
             }),
             0);
    pid_t pid = -1;
    CHECK(read(ends[0], &pid, sizeof pid) == sizeof pid);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

// A third of the CPU each: the thread, the stranger, and what the thread starts.
void compete(const char* path, pid_t (*start)()) {
    pin(1);
    Session session(path);
    const auto noise = session.open();
    CHECK(noise != nullptr);
    if (!noise) return;
    polter_counters before, alone, after;
    CHECK(polter_noise_snapshot(noise.get(), &before) == 0);
    spin(300 * ms);
    CHECK(polter_noise_snapshot(noise.get(), &alone) == 0);
    const pid_t pid = start();
    spin(600 * ms);
    CHECK(polter_noise_snapshot(noise.get(), &after) == 0);
    kill(pid, SIGKILL);
    wait_for(pid);
    std::printf(
        "  alone: preempt %lu preempt_job %lu; with what it started: preempt %lu preempt_job %lu ms\n",
        (alone.ns[POLTER_PREEMPT] - before.ns[POLTER_PREEMPT]) / ms, (alone.ns[POLTER_PREEMPT_JOB] - before.ns[POLTER_PREEMPT_JOB]) / ms,
        (after.ns[POLTER_PREEMPT] - alone.ns[POLTER_PREEMPT]) / ms, (after.ns[POLTER_PREEMPT_JOB] - alone.ns[POLTER_PREEMPT_JOB]) / ms);
    CHECK(alone.ns[POLTER_PREEMPT] > before.ns[POLTER_PREEMPT] + 50 * ms);
    CHECK_EQ(alone.ns[POLTER_PREEMPT_JOB], before.ns[POLTER_PREEMPT_JOB]);
    CHECK(after.ns[POLTER_PREEMPT] > alone.ns[POLTER_PREEMPT] + 50 * ms);
    CHECK(after.ns[POLTER_PREEMPT_JOB] > alone.ns[POLTER_PREEMPT_JOB] + 50 * ms);
}

void started(const char* path) {
    const pid_t stranger = burner();
    for (const auto start : {burner, executes, grandchild})
        CHECK_EQ(in_child([&] {
                     compete(path, start);
                     return 0;
                 }),
                 0);
    kill(stranger, SIGKILL);
    wait_for(stranger);
}

}  // namespace

void started_processes() {
    started(POLTER_DEVICE);
}

void started_processes_bpf() {
    Daemon daemon;
    CHECK(daemon.serves);
    if (daemon.serves) started(daemon_socket);
}

}  // namespace guest
