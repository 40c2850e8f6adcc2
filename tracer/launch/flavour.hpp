// SPDX-License-Identifier: BSD-3-Clause
// Which MPI a command will use. The two families have different ABIs, so the tracer is one library for each.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace polter::launch {

enum class Mpi { none, openmpi, mpich };  // mpich: everything of the MPICH ABI, MVAPICH and Intel MPI among it
const char* name_of(Mpi);                 // "openmpi", …
std::optional<Mpi> mpi_named(const std::string& name);

struct Flavour {
    Mpi mpi = Mpi::none;
    Mpi launcher = Mpi::none;     // of the launcher, where it says
    std::string program;          // the file that decided; empty: none did
    std::string why;              // how it was found out, or why it was not
    bool certainly_none = false;  // the program was looked at and has no MPI
    std::string obstacle;         // why the tracer cannot be put into `program`, and what helps; empty: it can
};

// Looks at the words of the command in order: the first program that is linked with an MPI decides, else the launcher. Runs the
// dynamic loader in listing mode (no code of the program) and a known launcher's --version, each for at most 10 s.
Flavour find_flavour(const std::vector<std::string>& command);

// Where a word of a command leads: itself if it has a slash, else along PATH. Unset: no such executable.
std::optional<std::string> find_program(const std::string& word);

}  // namespace polter::launch
