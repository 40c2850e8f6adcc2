// SPDX-License-Identifier: BSD-3-Clause
// The program, library or plug-in that an address of this process lies in, as far as it takes to find the same file again after the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace polter::write {

struct LoadedObject {
    std::string path;                          // absolute where it is a file
    uint64_t base = 0;                         // address in this process − address in the file
    std::string build_id;                      // hexadecimal; empty: it has none
    uint64_t bytes = 0, modified_seconds = 0;  // of the file; 0: it could not be asked
};

// Unset: no loaded object has this address (code that was made at run time).
std::optional<LoadedObject> object_at(const void* address);

}  // namespace polter::write
