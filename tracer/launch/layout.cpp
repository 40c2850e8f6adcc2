// SPDX-License-Identifier: BSD-3-Clause
#include "layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace polter::launch {
namespace fs = std::filesystem;

fs::path executable_folder() {
    std::error_code error;
    auto path = fs::read_symlink("/proc/self/exe", error);
    return error ? fs::path() : path.parent_path();
}

fs::path find_part(const std::string& file) {
    auto here = executable_folder(), prefix = here.parent_path();
    std::vector<fs::path> folders{here / "lib/polter", prefix / "lib/polter", prefix / "lib64/polter"};
    std::vector<fs::path> multiarch;
    std::error_code error;
    for (fs::directory_iterator at(prefix / "lib", error), end; !error && at != end; at.increment(error))
        if (at->is_directory(error)) multiarch.push_back(at->path() / "polter");
    std::sort(multiarch.begin(), multiarch.end());
    folders.insert(folders.end(), multiarch.begin(), multiarch.end());
    for (const auto& folder : folders)
        if (fs::is_regular_file(folder / file, error)) return folder / file;
    return {};
}

std::string preload_library(Mpi mpi) {
    return fmt::format("libpolter-mpi-{}.so", name_of(mpi));
}

}  // namespace polter::launch
