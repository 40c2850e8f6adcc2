// SPDX-License-Identifier: BSD-3-Clause
#include "peer.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

namespace polter::daemon {

namespace fs = std::filesystem;

std::optional<Peer> peer_of(int socket) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 || credentials.pid <= 0) return std::nullopt;
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, credentials.pid, 0));
    if (pidfd < 0) return std::nullopt;
    // NGROUPS_MAX of them may be there.
    std::vector<gid_t> groups(65536 + 1);
    size = static_cast<socklen_t>((groups.size() - 1) * sizeof(gid_t));
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) != 0) size = 0;
    groups.resize(size / sizeof(gid_t));
    groups.push_back(credentials.gid);
    return Peer{credentials.pid, credentials.uid, pidfd, std::move(groups)};
}

bool is_alive(const Peer& peer) {
    pollfd p{peer.pidfd, POLLIN, 0};
    return poll(&p, 1, 0) == 0;
}

namespace {

// The last of NSpid in a task's status: its id in its own namespace. 0 if there is none.
pid_t own_id(const fs::path& task) {
    std::ifstream status(task / "status");
    for (std::string line; std::getline(status, line);) {
        if (!line.starts_with("NSpid:")) continue;
        std::istringstream ids(line.substr(6));
        pid_t id = 0, last = 0;
        while (ids >> id) last = id;
        return last;
    }
    return 0;
}

}  // namespace

std::optional<pid_t> thread_of(pid_t pid, pid_t tid, const fs::path& proc) {
    if (pid <= 0 || tid <= 0) return std::nullopt;
    const fs::path tasks = proc / std::to_string(pid) / "task";
    if (own_id(tasks / std::to_string(tid)) == tid) return tid;  // the usual case: no namespace of its own
    std::error_code error;
    for (auto entry = fs::directory_iterator(tasks, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
        if (own_id(entry->path()) != tid) continue;
        const std::string name = entry->path().filename().string();
        pid_t id = 0;
        if (std::from_chars(name.data(), name.data() + name.size(), id).ec == std::errc()) return id;
    }
    return std::nullopt;
}

}  // namespace polter::daemon
