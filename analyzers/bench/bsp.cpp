// SPDX-License-Identifier: BSD-3-Clause
#include "bsp.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "job.hpp"
#include "launch.hpp"
#include "layout.hpp"
#include "programs/flavour.hpp"

namespace polter::bench {

namespace fs = std::filesystem;

const std::vector<std::string> workloads = {"work", "time", "dgemm", "spmv", "hpcg"};
const std::vector<std::string> collectives = {"barrier", "allreduce", "bcast", "reduce", "alltoall", "none"};

namespace {

std::string launcher_name(const std::string& mpi) {
    const std::string own = "mpirun." + mpi;  // where both are installed
    return launch::find_program(own) ? own : "mpirun";
}

std::string program_for(const std::string& mpi) {
    const auto program = launch::find_part("polter-bsp-" + mpi);
    if (program.empty())
        throw launch::Error(
            fmt::format("the benchmark for {} (polter-bsp-{}) is not installed beside {}: build Poltergeist with that MPI's "
                        "development package, or choose another --mpi",
                        mpi, mpi, (launch::executable_folder() / "polter").string()));
    return program;
}

}  // namespace

std::string mpi_of(const Bsp& bsp) {
    if (!bsp.mpi.empty()) return bsp.mpi;
    const std::vector<std::string> known = {"openmpi", "mpich"};
    if (!bsp.launcher.empty()) {
        // The program is not among the words yet: what counts is whose launcher it is.
        const auto flavour = launch::find_flavour(bsp.launcher);
        for (const auto mpi : {flavour.launcher, flavour.mpi})
            if (mpi != launch::Mpi::none) return launch::name_of(mpi);
    }
    for (const std::string& mpi : known)
        if (!launch::find_part("polter-bsp-" + mpi).empty() && launch::find_program("mpirun." + mpi)) return mpi;
    for (const std::string& mpi : known)
        if (!launch::find_part("polter-bsp-" + mpi).empty()) return mpi;
    return known.front();
}

std::vector<std::string> launcher_of(const std::string& mpi, int ranks) {
    return {launcher_name(mpi), "-n", std::to_string(ranks), mpi == "openmpi" ? "--bind-to" : "-bind-to", "core"};
}

std::vector<std::string> command_of(const Bsp& bsp, const std::string& file) {
    const std::string mpi = mpi_of(bsp);
    auto command = bsp.launcher.empty() ? launcher_of(mpi, bsp.ranks) : bsp.launcher;
    command.push_back(program_for(mpi));
    for (const auto& word :
         {bsp.workload, std::to_string(bsp.grain_ns), std::to_string(bsp.units), std::to_string(bsp.phases), std::to_string(bsp.warmups),
          bsp.collective, fmt::format("{}", bsp.imbalance_percent), std::to_string(bsp.halo), std::to_string(bsp.size), file})
        command.push_back(word);
    return command;
}

std::string run_bsp(const Bsp& bsp) {
    auto folder = (fs::temp_directory_path() / "polter-bench-XXXXXX").string();
    if (!mkdtemp(folder.data())) throw launch::Error(fmt::format("{}: no temporary folder can be made; set TMPDIR", folder));
    const auto file = fs::path(folder) / "bsp.json";
    std::string text;
    int code = 0;
    try {
        const auto command = command_of(bsp, file);
        launch::Flavour flavour;
        flavour.mpi = flavour.launcher = *launch::mpi_named(mpi_of(bsp));
        if (const auto refusal = launch::refusal_as_root(flavour, command); !refusal.empty()) throw launch::Error(refusal);
        code = launch::run_job(command, {}, {false, true, {}});
        std::ostringstream content;
        content << std::ifstream(file).rdbuf();
        text = content.str();
    } catch (...) {
        fs::remove_all(folder);
        throw;
    }
    fs::remove_all(folder);
    if (code != 0) throw launch::Error(fmt::format("the benchmark ended with exit code {}; its messages are above", code));
    if (text.empty()) throw launch::Error("the benchmark left no result: the launcher started none of its ranks, or on another node");
    return text;
}

}  // namespace polter::bench
