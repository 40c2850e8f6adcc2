// SPDX-License-Identifier: BSD-3-Clause
#include "job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "../tracer/launch/exporter.hpp"
#include "../tracer/launch/programs/flavour.hpp"
#include "../tracer/launch/standard_streams.hpp"
#include "replay/base/printable.hpp"
#include "replay/trace/child_process.hpp"
#include "report.hpp"
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
    const auto recorded = [&verb](const char* flag, auto& value, const char* help, const char* form,
                                  std::string (*wrong)(const std::string&)) {
        return verb.add_option(flag, value, help)
            ->type_name(form)
            ->check(CLI::Validator([wrong](std::string& text) { return wrong(text); }, ""));
    };
    auto& recording = launch.recording;
    verb.add_option("--calls", recording.what,
                    "all: also local MPI functions that cannot wait (MPI_Comm_rank, MPI_Type_size, ...), and each failing poll of a loop; "
                    "usual: a failing poll that repeats is counted")
        ->check(CLI::IsMember({"usual", "all"}))
        ->option_text("WHAT: usual or all");
    recorded("--include", recording.include,
             "Of local MPI functions, record these only, those that cannot wait too; docs/support-matrix.md lists them", "FUNCTION,...",
             launch::wrong_include)
        ->delimiter(',')
        ->allow_extra_args(false);
    recorded("--exclude", recording.exclude, "Do not record these local MPI functions; * and ? stand for other characters", "FUNCTION,...",
             launch::wrong_exclude)
        ->delimiter(',')
        ->allow_extra_args(false);
    recorded("--ranks", recording.ranks, "Record user regions, counters and local functions of these ranks only", "LIST",
             launch::wrong_ranks);
    recorded("--window", recording.window, "The same for a time: from and to, in seconds since MPI_Init", "FROM:TO", launch::wrong_window);
    recorded(
        "--clock-interval", recording.clock_interval,
        "Compare the clocks of the job's hosts about so often too, at collectives of all ranks (else at MPI_Init and MPI_Finalize only)",
        "SECONDS", launch::wrong_interval);
    recorded("--buffer", recording.buffer, "Memory for the events of each thread before they are written (default 1M)", "SIZE",
             launch::wrong_buffer);
    verb.add_option("--perf", recording.perf, "Count these events of perf_event at MPI calls and user regions; names as libpfm4 has them")
        ->type_name("EVENT,...")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(named);
    verb.add_option("--papi", recording.papi, "The same for events of PAPI")
        ->type_name("EVENT,...")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(named);
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

namespace {

// In a child process, as damaged archives can kill the OTF2 library. The page's name goes where status messages go with --json.
void report_job(const launch::Traced& traced, bool as_json) {
    const std::string file = report_beside(traced.experiment.string());
    const pid_t self = getpid();
    std::fflush(nullptr);
    const auto end = replay::go_apart();
    if (!end) {
        int code = 0;
        try {
            write_report({{traced.experiment.string()}}, file);
        } catch (const std::exception& error) {
            tell(error);
            code = 1;
        }
        if (getpid() != self) _exit(code);
        if (code != 0) return;
    } else if (!end->error.empty()) {
        return tell(end->error);
    } else if (end->signal) {
        return tell(fmt::format("{}: the report was not written: signal {} ended it; polter report {} tries again", file, end->signal,
                                traced.experiment.string()));
    } else if (end->exit_code != 0) {
        return;
    }
    if (as_json)
        tell("report: " + file);
    else
        fmt::print("Report: {}\n", replay::printable(file));
}

}  // namespace

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
        if (outcome.sealed && arguments.sealed) arguments.sealed(outcome);
        if (outcome.sealed) print_results(outcome, arguments.common.json);
        if (outcome.sealed && arguments.report)
            for (const launch::Traced& traced : outcome.traced) report_job(traced, arguments.common.json);
    } catch (const std::exception& error) {
        // The job has ended as it has, whatever its trace is like. A result that cannot be printed is another matter.
        const bool not_printed = std::ferror(stdout) != 0;
        tell(error);
        if (not_printed && outcome.exit_code == 0) throw Exit{1};
    }
    throw Exit{outcome.exit_code};
}

}  // namespace polter::cli
