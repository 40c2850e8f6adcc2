// SPDX-License-Identifier: BSD-3-Clause
// Who is at the other end of a connection: what the kernel says, never what the peer does.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <vector>

namespace polter::daemon {

struct Peer {
    pid_t pid;
    uid_t uid;
    int pidfd;                       // readable once the process is gone; owned by the connection
    std::vector<gid_t> groups = {};  // when it connected
};

// Nothing if the peer is gone already, or lives in a pid namespace that this process cannot see into.
std::optional<Peer> peer_of(int socket);

bool is_alive(const Peer&);

// The thread of process `pid` that itself knows as `tid` (in its innermost pid namespace), by its id here. Nothing if it has no such
// thread.
std::optional<pid_t> thread_of(pid_t pid, pid_t tid, const std::filesystem::path& proc = "/proc");

}  // namespace polter::daemon
