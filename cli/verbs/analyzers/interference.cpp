// SPDX-License-Identifier: BSD-3-Clause
// polter interference: how much of a run was interference, estimated from that run alone.
#include "analyzers/interference/interference.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "../../../tracer/launch/launch.hpp"
#include "../../progress_bar.hpp"
#include "../../result_text.hpp"
#include "../../together.hpp"
#include "../../verb.hpp"

namespace polter::cli {

namespace {

struct InterferenceArguments {
    Common common;
    interference::Options options;
    bool all = false, no_noise = false;
};

void run_interference(InterferenceArguments arguments, replay::Group* group) {
    const bool prints = !group || group->rank() == 0;
    arguments.options.noise = !arguments.no_noise;
    arguments.options.group = group;
    if (prints && !arguments.common.quiet && isatty(STDERR_FILENO)) arguments.options.progress = progress_bar();
    const interference::Result result = interference::analyze(arguments.options);
    if (!prints) return;
    replay::TextOptions layout = text_options();
    layout.all = arguments.all;
    if (arguments.common.json)
        fmt::print("{}\n", interference::to_json(result).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        fmt::print("{}", interference::to_text(result, layout));
}

}  // namespace

void add_interference(CLI::App& parent) {
    auto* verb = parent.add_subcommand("interference", "How much of a run was interference from outside, estimated from that run alone");
    const auto arguments = std::make_shared<InterferenceArguments>();
    add_common(*verb, arguments->common);
    verb->add_option("TRACE", arguments->options.traces,
                     "Directory that polter run wrote, or an .otf2 file of any tool; of several runs, the estimates are also compared with "
                     "what each took longer than the fastest")
        ->required()
        ->check(named);
    verb->add_flag("--all", arguments->all, "Show all groups, and each of several runs by itself");
    verb->add_flag("--no-noise", arguments->no_noise, "Do not replay the runs: nothing is said about OS noise");
    verb->footer(
        "The program must have blocking collectives of all ranks (Barrier, Allreduce, ...), at most some 100 a second.\n"
        "Example: polter interference polter-lmp-20260102-030405\n"
        "         polter interference run1 run2 run3\n"
        "         mpirun -n 4 polter interference DIR      # a large trace: four processes replay it, the same result");
    verb->callback([arguments] {
        together_or_apart({.prepare =
                               [&] {
                                   for (const std::string& trace : arguments->options.traces) launch::seal_left_behind(trace, false);
                               },
                           .run = [&](replay::Group* group) { run_interference(*arguments, group); }});
    });
}

}  // namespace polter::cli
