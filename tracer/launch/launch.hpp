// SPDX-License-Identifier: BSD-3-Clause
// What `polter run` and `polter exec` do around a program: experiment directory, exporter, environment, the job itself, sealing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <seal.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "recording.hpp"

namespace polter::launch {

// The run cannot begin or its output cannot be written: what, where, what to do.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Goes along with the job.
class Companion {
  public:
    virtual ~Companion() = default;
    // Before the job begins. Throws Error: then no job is begun.
    virtual void begin(const std::filesystem::path& experiment) = 0;
    // After the job's end, before sealing. Returns warnings.
    virtual std::vector<std::string> end() = 0;
};

struct Options {
    std::vector<std::string> command;
    std::filesystem::path output;  // the experiment directory; empty: polter-<app>-<time>
    std::string exporter;          // of exporter_names(); empty: $POLTER_EXPORTER, else "auto"
    std::string mpi;               // "openmpi" or "mpich"; empty: $POLTER_MPI, else found out
    Recording recording;
    bool output_to_error = false;    // the job's standard output goes to standard error
    bool quiet = false;              // nothing on standard error but errors
    Companion* companion = nullptr;  // of run(), or none
};

// One MPI job of the command, sealed.
struct Traced {
    std::filesystem::path experiment;
    seal::Report report;
    std::string not_measured;  // why its ranks measured no noise; empty: they did
};

struct Outcome {
    int exit_code = 0;  // of the job; 128 + signal
    std::filesystem::path experiment;
    bool sealed = false;                 // this process made the archive
    std::string no_trace;                // why there is none; empty: there is one, or (exec) another process makes it
    bool trace_failed = false;           // what the job left could not be made a trace of (no_trace says why); else the job left nothing
    std::string exporter, exporter_why;  // as chosen by the launcher
    std::vector<std::string> unseen;     // accounts that it cannot see
    std::string limits;                  // what it does not tell apart; empty: nothing
    uint64_t events_not_shown = 0;       // kernel events that the kernel did not show to the exporter, all threads of the node
    int64_t wall_ns = 0;
    std::vector<std::string> warnings;  // of launching; not in the trace
    std::vector<Traced> traced;         // every MPI job, in the order in which they began; the first is that of `experiment`
};

// Runs a whole job and seals its experiment. Once the job has begun nothing is thrown: what goes wrong with its trace is in the outcome.
Outcome run(const Options&);
// Runs one process of a launcher's job; whichever ends last seals.
Outcome exec(const Options&);

// Seals an experiment that was left unsealed because polter was killed. Nothing is done where there is nothing to seal. `foreign`: although
// another user owns it. Returns where further MPI jobs of the same command are. Throws Error where its processes still run, or sealing
// fails.
std::vector<std::filesystem::path> seal_left_behind(const std::filesystem::path& experiment, bool foreign);

}  // namespace polter::launch
