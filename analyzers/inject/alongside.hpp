// SPDX-License-Identifier: BSD-3-Clause
// Injects noise into a job that `polter run` traces: begins when all ranks of this node have called MPI_Init, ends with the job.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "injector.hpp"
#include "launch.hpp"

namespace polter::inject {

inline constexpr const char* log_name = "injected.json";  // in the experiment directory

class Alongside : public launch::Companion {
  public:
    // Checks all that can be checked before the job. Throws Error or replay::InputError.
    explicit Alongside(const std::vector<std::string>& specs);
    ~Alongside() override;
    void begin(const std::filesystem::path& experiment) override;
    std::vector<std::string> end() override;

    const std::vector<Spec>& specs() const { return request_.specs; }

  private:
    [[noreturn]] void supervise(const std::filesystem::path& experiment, int stop, int report);

    Request request_;
    pid_t child_ = -1;
    int stop_ = -1, report_ = -1;  // our ends of the pipes
};

// The trace's first event by CLOCK_MONOTONIC, which is the tracer's clock. Reads the trace.
int64_t first_event_ns(const std::filesystem::path& experiment);

// Sets "time_ns" of the log in the experiment to count from the trace's first event, as `polter replay --inject` does. Reads the trace.
// `log`: where it stands; further MPI jobs of one command share it.
void align_log(const std::filesystem::path& log, const std::filesystem::path& experiment);

}  // namespace polter::inject
