// SPDX-License-Identifier: BSD-3-Clause
#include "temporary.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "replay/base/error.hpp"

namespace polter::replay {

std::string temporary_directory() {
    std::error_code error;
    const std::string path = std::filesystem::temp_directory_path(error).string();
    if (!error) return path;
    const char* chosen = std::getenv("TMPDIR");
    throw InputError(fmt::format("{}: no temporary file can be made there ({}); set TMPDIR to a directory with room",
                                 chosen ? fmt::format("TMPDIR={}", chosen) : "/tmp", error.message()));
}

}  // namespace polter::replay
