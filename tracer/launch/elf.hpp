// SPDX-License-Identifier: BSD-3-Clause
// What an executable file says about whether the tracer can be put into its process.
#pragma once

#include <string>

namespace polter::launch {

struct Elf {
    bool elf = false;          // 64-bit ELF; anything else counts as no program that the tracer could be put into
    std::string interpreter;   // the dynamic loader; empty: statically linked
    bool defines_mpi = false;  // it has an MPI_Init of its own, which the loader prefers to the tracer's
};

Elf read_elf(const std::string& path);

// Why the loader will not put the tracer in front of this program's MPI, and what helps; empty if it will.
std::string why_not_preloaded(const std::string& path, const Elf& elf);

}  // namespace polter::launch
