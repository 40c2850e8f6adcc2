// SPDX-License-Identifier: BSD-3-Clause
// polter compare: how experiments differ, and which differences are more than noise.
#include "../../analyzers/compare/compare.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "../../tracer/launch/launch.hpp"
#include "../progress_bar.hpp"
#include "../result_text.hpp"
#include "../sides.hpp"
#include "../verb.hpp"

namespace polter::cli {

namespace {

struct CompareArguments {
    Common common;
    std::vector<std::string> sides;
    uint64_t seed = 1;
    bool all = false;
};

void run_compare(const CompareArguments& arguments) {
    go_apart();
    compare::Options options;
    for (const std::string& side : arguments.sides) options.sides.push_back(runs_of(side));
    for (const auto& side : options.sides)
        for (const std::string& trace : side) launch::seal_left_behind(trace, false);
    options.seed = arguments.seed;
    if (!arguments.common.quiet && isatty(STDERR_FILENO)) options.progress = progress_bar();
    const compare::Compared compared = compare::compare(options);
    replay::TextOptions layout = text_options();
    layout.all = arguments.all;
    if (arguments.common.json)
        fmt::print("{}\n", compare::to_json(compared).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        fmt::print("{}", compare::to_text(compared, layout));
}

}  // namespace

void add_compare(CLI::App& parent) {
    auto* verb =
        parent.add_subcommand("compare", "How experiments differ, by cause, process, rank and MPI call, and which differences are certain");
    const auto arguments = std::make_shared<CompareArguments>();
    add_common(*verb, arguments->common);
    verb->add_option("TRACE", arguments->sides, "Two or more traces; several runs of one side joined by commas: A1,A2,A3 B1,B2,B3")
        ->required()
        ->expected(2, 26)
        ->check(some_run);
    verb->add_option("--seed", arguments->seed, "Of the resampling of runs; the same seed gives the same answer")->capture_default_str();
    verb->add_flag("--all", arguments->all, "Show everything, also differences below 0.1 % of the run time");
    verb->footer(
        "Example: polter compare polter-lmp-before polter-lmp-after\n"
        "         polter compare before1,before2,before3 after1,after2,after3");
    verb->callback([arguments] { run_compare(*arguments); });
}

}  // namespace polter::cli
