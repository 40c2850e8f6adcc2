// SPDX-License-Identifier: BSD-3-Clause
#include "flavour.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "capture.hpp"
#include "elf.hpp"

namespace polter::launch {
namespace fs = std::filesystem;
namespace {

constexpr int helper_seconds = 10;

// From the libraries that the loader would load. Sonames: Open MPI libmpi.so.<20 and up>, MPICH and its kin libmpich.so.12 or libmpi.so.12.
Mpi mpi_of_libraries(const std::string& listing) {
    std::istringstream lines(listing);
    std::string name;
    bool open_runtime = false, libmpi = false, mpich_abi = false;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream(line) >> name;
        if (auto slash = name.rfind('/'); slash != std::string::npos) name.erase(0, slash + 1);
        open_runtime |= name.starts_with("libopen-pal.so") || name.starts_with("libopen-rte.so");
        mpich_abi |= name.starts_with("libmpich.so") || name == "libmpi.so.12" || name.starts_with("libmpi.so.12.");
        libmpi |= name.starts_with("libmpi.so.");
    }
    if (libmpi && (open_runtime || !mpich_abi)) return Mpi::openmpi;
    return mpich_abi ? Mpi::mpich : Mpi::none;
}

bool is_launcher(const std::string& path) {
    auto name = fs::path(path).filename().string();
    for (const char* known : {"mpirun", "mpiexec", "orterun", "prterun", "oshrun"})
        if (name.starts_with(known)) return true;
    return false;
}

// Programs that start others, which may have an MPI though they have none themselves.
bool starts_others(const std::string& path) {
    auto name = fs::path(path).filename().string();
    for (const char* known : {"sh",    "bash", "dash",    "zsh",     "ksh",   "csh",     "tcsh",   "busybox", "env",   "timeout",
                              "nice",  "time", "numactl", "taskset", "chrt",  "setarch", "strace", "gdb",     "srun",  "aprun",
                              "jsrun", "flux", "R",       "java",    "xargs", "sudo",    "setsid", "nohup",   "stdbuf"})
        if (name == known) return true;
    for (const char* known : {"python", "perl", "ruby", "julia", "lua", "valgrind"})
        if (name.starts_with(known)) return true;
    return false;
}

Mpi mpi_of_launcher(const std::string& path) {
    auto text = capture({path, "--version"}, helper_seconds);
    for (const char* mark : {"Open MPI", "OpenRTE", "open-mpi.org", "prterun"})
        if (text.find(mark) != std::string::npos) return Mpi::openmpi;
    for (const char* mark : {"HYDRA", "Intel(R) MPI", "MPICH", "mpich"})
        if (text.find(mark) != std::string::npos) return Mpi::mpich;
    return Mpi::none;
}

}  // namespace

const char* name_of(Mpi mpi) {
    switch (mpi) {
        case Mpi::openmpi:
            return "openmpi";
        case Mpi::mpich:
            return "mpich";
        case Mpi::none:
            break;
    }
    return "none";
}

std::optional<Mpi> mpi_named(const std::string& name) {
    for (auto mpi : {Mpi::none, Mpi::openmpi, Mpi::mpich})
        if (name == name_of(mpi)) return mpi;
    return {};
}

std::optional<std::string> find_program(const std::string& word) {
    auto runs = [](const std::string& path) {
        std::error_code error;
        return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
    };
    if (word.empty()) return {};
    if (word.find('/') != std::string::npos) return runs(word) ? std::optional(word) : std::nullopt;
    const char* path = std::getenv("PATH");
    std::istringstream folders(path ? path : "/usr/bin:/bin");
    for (std::string folder; std::getline(folders, folder, ':');) {
        auto candidate = (folder.empty() ? std::string(".") : folder) + "/" + word;
        if (runs(candidate)) return candidate;
    }
    return {};
}

Flavour find_flavour(const std::vector<std::string>& command) {
    Flavour out;
    std::string launcher, last_elf;
    for (const auto& word : command) {
        auto path = find_program(word);
        if (!path) continue;
        if (launcher.empty() && is_launcher(*path)) {
            launcher = *path;
            out.launcher = mpi_of_launcher(*path);
            continue;
        }
        auto elf = read_elf(*path);
        if (!elf.elf) continue;
        last_elf = *path;
        out.obstacle = starts_others(*path) ? "" : why_not_preloaded(*path, elf);
        if (elf.interpreter.empty()) continue;
        out.mpi = mpi_of_libraries(capture({elf.interpreter, "--list", fs::absolute(*path)}, helper_seconds));
        if (out.mpi != Mpi::none) {
            out.program = *path;
            out.why = fmt::format("{} is linked with it", *path);
            return out;
        }
    }
    out.program = last_elf;
    if (out.launcher != Mpi::none) {
        out.mpi = out.launcher;
        out.why = fmt::format("{} says so", launcher);
    } else if (!last_elf.empty() && !out.obstacle.empty()) {
        out.why = out.obstacle;
        out.certainly_none = true;
    } else if (!last_elf.empty()) {
        out.why = fmt::format("{} is not linked with an MPI library", last_elf);
        out.certainly_none = last_elf == find_program(command.front()).value_or("") && !starts_others(last_elf);
    } else {
        out.why = "no program in the command says which MPI it uses";
    }
    return out;
}

}  // namespace polter::launch
