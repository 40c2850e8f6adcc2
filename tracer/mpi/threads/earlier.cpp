// SPDX-License-Identifier: BSD-3-Clause
#include "earlier.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "core/process.hpp"

namespace polter::mpi {
namespace {

std::mutex mutex;
std::map<pid_t, uint64_t>& ran_before() {  // CPU time of each, ns
    static auto& threads = *new std::map<pid_t, uint64_t>;
    return threads;
}
uint64_t noted_ns = 0;

// 0: it has ended, or the kernel does not say.
uint64_t cpu_time(pid_t tid) {
    const int file = open(("/proc/self/task/" + std::to_string(tid) + "/schedstat").c_str(), O_RDONLY | O_CLOEXEC);
    char text[64] = "";
    const ssize_t size = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    return size > 0 ? std::strtoull(text, nullptr, 10) : 0;
}

}  // namespace

void note_earlier_threads() {
    constexpr nlink_t of_one_thread = 3;
    constexpr size_t most = 4096;
    const int error = errno;
    struct stat task {};
    if (stat("/proc/self/task", &task) == 0 && task.st_nlink > of_one_thread) {
        const std::lock_guard lock(mutex);
        DIR* list = opendir("/proc/self/task");
        while (const dirent* entry = list ? readdir(list) : nullptr) {
            const auto tid = static_cast<pid_t>(std::atoi(entry->d_name));
            if (tid > 0 && tid != gettid() && ran_before().size() < most) ran_before()[tid] = cpu_time(tid);
        }
        if (list) closedir(list);
        noted_ns = write::now();
    }
    errno = error;
}

void recorded_thread(pid_t tid) {
    const std::lock_guard lock(mutex);
    ran_before().erase(tid);
}

void tell_earlier_threads() {
    constexpr uint64_t least_ns = 1'000'000, part = 100;  // of the time: less is no part of the program's work
    const std::lock_guard lock(mutex);
    uint64_t number = 0, all_ns = 0;
    const uint64_t since = write::now() - noted_ns;
    for (const auto& [tid, before] : ran_before()) {
        const uint64_t now = cpu_time(tid), ran = now - std::min(now, before);
        if (ran < least_ns || ran < since / part) continue;
        number++;
        all_ns += ran;
    }
    if (number == 0) return;
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.3f", static_cast<double>(all_ns) / 1e9);
    process.archive->warn(std::to_string(number) + " thread(s) that were there before MPI_Init ran for " + seconds +
                          " s and have no records: they called no MPI, and were in no region. Their noise is not known");
}

}  // namespace polter::mpi
