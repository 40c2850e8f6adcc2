// SPDX-License-Identifier: BSD-3-Clause
// polter exec: the same for one process of a launcher's own; the one that ends last prints the result.
#include <memory>

#include "../job.hpp"

namespace polter::cli {

void add_exec(CLI::App& parent) {
    auto* verb = parent.add_subcommand("exec", "Run one process of a launcher's job traced");
    auto arguments = std::make_shared<JobArguments>();
    add_job_options(*verb, *arguments);
    verb->footer(
        "All processes of the job share one experiment directory, which must be on a file system that all of them see.\n"
        "Example: srun -n 64 polter exec ./app");
    verb->callback([verb, arguments] {
        take_command(*verb, *arguments);
        finish_job(*arguments, launch::exec(arguments->launch));
    });
}

}  // namespace polter::cli
