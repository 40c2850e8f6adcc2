// SPDX-License-Identifier: BSD-3-Clause
// What `polter run` is told to record: which functions, ranks and time, how often clocks are compared, and in how large a buffer. As typed,
// checked, and as the ranks take it from their environment (../mpi/core/detail.hpp says what a detail is).
#pragma once

#include <string>
#include <vector>

#include "job.hpp"

namespace polter::launch {

struct Recording {
    std::string what = "usual";                 // or "all": also local functions that cannot wait, and each poll of a loop
    std::vector<std::string> include, exclude;  // names of MPI functions, or patterns with * and ?
    std::string ranks;                          // "0-3,8"; empty: all
    std::string window;                         // "FROM:TO" in seconds since MPI_Init, one of them may be missing; empty: always
    std::vector<std::string> perf, papi;        // events to be counted
    std::string clock_interval;                 // "30" or "30s"; empty: clocks are compared at begin and end only
    std::string buffer;                         // bytes for each thread: "4M"; empty: the usual
};

// Each says what is wrong with a value, what to do, and is empty where all is well.
std::string wrong_include(const std::string& name);
std::string wrong_exclude(const std::string& name);
std::string wrong_ranks(const std::string& ranks);
std::string wrong_window(const std::string& window);
std::string wrong_buffer(const std::string& buffer);
std::string wrong_interval(const std::string& interval);

// What the ranks need to know of it, nothing where all is as usual. All values must be right, but for events: throws Error where one of
// them cannot be counted.
Environment recording_environment(const Recording&);

}  // namespace polter::launch
