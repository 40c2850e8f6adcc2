// SPDX-License-Identifier: BSD-3-Clause
#include "flavour.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "command_programs.hpp"
#include "elf.hpp"
#include "libraries.hpp"

namespace polter::launch {
namespace fs = std::filesystem;
namespace {

// Sonames: Open MPI libmpi.so.<20 and up>, before that libmpi.so.12 beside its own run-time libraries; MPICH and its kin libmpich.so.12 or
// libmpi.so.12.
Mpi mpi_of_libraries(const std::vector<std::string>& names) {
    bool open_runtime = false, libmpi = false, mpich_abi = false;
    for (const auto& name : names) {
        const auto file = fs::path(name).filename().string();
        open_runtime |= file.starts_with("libopen-pal.so") || file.starts_with("libopen-rte.so");
        mpich_abi |= file.starts_with("libmpich.so") || file == "libmpi.so.12" || file.starts_with("libmpi.so.12.");
        libmpi |= file.starts_with("libmpi.so.");
    }
    if (libmpi && (open_runtime || !mpich_abi)) return Mpi::openmpi;
    return mpich_abi ? Mpi::mpich : Mpi::none;
}

constexpr size_t most_of_launcher = 16 << 20;

bool holds(const std::string& text, std::initializer_list<const char*> marks) {
    return std::any_of(marks.begin(), marks.end(), [&](const char* mark) { return text.find(mark) != std::string::npos; });
}

// Whose launcher a file is: by its own name, its libraries, and what is written in it (Hydra is one program without libraries of MPICH, and
// launchers of Intel MPI and of sites are scripts). None where these disagree.
Mpi mpi_of_launcher(const std::string& path) {
    std::error_code error;
    const auto name = fs::canonical(path, error).filename().string();  // mpirun → /etc/alternatives/mpirun → orterun
    if (holds(name, {"orterun", "prterun", "oshrun", "openmpi"})) return Mpi::openmpi;
    if (holds(name, {"hydra", "mpich", "gforker"})) return Mpi::mpich;
    const auto elf = read_elf(path);
    for (const auto& library : elf.elf ? needed_libraries(path, elf) : std::vector<std::string>())
        if (holds(library, {"libopen-rte.so", "libopen-pal.so", "libprrte.so"})) return Mpi::openmpi;
    std::ifstream file(path, std::ios::binary);
    std::string text;
    for (char part[65536]; text.size() < most_of_launcher && (file.read(part, sizeof part), file.gcount() > 0);)
        text.append(part, static_cast<size_t>(file.gcount()));
    const bool open = holds(text, {"Open MPI", "open-mpi.org", "OpenRTE", "orterun", "prterun", "mpirun.openmpi", "/openmpi"});
    const bool mpich = holds(text, {"HYDRA", "mpiexec.hydra", "Intel(R) MPI", "I_MPI_", "MPICH", "mpich"});
    return open == mpich ? Mpi::none : open ? Mpi::openmpi : Mpi::mpich;
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

std::string refusal_as_root(const Flavour& flavour, const std::vector<std::string>& command) {
    if (flavour.launcher != Mpi::openmpi || geteuid() != 0) return {};
    if (std::getenv("OMPI_ALLOW_RUN_AS_ROOT") && std::getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")) return {};
    for (const auto& word : command)
        for (const char* other : {"--allow-run-as-root", "-allow-run-as-root", "sudo", "setpriv", "runuser", "su", "env"})
            if (fs::path(word).filename() == other) return {};  // told to, or perhaps another user or environment by then
    return "Open MPI refuses to run as root; if that is meant: export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
}

namespace {

// The MPI that `found` says, by the first program that is linked with one. Returns the last program that was read and has none.
std::string read_programs(const CommandPrograms& found, Flavour& out) {
    std::string without;
    for (const auto& program : found.programs) {
        out.program = program.path;
        const auto elf = read_elf(program.file);
        if (!elf.elf) continue;
        without = program.file == program.path ? program.path : fmt::format("{}, which runs {},", program.file, program.path);
        out.obstacle = program.starts_others ? "" : why_not_preloaded(program.path, elf);
        if (elf.interpreter.empty()) continue;
        out.mpi = mpi_of_libraries(needed_libraries(program.file, elf));
        if (out.mpi == Mpi::none) continue;
        out.why = fmt::format("{} is linked with it", program.path);
        // One program and what a launcher starts are one job; whatever another program starts may be several, of any MPI.
        out.open = !found.is_launched && &program != &found.programs.front();
        return {};
    }
    out.open = !found.is_launched;
    return without;
}

}  // namespace

Flavour find_flavour(const std::vector<std::string>& command) {
    Flavour out;
    const auto found = programs_of(command);
    if (!found.launcher.empty()) out.launcher = mpi_of_launcher(found.launcher);
    const auto without = read_programs(found, out);
    if (out.mpi != Mpi::none) return out;
    if (out.launcher != Mpi::none) {
        out.mpi = out.launcher;
        out.why = fmt::format("{} belongs to it", found.launcher);
    } else if (!without.empty() && !out.obstacle.empty()) {
        out.why = out.obstacle;
        out.certainly_none = true;
    } else if (!without.empty() && found.launcher.empty()) {
        out.why = fmt::format("{} is not linked with an MPI library", without);
    } else {
        out.open = true;
        out.why = found.launcher.empty() ? "no program in the command says which MPI it uses"
                                         : fmt::format("{} does not say to which MPI it belongs", found.launcher);
    }
    return out;
}

}  // namespace polter::launch
