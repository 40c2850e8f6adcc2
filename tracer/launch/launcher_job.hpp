// SPDX-License-Identifier: BSD-3-Clause
// For `polter exec`: what the processes that one launcher started must agree on without talking to each other, and which of them
// ends last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace polter::launch {

struct LauncherJob {
    std::string name;     // of the experiment directory when none is given
    std::string id;       // 16 hexadecimal digits, equal in all processes of the job
    std::string process;  // this one, unique in the job
    uint32_t size = 0;    // processes of the job; 0: the launcher does not say
};

// From the launcher's environment (Slurm, PMIx, Open MPI, Hydra); a process of no launcher is a job of its own.
LauncherJob find_launcher_job(const std::string& application);

// How many processes the launcher of this one has started with it; 1: there is no launcher, or it does not say.
uint32_t launched_processes();

// Makes or joins the directory: `wanted`, $POLTER_EXPERIMENT, or one named after the job in the current directory. One that another job
// has used is refused. Throws Error.
std::filesystem::path join_experiment(const std::filesystem::path& wanted, const LauncherJob&);

// Held by one process of the job at a time, on all nodes that see the file system (fcntl locks travel over NFS).
class ExperimentLock {
  public:
    explicit ExperimentLock(const std::filesystem::path& experiment);
    ~ExperimentLock();
    ExperimentLock(const ExperimentLock&) = delete;
    ExperimentLock& operator=(const ExperimentLock&) = delete;

  private:
    int fd_;
};

// Where the processes of the job on this node note what they share there.
std::filesystem::path node_note(const std::filesystem::path& experiment);

// Notes that this process has ended; true if no other is left. Under the lock.
bool last_to_end(const std::filesystem::path& experiment, const LauncherJob&);
// Removes those notes once the experiment is sealed.
void forget_processes(const std::filesystem::path& experiment);

}  // namespace polter::launch
