// SPDX-License-Identifier: BSD-3-Clause
// For launchers: starts polterd beside a job, asks a running one what it is. Library polter::daemon-client.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace polter::daemon {

struct StartOptions {
    bool exit_with_last = true;         // ends by itself once the last registered process has left
    unsigned grace_seconds = 3;         // how long it then, and before the first registration, waits for another
    unsigned ready_timeout_ms = 10000;  // how long start_daemon waits until it answers
    std::string policy;                 // a file (policy.hpp); empty: everybody may register
    std::string log_path;               // its messages are appended here; empty: they are dropped but for the reason of a failed start
};

struct Started {
    pid_t pid = -1;      // a child of the caller, who reaps it; -1: it did not start
    std::string reason;  // why not: what, where, what to do
    explicit operator bool() const { return pid > 0; }
};

// Starts polterd and waits, bounded, until it serves. The directory of the socket must exist. Leaves nothing running when it fails.
// The daemon has its own session: a terminal's Ctrl-C does not reach it.
Started start_daemon(const std::string& polterd_path, const std::string& socket_path, const StartOptions& options = {});

// Asks it to end (SIGTERM), without waiting: it takes its programs out of the kernel meanwhile. The caller reaps it, by stop_daemon.
void ask_to_end(pid_t pid);

// Asks it to end, waits at most `timeout_ms`, then kills it. Pages stay readable, frozen.
void stop_daemon(pid_t pid, unsigned timeout_ms = 2000);

struct Status {
    bool answers = false;
    std::string reason;  // why there is no answer
    std::string version;
    unsigned backend = 0;             // enum polter_backend
    std::uint32_t accounts_seen = 0;  // bit set of enum polter_account
    std::uint32_t accounts_net = 0;
    std::string why;  // what it cannot see, and why; empty: sees everything
    std::uint64_t recursion_misses = 0;
    unsigned processes = 0, threads = 0;
    pid_t pid = -1;
};

// Of the daemon on that socket, or of the kernel module if the path is its device (`pid` is -1 then).
Status probe(const std::string& socket_path, unsigned timeout_ms = 1000);

}  // namespace polter::daemon
