// SPDX-License-Identifier: BSD-3-Clause
#include "job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "../tracer/launch/exporter.hpp"
#include "../tracer/launch/flavour.hpp"
#include "../tracer/launch/standard_streams.hpp"
#include "replay/replay.hpp"
#include "wording.hpp"

namespace polter::cli {
namespace {

namespace fs = std::filesystem;

std::string shown(const fs::path& path) {
    std::error_code error;
    auto relative = fs::relative(path, error);
    return error || relative.string().starts_with("..") ? path.string() : relative.string();
}

nlohmann::json run_json(const launch::Outcome& outcome) {
    return {{"experiment", outcome.experiment.empty() ? nlohmann::json() : nlohmann::json(outcome.experiment.string())},
            {"exit_code", outcome.exit_code},
            {"wall_ns", outcome.wall_ns},
            {"exporter",
             {{"name", outcome.exporter},
              {"why", outcome.exporter_why},
              {"unseen", outcome.unseen},
              {"limits", outcome.limits},
              {"events_not_shown", outcome.events_not_shown}}},
            {"own_cost_ns", outcome.own_cost_ns ? nlohmann::json(*outcome.own_cost_ns) : nlohmann::json()},
            {"no_trace", outcome.no_trace.empty() ? nlohmann::json() : nlohmann::json(outcome.no_trace)},
            {"measured_by", outcome.measured_by.empty() ? nlohmann::json() : nlohmann::json(outcome.measured_by)},
            {"not_measured", outcome.not_measured.empty() ? nlohmann::json() : nlohmann::json(outcome.not_measured)},
            {"warnings", outcome.warnings}};
}

void print_text(const launch::Outcome& outcome, const replay::Result& result) {
    const auto text = fmt::format("\n{}\nMore: polter replay {}\n", replay::to_short_text(result), shown(outcome.experiment));
    fmt::print("{}", wrap(text, terminal_width(STDOUT_FILENO)));
}

}  // namespace

void add_job_options(CLI::App& verb, JobArguments& arguments) {
    add_common(verb, arguments.common);
    auto& launch = arguments.launch;
    verb.add_option("-o,--output", launch.output, "Experiment directory (never overwritten)")->type_name("DIR")->check(named);
    verb.add_option("--exporter", launch.exporter, "What measures the noise (also POLTER_EXPORTER): auto takes the best that works")
        ->check(CLI::IsMember(launch::exporter_names()))
        ->option_text("NAME: auto, module, bpf, perf, proc or none");
    verb.add_option("--mpi", launch.mpi, "Which MPI the program uses, where that cannot be found out (also POLTER_MPI)")
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
        if (arguments.common.json) fmt::print("{}\n", nlohmann::json{{"run", run_json(outcome)}}.dump(2));
        tell(outcome.no_trace);
        throw Exit{outcome.exit_code || outcome.trace_failed ? outcome.exit_code : 1};
    }
    if (!outcome.sealed) throw Exit{outcome.exit_code};
    go_apart(outcome.exit_code);
    replay::Options options;
    options.trace = outcome.experiment;
    try {
        auto result = replay::replay(options);
        if (arguments.common.json) {
            auto json = replay::to_json(result);
            json["run"] = run_json(outcome);
            fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
        } else {
            print_text(outcome, result);
        }
    } catch (const std::exception& error) {
        // The job has ended as it has, whatever its trace is like. A result that cannot be printed is another matter.
        const bool not_printed = std::ferror(stdout) != 0;
        tell(error);
        if (not_printed && outcome.exit_code == 0) throw Exit{1};
    }
    throw Exit{outcome.exit_code};
}

}  // namespace polter::cli
