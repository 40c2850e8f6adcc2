// SPDX-License-Identifier: BSD-3-Clause
#include "perf_probe.hpp"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "files.hpp"

namespace polter::doctor {
namespace {

constexpr int ring_pages = 64;

// Whether system calls of this process are filtered, as containers do: Seccomp of /proc/self/status, proc(5).
bool is_filtered() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("Seccomp:")) return std::atoi(line.c_str() + 8) != 0;
    return false;
}

}  // namespace

PerfProbe explain_perf(PerfStep failed, int error, int paranoid, bool filtered) {
    if (failed == PerfStep::none)
        return {true, fmt::format("a thread may record its own switches (kernel.perf_event_paranoid is {})", paranoid), ""};
    if (failed == PerfStep::map && (error == EPERM || error == ENOMEM))
        return {false, fmt::format("no memory may be locked for the ring ({})", std::strerror(error)),
                "sudo sysctl kernel.perf_event_mlock_kb=8192"};
    if (failed == PerfStep::map) return {false, fmt::format("the ring cannot be mapped ({})", std::strerror(error)), ""};
    // The kernel's own check says EACCES (perf_event_open(2); Debian's level 3 too), filters of system calls EPERM or ENOSYS.
    if (error == EACCES)
        return {false, fmt::format("kernel.perf_event_paranoid is {}: no perf events without privilege", paranoid),
                "sudo sysctl kernel.perf_event_paranoid=2"};
    if ((error == EPERM || error == ENOSYS) && filtered)
        return {false,
                fmt::format("the container's filter of system calls refuses perf_event_open ({}); start the container with it allowed",
                            error == EPERM ? "EPERM" : "ENOSYS"),
                "docker run --cap-add PERFMON …"};
    if (error == ENOSYS) return {false, "the kernel has no perf events (CONFIG_PERF_EVENTS), or hides them", ""};
    if (error == EPERM) return {false, "a security module refuses perf_event_open (EPERM)", "sudo sysctl kernel.perf_event_paranoid=2"};
    return {false, fmt::format("perf_event_open fails: {}", std::strerror(error)), ""};
}

PerfProbe probe_perf() {
    const std::string level = first_line("/proc/sys/kernel/perf_event_paranoid");
    const int paranoid = level.empty() ? -9 : std::atoi(level.c_str());
    perf_event_attr attr{};
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_DUMMY;
    attr.exclude_kernel = 1;
    attr.exclude_hv = 1;
    attr.context_switch = 1;
    attr.sample_id_all = 1;
    attr.sample_type = PERF_SAMPLE_TIME;
    const int fd = static_cast<int>(syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
    if (fd < 0) return explain_perf(PerfStep::open, errno, paranoid, is_filtered());
    const auto size = static_cast<std::size_t>(ring_pages + 1) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* ring = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const int error = errno;
    if (ring != MAP_FAILED) munmap(ring, size);
    close(fd);
    return explain_perf(ring == MAP_FAILED ? PerfStep::map : PerfStep::none, error, paranoid, is_filtered());
}

}  // namespace polter::doctor
