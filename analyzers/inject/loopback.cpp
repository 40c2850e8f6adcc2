// SPDX-License-Identifier: BSD-3-Clause
#include "loopback.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace polter::inject {

namespace {

bool loopback_up() {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
    const bool up = ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    close(fd);
    return up;
}

// Receive packet steering: a mask of CPUs in groups of 32, the highest first. /sys shows the devices of the namespace that mounted it.
bool steer_to(int cpu) {
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 || mount("polter", "/sys", "sysfs", 0, nullptr) != 0) return false;
    char first[16];
    std::snprintf(first, sizeof first, "%x", 1u << (cpu % 32));
    std::string mask = first;
    for (int group = 0; group < cpu / 32; ++group) mask += ",00000000";
    const int fd = open("/sys/class/net/lo/queues/rx-0/rps_cpus", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool set = write(fd, mask.data(), mask.size()) == static_cast<ssize_t>(mask.size());
    close(fd);
    return set;
}

}  // namespace

bool own_loopback(int cpu) {
    const int before = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (before < 0) return false;
    bool done = unshare(CLONE_NEWNET | CLONE_NEWNS) == 0;
    if (done && !(loopback_up() && steer_to(cpu))) {
        setns(before, CLONE_NEWNET);
        done = false;
    }
    close(before);
    return done;
}

int loopback_sockets(int& from, int& to) {
    to = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    from = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (to >= 0 && from >= 0 && bind(to, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
        getsockname(to, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
        connect(from, reinterpret_cast<sockaddr*>(&address), length) == 0)
        return 0;
    const int reason = errno;
    for (int* fd : {&from, &to}) {
        if (*fd >= 0) close(*fd);
        *fd = -1;
    }
    return reason;
}

}  // namespace polter::inject
