// SPDX-License-Identifier: BSD-3-Clause
// polter variability: how much intervals vary, and how long they will take on more ranks.
#include "analyzers/variability/variability.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "../../../tracer/launch/launch.hpp"
#include "../../progress_bar.hpp"
#include "../../result_text.hpp"
#include "../../verb.hpp"

namespace polter::cli {

namespace {

struct VariabilityArguments {
    Common common;
    variability::Options options;
    bool all = false, no_noise = false;
};

void run_variability(VariabilityArguments arguments) {
    go_apart();
    for (const std::string& input : {arguments.options.input, arguments.options.check})
        if (std::filesystem::is_directory(input)) launch::seal_left_behind(input, false);
    arguments.options.noise = !arguments.no_noise;
    if (!arguments.common.quiet && isatty(STDERR_FILENO)) arguments.options.progress = progress_bar();
    const variability::Result result = variability::analyze(arguments.options);
    replay::TextOptions layout = text_options();
    layout.all = arguments.all;
    if (arguments.common.json)
        fmt::print("{}\n", variability::to_json(result).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        fmt::print("{}", variability::to_text(result, layout));
}

}  // namespace

void add_variability(CLI::App& parent) {
    auto* verb =
        parent.add_subcommand("variability", "How much intervals between collectives vary, and how long they will take on more ranks");
    const auto arguments = std::make_shared<VariabilityArguments>();
    add_common(*verb, arguments->common);
    auto& options = arguments->options;
    verb->add_option("INPUT", options.input,
                     "What polter bench bsp --json printed, a directory that polter run wrote, or an .otf2 file of any tool")
        ->required()
        ->check(named);
    verb->add_option("--ranks", options.ranks, "Project to so many ranks; default: 2, 4, 8 and 16 times as many as measured")
        ->delimiter(',')
        ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}))
        ->option_text("N[,N...]");
    verb->add_option("--check", options.check, "Compare the projection with this input, measured on more ranks")
        ->option_text("INPUT")
        ->check(named);
    verb->add_option("--seed", options.seed, "Of the resampling; the same seed gives the same answer")
        ->capture_default_str()
        ->option_text("N");
    verb->add_flag("--all", arguments->all, "Show all kinds of intervals, and the paper's parametric projections");
    verb->add_flag("--no-noise", arguments->no_noise, "Do not replay a trace: OS noise is not told apart");
    verb->footer(
        "Intervals end with a blocking collective of all ranks. The program must do as much on each rank, however many there are.\n"
        "Example: polter bench bsp --phases 1000 --json > bsp.json; polter variability bsp.json --ranks 1024\n"
        "         polter variability polter-lmp-20260102-030405");
    verb->callback([arguments] { run_variability(*arguments); });
}

}  // namespace polter::cli
