// SPDX-License-Identifier: BSD-3-Clause
// What `polter run` and `polter exec` share: their options, and the result that they end with.
#pragma once

#include <functional>

#include "../tracer/launch/launch.hpp"
#include "verb.hpp"

namespace polter::cli {

struct JobArguments {
    Common common;
    launch::Options launch;
    bool report = false;                                 // also write the page
    std::function<void(const launch::Outcome&)> sealed;  // called once the traces are there, before the result is printed; may be empty
};

// Declares the options; what follows them is the command.
void add_job_options(CLI::App& verb, JobArguments&);
// The command from what the parser left over. Throws CLI::ParseError if there is none, or an unknown option in its place.
void take_command(const CLI::App& verb, JobArguments&);

// Replays the experiment that the job left, if this process sealed one, prints the short result or the JSON form, and leaves with the
// job's exit code.
void finish_job(const JobArguments&, const launch::Outcome&);

}  // namespace polter::cli
