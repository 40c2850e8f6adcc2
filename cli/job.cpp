// SPDX-License-Identifier: BSD-3-Clause
#include "job.hpp"

#include <cstdio>

#include "../tracer/launch/exporter.hpp"
#include "../tracer/launch/programs/flavour.hpp"
#include "../tracer/launch/standard_streams.hpp"
#include "result.hpp"

namespace polter::cli {

void add_job_options(CLI::App& verb, JobArguments& arguments) {
    add_common(verb, arguments.common);
    auto& launch = arguments.launch;
    verb.add_option("-o,--output", launch.output, "Directory for the trace; default: polter-PROGRAM-TIME (never overwritten)")
        ->type_name("DIR")
        ->check(named);
    verb.add_option("--exporter", launch.exporter,
                    "How to measure the noise (also POLTER_EXPORTER); auto: the best that works, none: trace MPI only")
        ->check(CLI::IsMember(launch::exporter_names()))
        ->option_text("NAME: auto, module, bpf, perf, proc or none");
    verb.add_option("--mpi", launch.mpi, "MPI of the program, if it cannot be detected (also POLTER_MPI)")
        ->check(CLI::IsMember({"openmpi", "mpich"}))
        ->option_text("NAME: openmpi or mpich");
    verb.prefix_command();
}

void take_command(const CLI::App& verb, JobArguments& arguments) {
    auto& command = arguments.launch.command;
    command = verb.remaining();
    if (!command.empty() && command.front().starts_with("-")) throw CLI::ExtrasError(verb.get_name(), {command.front()});
    const auto& behind = behind_separator();
    // A "--" within the command is the command's own.
    if (!behind.empty()) command.insert(command.end(), behind.begin() + (command.empty() ? 1 : 0), behind.end());
    if (command.empty()) throw CLI::RequiredError("A command to run");
    launch::ignore_broken_pipes();
    arguments.launch.quiet = arguments.common.quiet;
    arguments.launch.output_to_error = arguments.common.json;
}

void finish_job(const JobArguments& arguments, const launch::Outcome& outcome) {
    std::fflush(stdout);
    if (!arguments.common.quiet)
        for (const auto& warning : outcome.warnings) tell(warning);
    if (!outcome.no_trace.empty()) {
        if (arguments.common.json) print_no_trace(outcome);
        tell(outcome.no_trace);
        throw Exit{outcome.exit_code || outcome.trace_failed ? outcome.exit_code : 1};
    }
    try {
        if (outcome.sealed) print_results(outcome, arguments.common.json);
    } catch (const std::exception& error) {
        // The job has ended as it has, whatever its trace is like. A result that cannot be printed is another matter.
        const bool not_printed = std::ferror(stdout) != 0;
        tell(error);
        if (not_printed && outcome.exit_code == 0) throw Exit{1};
    }
    throw Exit{outcome.exit_code};
}

}  // namespace polter::cli
