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
    Mpi launcher = Mpi::none;     // whose launcher starts the program, where that can be read
    std::string program;          // the one that decided, else the last that was found; empty: none was
    std::string why;              // how it was found out, or why it was not
    bool certainly_none = false;  // the program was looked at and has no MPI
    bool open = false;            // the command may start programs of any MPI, one or several: each decides when it starts
    std::string obstacle;         // why the tracer cannot be put into `program`, and what helps; empty: it can
};

// The first program that the command starts and that is linked with an MPI decides, else the launcher. Files are only read; no program is
// run for it.
Flavour find_flavour(const std::vector<std::string>& command);

// Open MPI's launcher does not run as root unless told to, twice. What to do; empty: it does run, or is another's.
std::string refusal_as_root(const Flavour&, const std::vector<std::string>& command);

// Where a word of a command leads: itself if it has a slash, else along PATH. Unset: no such executable.
std::optional<std::string> find_program(const std::string& word);

}  // namespace polter::launch
