// SPDX-License-Identifier: BSD-3-Clause
// What an ELF file says about what the dynamic loader will do with it. The file is only read, and may be damaged or hostile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace polter::launch {

struct Elf {
    bool elf = false;  // 64-bit ELF; anything else counts as no program that the tracer could be put into
    uint16_t machine = 0;
    std::string interpreter;          // the dynamic loader; empty: statically linked, or a library
    std::vector<std::string> needed;  // DT_NEEDED, in order
    std::string rpath, runpath;       // as written, $ORIGIN and all
    bool no_default_folders = false;  // DF_1_NODEFLIB
};

Elf read_elf(const std::string& path);

// Why the loader will not put the tracer in front of this program's MPI, and what helps; empty if it will.
std::string why_not_preloaded(const std::string& path, const Elf& elf);

}  // namespace polter::launch
