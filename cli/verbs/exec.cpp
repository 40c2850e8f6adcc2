// SPDX-License-Identifier: BSD-3-Clause
// polter exec: the same for one process of a launcher's own; the one that ends last prints the result.
#include <memory>

#include "../job.hpp"

namespace polter::cli {

void add_exec(CLI::App& parent) {
    auto* verb = parent.add_subcommand("exec", "Trace one process of a job that mpirun or srun starts");
    auto arguments = std::make_shared<JobArguments>();
    add_job_options(*verb, *arguments);
    verb->footer(
        "Put it between the launcher and the program. The process that ends last prints the result.\n"
        "All processes write to one directory, which must be on a shared file system if there are several nodes.\n"
        "Example: srun -n 64 polter exec ./app");
    verb->callback([verb, arguments] {
        take_command(*verb, *arguments);
        finish_job(*arguments, launch::exec(arguments->launch));
    });
}

}  // namespace polter::cli
