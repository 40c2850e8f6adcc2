// SPDX-License-Identifier: BSD-3-Clause
#include "profile.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "../tracer/launch/counters.hpp"
#include "../tracer/launch/experiment.hpp"
#include "../tracer/launch/job.hpp"
#include "../tracer/launch/layout.hpp"
#include "../tracer/launch/programs/flavour.hpp"
#include "analyzers/interference/interference.hpp"
#include "analyzers/interference/profile.hpp"
#include "result_text.hpp"

namespace polter::cli {

void run_profiled(const JobArguments& arguments) {
    const auto& command = arguments.launch.command;
    const auto flavour = launch::find_flavour(command);
    std::string mpi = arguments.launch.mpi;
    if (mpi.empty() && (flavour.open || flavour.mpi == launch::Mpi::none))
        throw launch::Error("run: --profile needs to know the MPI of the program: --mpi openmpi or --mpi mpich");
    if (mpi.empty()) mpi = launch::name_of(flavour.mpi);
    const auto library = launch::find_part(fmt::format("libpolter-profile-{}.so", mpi));
    if (library.empty())
        throw launch::Error(
            fmt::format("libpolter-profile-{}.so is not installed beside polter: build it with that MPI's development package", mpi));
    if (const auto refusal = launch::refusal_as_root(flavour, command); !refusal.empty()) throw launch::Error(refusal);
    const auto counter = launch::counter_for_profile(arguments.launch.recording.perf, arguments.launch.recording.papi);
    const auto folder = launch::make_experiment(arguments.launch.output, launch::application_name(command, flavour.program)).string();
    const char* others = std::getenv("LD_PRELOAD");
    const std::string preloaded = others && *others ? fmt::format("{}:{}", library.string(), others) : library.string();
    launch::Environment environment{{"LD_PRELOAD", preloaded}, {"POLTER_PROFILE", folder}};
    if (!counter.empty()) environment.emplace_back("POLTER_PROFILE_COUNTER", counter);
    const int code = launch::run_job(command, environment, {false, arguments.common.json, {}});
    if (!interference::is_profile(folder)) {
        tell(fmt::format("run: {}: no rank left a profile: the program ended before MPI_Finalize, or is linked statically", folder));
        throw Exit{code ? code : 1};
    }
    interference::Options options;
    options.traces = {folder};
    const auto result = interference::analyze(options);
    if (arguments.common.json)
        fmt::print("{}\n", interference::to_json(result).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        fmt::print("{}", interference::to_text(result, text_options()));
    throw Exit{code};
}

}  // namespace polter::cli
