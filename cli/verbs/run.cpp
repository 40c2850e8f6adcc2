// SPDX-License-Identifier: BSD-3-Clause
// polter run: runs a job traced and says what the noise cost it.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>

#include "../../tracer/launch/launcher_job.hpp"
#include "../job.hpp"
#include "../profile.hpp"
#include "analyzers/inject/alongside.hpp"
#include "analyzers/inject/delays.hpp"
#include "analyzers/quality/features.hpp"
#include "analyzers/quality/store.hpp"
#include "analyzers/report/report.hpp"
#include "replay/trace/child_process.hpp"

namespace polter::cli {

namespace {

// In a child process, as damaged archives can kill the OTF2 library.
void align_logs(const launch::Outcome& outcome) {
    const auto log = outcome.experiment / inject::log_name;
    const bool injected = std::filesystem::exists(log), delayed = inject::has_delays(outcome.experiment);
    if (!injected && !delayed) return;
    const pid_t self = getpid();
    std::fflush(nullptr);
    const auto end = replay::go_apart();
    if (!end) {
        int code = 0;
        try {
            for (auto traced = outcome.traced.rbegin(); traced != outcome.traced.rend(); ++traced)
                if (injected) inject::align_log(log, traced->experiment);
            if (delayed) inject::align_delays(outcome.experiment, inject::first_event_ns(outcome.experiment));
        } catch (const std::exception& error) {
            tell(error);
            code = 1;
        }
        if (getpid() != self) _exit(code);
        return;
    }
    if (!end->error.empty() || end->signal)
        tell(
            fmt::format("{}: the times in the logs of injected noise and delays do not count from the trace's first event: the trace "
                        "could not be read",
                        outcome.experiment.string()));
}

struct Recorded {
    std::string history;
    double size = 0;
    int64_t started_s = 0;
};

// Adds the MPI jobs of the command to the history, in a child process too.
void record(const launch::Outcome& outcome, const Recorded& recorded) {
    if (outcome.exit_code != 0 || outcome.traced.empty()) {
        tell(fmt::format("{}: the job is not recorded, as it {}", recorded.history,
                         outcome.exit_code != 0
                             ? fmt::format("failed (exit code {}): its run time says nothing of others", outcome.exit_code)
                             : "left no trace"));
        return;
    }
    const pid_t self = getpid();
    std::fflush(nullptr);
    const auto end = replay::go_apart();
    if (!end) {
        int code = 0;
        try {
            for (const launch::Traced& traced : outcome.traced) {
                quality::Job job = quality::job_of(traced.experiment);
                job.size = recorded.size;
                job.started_s = recorded.started_s;
                quality::Store(recorded.history, true).add(std::move(job));
            }
        } catch (const std::exception& error) {
            tell(fmt::format("the job is not recorded: {}", error.what()));
            code = 1;
        }
        if (getpid() != self) _exit(code);
        return;
    }
    if (!end->error.empty() || end->signal)
        tell(fmt::format("{}: the job is not recorded, as its trace could not be read", recorded.history));
}

[[noreturn]] void end_job(const JobArguments& arguments, const launch::Outcome& outcome, const Recorded& recorded) {
    if (!outcome.sealed && !recorded.history.empty()) record(outcome, recorded);
    finish_job(arguments, outcome);
    throw Exit{outcome.exit_code};
}

}  // namespace

void add_run(CLI::App& parent) {
    auto* verb = parent.add_subcommand("run", "Trace an MPI job, and report what the noise cost it");
    auto arguments = std::make_shared<JobArguments>();
    add_job_options(*verb, *arguments);
    if (!report::page().empty())
        verb->add_flag("--report", arguments->report, "Also write the result as a page, report.html in the trace's directory");
    const auto injected = std::make_shared<std::vector<std::string>>();
    verb->add_option("--inject", *injected, "Inject known noise into the ranks of this node; SPEC as in polter inject; may be given again")
        ->option_text("SPEC")
        ->allow_extra_args(false);
    const auto delays = std::make_shared<std::vector<std::string>>();
    verb->add_option(
            "--delay", *delays,
            "Delay MPI calls or file I/O from inside, which is no OS noise: mpi,probability=0.1,mean=100us,sigma=20us,seed=1 or io,...")
        ->option_text("SPEC")
        ->allow_extra_args(false);
    const auto recorded = std::make_shared<Recorded>();
    auto* history = verb->add_option("--record", recorded->history, "Keep the job in this history, for polter quality")
                        ->option_text("DIR")
                        ->check(named);
    verb->add_option("--size", recorded->size, "Of the input, as a number: what the program's work grows with, for the history")
        ->needs(history)
        ->check(CLI::PositiveNumber)
        ->option_text("X");
    const auto profile = std::make_shared<bool>(false);
    verb->add_flag("--profile", *profile, "No trace: only what polter interference needs, in bounded memory and at less cost");
    verb->footer(
        "COMMAND is what you would type without polter: a launcher with its program, or the program alone.\n"
        "With --json, standard output has only the JSON; the job's own output goes to standard error.\n"
        "Example: polter run -o melt mpirun -n 4 lmp -in melt.in");
    verb->callback([verb, arguments, injected, delays, recorded, profile] {
        take_command(*verb, *arguments);
        if (const auto size = launch::launched_processes(); size > 1) {
            tell(
                fmt::format("run: a launcher started this as one of {} processes, and each would trace a job of its own; "
                            "use polter exec: mpirun -n {} polter exec {}",
                            size, size, arguments->launch.command.front()));
            throw Exit{2};
        }
        if (!delays->empty()) inject::preload_delays(*delays, arguments->launch.mpi, arguments->launch.command);
        if (*profile && !recorded->history.empty()) throw CLI::ExcludesError("--record", "--profile");
        if (*profile) return run_profiled(*arguments);
        recorded->started_s = std::time(nullptr);
        arguments->sealed = [recorded](const launch::Outcome& outcome) {
            align_logs(outcome);
            if (!recorded->history.empty()) record(outcome, *recorded);
        };
        if (injected->empty()) end_job(*arguments, launch::run(arguments->launch), *recorded);
        inject::Alongside alongside(*injected);
        arguments->launch.companion = &alongside;
        end_job(*arguments, launch::run(arguments->launch), *recorded);
    });
}

}  // namespace polter::cli
