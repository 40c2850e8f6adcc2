// SPDX-License-Identifier: BSD-3-Clause
// polter run: runs a job traced and says what the noise cost it.
#include <fmt/format.h>

#include <memory>

#include "../../tracer/launch/launcher_job.hpp"
#include "../job.hpp"
#include "analyzers/report/report.hpp"

namespace polter::cli {

void add_run(CLI::App& parent) {
    auto* verb = parent.add_subcommand("run", "Trace an MPI job, and report what the noise cost it");
    auto arguments = std::make_shared<JobArguments>();
    add_job_options(*verb, *arguments);
    if (!report::page().empty())
        verb->add_flag("--report", arguments->report, "Also write the result as a page, report.html in the trace's directory");
    verb->footer(
        "COMMAND is what you would type without polter: a launcher with its program, or the program alone.\n"
        "With --json, standard output has only the JSON; the job's own output goes to standard error.\n"
        "Example: polter run -o melt mpirun -n 4 lmp -in melt.in");
    verb->callback([verb, arguments] {
        take_command(*verb, *arguments);
        if (const auto size = launch::launched_processes(); size > 1) {
            tell(
                fmt::format("run: a launcher started this as one of {} processes, and each would trace a job of its own; "
                            "use polter exec: mpirun -n {} polter exec {}",
                            size, size, arguments->launch.command.front()));
            throw Exit{2};
        }
        finish_job(*arguments, launch::run(arguments->launch));
    });
}

}  // namespace polter::cli
