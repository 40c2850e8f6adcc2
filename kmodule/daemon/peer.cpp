// SPDX-License-Identifier: BSD-3-Clause
#include "peer.hpp"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace polter::daemon {

namespace fs = std::filesystem;

namespace {

std::vector<gid_t> groups_of(int socket) {
    std::vector<gid_t> groups(64);
    for (;;) {
        auto size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
        const int result = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size);
        const bool larger = result != 0 && errno == ERANGE && size > groups.size() * sizeof(gid_t);
        groups.resize(result == 0 || larger ? size / sizeof(gid_t) : 0);
        if (!larger) return groups;
    }
}

// The fields of a process's `stat` behind its name; the 20th is its start time.
std::string start_time(const fs::path& process) {
    std::ifstream file(process / "stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto name_end = text.rfind(')');
    if (name_end == text.npos) return "";
    std::istringstream fields(text.substr(name_end + 1));
    std::string field;
    for (int i = 0; i < 20; i++) fields >> field;
    return fields ? field : "";
}

// The field of that name in a task's status.
std::string status_field(const fs::path& task, const std::string& name) {
    std::ifstream status(task / "status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(name)) return line.substr(name.size());
    return "";
}

int pidfd_by_proc(const ucred& credentials, const fs::path& proc) {
    const fs::path process = proc / std::to_string(credentials.pid);
    const std::string before = start_time(process);
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, credentials.pid, 0));
    if (pidfd < 0) return -1;
    std::istringstream ids(status_field(process, "Uid:"));
    uid_t real = 0, effective = 0;
    ids >> real >> effective;
    const bool same_user = ids && effective == credentials.uid;
    if (same_user && !before.empty() && start_time(process) == before) return pidfd;
    close(pidfd);
    return -1;
}

// The last of NSpid: a task's id in its own namespace. 0 if there is none. `nested`: that is another than this process's.
pid_t own_id(const fs::path& task, bool* nested = nullptr) {
    std::istringstream ids(status_field(task, "NSpid:"));
    pid_t id = 0, last = 0;
    int n = 0;
    for (; ids >> id; n++) last = id;
    if (nested) *nested = n > 1;
    return last;
}

}  // namespace

std::optional<Peer> peer_of(int socket, Identify how, const fs::path& proc) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 || credentials.pid <= 0) return std::nullopt;
    int pidfd = -1;
    size = sizeof pidfd;
    bool known = true;  // to this kernel
    if (how != Identify::by_proc && getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) != 0) {
        known = errno != ENOPROTOOPT;
        pidfd = -1;
    }
    if (how == Identify::by_proc || (how == Identify::best && !known)) pidfd = pidfd_by_proc(credentials, proc);
    if (pidfd < 0) return std::nullopt;
    Peer peer{credentials.pid, credentials.uid, pidfd, groups_of(socket)};
    peer.groups.push_back(credentials.gid);
    if (is_alive(peer)) return peer;
    close(pidfd);
    return std::nullopt;
}

bool is_alive(const Peer& peer) {
    pollfd p{peer.pidfd, POLLIN, 0};
    return poll(&p, 1, 0) == 0;
}

std::optional<uid_t> namespace_owner(pid_t pid, const fs::path& proc) {
    struct stat here {
    }, there{};
    int space = open((proc / std::to_string(pid) / "ns/user").c_str(), O_RDONLY | O_CLOEXEC);
    if (space < 0 || stat((proc / "self/ns/user").c_str(), &here) != 0) {
        if (space >= 0) close(space);
        return std::nullopt;
    }
    std::optional<uid_t> owner;
    for (int levels = 0; levels <= 32 && space >= 0; levels++) {  // the kernel nests them 32 deep
        uid_t uid;
        if (fstat(space, &there) != 0 || (there.st_dev == here.st_dev && there.st_ino == here.st_ino)) break;
        if (ioctl(space, NS_GET_OWNER_UID, &uid) == 0) owner = uid;
        const int above = ioctl(space, NS_GET_PARENT);
        close(space);
        space = above;
    }
    if (space >= 0) close(space);
    return owner;
}

ThreadSearch::ThreadSearch(pid_t pid, pid_t own, fs::path proc) : process_(std::move(proc)), own_(pid <= 0 ? 0 : own) {
    process_ /= std::to_string(pid);
}

ThreadSearch::State ThreadSearch::begin() {
    begun_ = true;
    if (own_ <= 0) return State::none;
    if (own_id(process_ / "task" / std::to_string(own_)) == own_) {  // the usual case: no namespace of its own
        tid_ = own_;
        return State::found;
    }
    bool nested = false;
    own_id(process_, &nested);
    if (!nested) return State::none;  // its ids are those of here
    std::error_code error;
    next_ = fs::directory_iterator(process_ / "task", error);
    return State::more;
}

ThreadSearch::State ThreadSearch::step(unsigned most) {
    if (!begun_)
        if (const State state = begin(); state != State::more) return state;
    std::error_code error;
    for (unsigned i = 0; i < most && next_ != fs::directory_iterator(); i++, next_.increment(error)) {
        if (own_id(next_->path()) != own_) continue;
        const std::string name = next_->path().filename().string();
        if (std::from_chars(name.data(), name.data() + name.size(), tid_).ec == std::errc()) return State::found;
    }
    return next_ == fs::directory_iterator() ? State::none : State::more;
}

bool ThreadSearch::still_there() const {
    std::error_code error;
    return tid_ > 0 && fs::exists(process_ / "task" / std::to_string(tid_), error);
}

std::optional<pid_t> thread_of(pid_t pid, pid_t own, const fs::path& proc) {
    ThreadSearch search(pid, own, proc);
    for (;;) {
        const auto state = search.step();
        if (state == ThreadSearch::State::found) return search.tid();
        if (state == ThreadSearch::State::none) return std::nullopt;
    }
}

}  // namespace polter::daemon
