// SPDX-License-Identifier: BSD-3-Clause
// polter predict: what noise would cost the program of a trace on more ranks.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "../../../tracer/launch/launch.hpp"
#include "../../progress_bar.hpp"
#include "../../result_text.hpp"
#include "../../verb.hpp"
#include "analyzers/prediction/prediction.hpp"

namespace polter::cli {

namespace {

struct PredictArguments {
    Common common;
    prediction::Options options;
    bool recorded = false;
};

void run_predict(PredictArguments arguments) {
    go_apart();
    launch::seal_left_behind(arguments.options.trace, false);
    arguments.options.resample = !arguments.recorded;
    if (!arguments.common.quiet && isatty(STDERR_FILENO)) arguments.options.progress = progress_bar();
    const prediction::Result result = prediction::predict(arguments.options);
    if (arguments.common.json)
        fmt::print("{}\n", prediction::to_json(result).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        fmt::print("{}", prediction::to_text(result, text_options()));
}

}  // namespace

void add_predict(CLI::App& parent) {
    auto* verb = parent.add_subcommand("predict", "What noise would cost the program on more ranks, from one trace");
    const auto arguments = std::make_shared<PredictArguments>();
    add_common(*verb, arguments->common);
    verb->add_option("TRACE", arguments->options.trace, "Directory that polter run wrote, or an .otf2 file of any tool")
        ->required()
        ->check(named);
    verb->add_option("--ranks", arguments->options.ranks, "Numbers of ranks to predict for, at least as many as measured")
        ->required()
        ->delimiter(',')
        ->type_name("N,...")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
    verb->add_option("--grid", arguments->options.grid, "Lengths of the grid that the ranks form; default: as the measured grid grows evenly")
        ->delimiter(',')
        ->type_name("X,Y,...")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
    verb->add_option("--draws", arguments->options.draws, "How often noise is drawn; the interval comes from that")
        ->capture_default_str()
        ->check(CLI::Range(10, 10000));
    verb->add_option("--seed", arguments->options.seed, "Of the draws; the same seed gives the same answer")->capture_default_str();
    verb->add_flag("--as-recorded", arguments->recorded, "Draw no noise: each copy keeps that of its rank, in its place");
    verb->footer(
        "Weak scaling: each rank has as much work as now. The messages must form a regular neighbourhood (ring, grid, pipeline), or\n"
        "there must be collectives only; else the answer is that there is no basis.\n"
        "Example: polter predict polter-lmp-20260102-030405 --ranks 256,1024");
    verb->callback([arguments] { run_predict(*arguments); });
}

}  // namespace polter::cli
