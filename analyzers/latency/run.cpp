// SPDX-License-Identifier: BSD-3-Clause
// The benchmark as a command: which launcher, which of the programs, with which arguments, and what measures the ranks' noise.
#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "analyzers/bench/bsp.hpp"
#include "exporter.hpp"
#include "job.hpp"
#include "latency.hpp"
#include "launch.hpp"
#include "layout.hpp"
#include "programs/flavour.hpp"

namespace polter::latency {

namespace fs = std::filesystem;

namespace {

std::string program_for(const std::string& mpi) {
    const auto program = launch::find_part("polter-latency-" + mpi);
    if (program.empty())
        throw launch::Error(
            fmt::format("the benchmark for {} (polter-latency-{}) is not installed beside {}: build Poltergeist with that MPI's "
                        "development package, or "
                        "choose another --mpi",
                        mpi, mpi, (launch::executable_folder() / "polter").string()));
    return program;
}

// How the ranks, which inherit the environment, find what measures them.
void tell_ranks(const launch::Exporter& exporter) {
    setenv("POLTER_EXPORTER", exporter.name.c_str(), 1);
    if (!exporter.socket.empty()) setenv("POLTER_SOCKET", exporter.socket.c_str(), 1);
    if (!exporter.tracepoints.empty()) setenv("POLTER_TRACEPOINTS", exporter.tracepoints.c_str(), 1);
}

}  // namespace

std::string run(const Bench& bench, std::string& why) {
    bench::Bsp choice;
    choice.mpi = bench.mpi;
    choice.launcher = bench.launcher;
    const std::string mpi = bench::mpi_of(choice);
    auto folder = (fs::temp_directory_path() / "polter-latency-XXXXXX").string();
    if (!mkdtemp(folder.data())) throw launch::Error(fmt::format("{}: no temporary folder can be made; set TMPDIR", folder));
    struct Removed {
        const std::string& folder;
        ~Removed() {
            std::error_code ignored;
            fs::remove_all(folder, ignored);
        }
    } removed{folder};
    const auto file = fs::path(folder) / "latency.json";
    const auto exporter = launch::choose_exporter(bench.exporter, {});
    const bool noise = exporter.name != "none";
    why = exporter.name + (exporter.why.empty() ? "" : ": " + exporter.why);
    if (noise) tell_ranks(exporter);
    auto command = bench.launcher.empty() ? bench::launcher_of(mpi, bench.ranks) : bench.launcher;
    command.push_back(program_for(mpi));
    for (const auto& word :
         {std::to_string(bench.bytes), std::to_string(bench.trials), std::to_string(bench.warmups), std::to_string(bench.cycles),
          std::to_string(bench.bins.count), fmt::format("{}", bench.bins.width), fmt::format("{}", bench.bins.top),
          std::string(noise ? "1" : "0"), std::to_string(bench.shuffle), file.string()})
        command.push_back(word);
    launch::Flavour flavour;
    flavour.mpi = flavour.launcher = *launch::mpi_named(mpi);
    if (const auto refusal = launch::refusal_as_root(flavour, command); !refusal.empty()) throw launch::Error(refusal);
    const int code = launch::run_job(command, {}, {false, true, {}});
    if (code != 0) throw launch::Error(fmt::format("the benchmark ended with exit code {}; its messages are above", code));
    std::ostringstream content;
    content << std::ifstream(file).rdbuf();
    if (content.str().empty())
        throw launch::Error("the benchmark left no result: the launcher started none of its ranks, or rank 0 on another node");
    return content.str();
}

}  // namespace polter::latency
