// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <netdb.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <sstream>

#include "../launch/capture.hpp"
#include "../launch/programs/flavour.hpp"
#include "../launch/layout.hpp"
#include "doctor.hpp"

namespace polter::doctor {
namespace {

struct Known {
    launch::Mpi mpi;
    const char* package;
    std::array<const char*, 3> launchers;
};
constexpr Known known[] = {
    {launch::Mpi::openmpi, "openmpi-bin libopenmpi-dev", {"mpirun.openmpi", "mpirun", "mpiexec"}},
    {launch::Mpi::mpich, "mpich libmpich-dev", {"mpirun.mpich", "mpirun", "mpiexec"}},
};

// "Open MPI) 4.1.4" and "Version: 4.0.2": the first word with a digit and a dot.
std::string version_in(const std::string& text) {
    std::istringstream words(text);
    for (std::string word; words >> word;)
        if (!word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) && word.find('.') != word.npos) return word;
    return "of unknown version";
}

Finding mpi(const Known& one) {
    Finding f{"mpi", launch::name_of(one.mpi), State::fails, {}, {}};
    const bool traced = !launch::find_part(launch::preload_library(one.mpi)).empty();
    std::string launcher;
    for (const char* name : one.launchers)
        if (launcher.empty() && launch::find_program(name) && launch::find_flavour({name}).launcher == one.mpi) launcher = name;
    if (launcher.empty()) {
        f.text = fmt::format("no launcher of it along PATH{}", traced ? "" : ", and no tracer built for it");
        f.mend = fmt::format("sudo apt-get install {}{}", one.package, traced ? "" : " && ./scripts/build");
        return f;
    }
    f.text = fmt::format("{} {}", launcher, version_in(launch::capture({*launch::find_program(launcher), "--version"}, 10)));
    if (!traced) {
        f.text += fmt::format(", but no {} beside polter: its headers were missing when this was built", launch::preload_library(one.mpi));
        f.mend = fmt::format("sudo apt-get install {} && ./scripts/build", one.package);
        return f;
    }
    f.state = State::works;
    if (one.mpi == launch::Mpi::openmpi && geteuid() == 0 &&
        (!std::getenv("OMPI_ALLOW_RUN_AS_ROOT") || !std::getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"))) {
        f.state = State::note;
        f.text += "; it refuses to run as root";
        f.mend = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
    }
    return f;
}

}  // namespace

Findings mpis() {
    Findings all;
    for (const auto& one : known) all.push_back(mpi(one));
    return all;
}

Finding host_name() {
    char name[HOST_NAME_MAX + 1] = "";
    gethostname(name, sizeof name - 1);
    const auto begin = std::chrono::steady_clock::now();
    addrinfo* found = nullptr;
    const addrinfo hints{.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};  // what gethostid(3) asks for
    const int error = getaddrinfo(name, nullptr, &hints, &found);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (found) freeaddrinfo(found);
    Finding f{"limit", "host name", State::works, fmt::format("{} is found in {:.3f} s", name, seconds), {}};
    if (error == 0 && seconds < 0.5) return f;
    f.state = State::note;
    f.text = fmt::format("{} is {} in {:.1f} s, and OTF2 asks for it whenever an archive is opened", name,
                         error ? "not found" : "found only", seconds);
    f.mend = fmt::format("echo '127.0.1.1 {}' | sudo tee -a /etc/hosts", name);
    return f;
}

}  // namespace polter::doctor
