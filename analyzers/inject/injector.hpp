// SPDX-License-Identifier: BSD-3-Clause
// Injects noise until it is told to stop, and returns what it did.
//
// The caller's process only supervises. A child process takes the CPUs; it dies with the supervisor.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "log.hpp"
#include "schedule.hpp"

namespace polter::inject {

struct Rank {
    int32_t rank = 0;
    pid_t pid = 0;
};

struct Request {
    std::vector<Spec> specs;
    // The ranks of this node, for specifications by rank: asked for when the worker is ready, so that starting it costs them nothing.
    std::function<std::vector<Rank>()> find_ranks;
    std::vector<std::map<int32_t, std::vector<Event>>> listed;  // by specification; of replay: the events of each place
    int64_t length_ns = 0;                                      // from the moment at which all threads run
    int stop_fd = -1;                                           // readable or at its end: stop
};

// Blocks SIGINT, SIGTERM and SIGHUP in this thread: each of them stops it. Not with other threads in the process. Throws Error where
// nothing could be injected.
Log inject(const Request& request);

// The CPUs that a specification means.
std::vector<int> cpus_of(const Spec& spec);

}  // namespace polter::inject
