// SPDX-License-Identifier: BSD-3-Clause
// The job: a child in its own process group that gets our signals.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace polter::launch {

using Environment = std::vector<std::pair<std::string, std::string>>;  // what is set beyond our own

struct JobOptions {
    bool dies_with_us = false;       // a launcher that kills this process by SIGKILL means the program
    bool output_to_error = false;    // its standard output goes to ours for errors
    std::function<void()> on_child;  // called when a child of ours may have ended, the job or another
};

// Runs the command and waits for it. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go to the whole group; a terminal is lent to
// it; it stops and continues with us. Returns the exit code, 128 + n where signal n ended it. Throws Error if it cannot be started.
int run_job(const std::vector<std::string>& command, const Environment&, const JobOptions&);

}  // namespace polter::launch
