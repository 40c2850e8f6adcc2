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
    int pidfd;                        // readable once the process is gone; owned by the connection
    std::vector<gid_t> groups = {};   // when it connected
    std::optional<uid_t> owner = {};  // the user to whom the subordinate id `uid` belongs, and who is charged for it
    uid_t account() const { return owner.value_or(uid); }
};

// How the process behind a socket's credentials is identified.
enum class Identify {
    best,      // what the kernel has
    by_pidfd,  // SO_PEERPIDFD (6.5): the process that connected, even if its id was reused
    by_proc    // its id, if that process is the same user's and the same one before and after
};

// Nothing if the peer is gone already, is another process than the one that connected, or lives in a pid namespace that this process cannot
// see into.
std::optional<Peer> peer_of(int socket, Identify how = Identify::best, const std::filesystem::path& proc = "/proc");

bool is_alive(const Peer&);

// Who created the outermost user namespace that the process is in below this one; nothing if it is in none, or that cannot be seen.
std::optional<uid_t> namespace_owner(pid_t pid, const std::filesystem::path& proc = "/proc");

// Looks for the thread of process `pid` that itself knows as `own` (in its innermost pid namespace).
class ThreadSearch {
  public:
    enum class State { found, none, more };
    ThreadSearch(pid_t pid, pid_t own, std::filesystem::path proc = "/proc");
    // Examines a bounded number of threads a step. Only a process in its own pid namespace takes more than one step.
    State step(unsigned most = 32);
    pid_t tid() const { return tid_; }  // its id here, once found; 0 before
    bool still_there() const;           // what was found is a thread of the process

  private:
    State begin();
    std::filesystem::path process_;
    pid_t own_, tid_ = 0;
    bool begun_ = false;
    std::filesystem::directory_iterator next_;
};

// All steps at once.
std::optional<pid_t> thread_of(pid_t pid, pid_t own, const std::filesystem::path& proc = "/proc");

}  // namespace polter::daemon
