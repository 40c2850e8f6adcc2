// SPDX-License-Identifier: BSD-3-Clause
// Which programs a command starts, found by reading it. Nothing is executed, and what stands behind a program are its arguments.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace polter::launch {

struct CommandProgram {
    std::string path;            // as PATH leads to it
    std::string file;            // what runs: the path itself, or a script's interpreter
    bool starts_others = false;  // an interpreter, or a wrapper whose program could not be read
};

struct CommandPrograms {
    std::string launcher;      // the first launcher of an MPI; empty: none
    bool is_launched = false;  // the command is that launcher's, not a program's that uses it
    std::vector<CommandProgram> programs;
};

// Launchers (each part of "mpirun A : B"), wrappers (env, timeout, numactl, …), `sh -c TEXT` and the first line of scripts are followed.
CommandPrograms programs_of(const std::vector<std::string>& command);

// The same command with other words in place of each program that its launcher starts (each part of "mpirun A : B"), and with more options
// for each part. None: no launcher stands on the command line itself, or no program.
std::optional<std::vector<std::string>> with_other_program(const std::vector<std::string>& command, const std::vector<std::string>& program,
                                                           const std::vector<std::string>& options);

}  // namespace polter::launch
