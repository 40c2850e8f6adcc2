// SPDX-License-Identifier: BSD-3-Clause
// Says of a running job, again and again, whether it is as fast as those before it let expect.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace polter::cli {

struct RunningJob {
    std::filesystem::path experiment;  // the directory that polter run writes to
    std::string history;
    double size = 0;  // of the input; 0: not said
    int64_t interval_ns = 0;  // 0: 10 s; longer where looking would take more than quality::most_followed of a CPU
    bool json = false;
};

// Prints a line after each interval, until the job has ended. Throws where there is no such job, or nothing can be read of it.
void follow_running_job(const RunningJob&);

}  // namespace polter::cli
