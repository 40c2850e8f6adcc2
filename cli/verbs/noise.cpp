// SPDX-License-Identifier: BSD-3-Clause
// polter noise: what the operating system does on this node.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "../../kmodule/node/interrupt.hpp"
#include "../../kmodule/node/observe.hpp"
#include "../../kmodule/node/summary.hpp"
#include "../result_text.hpp"
#include "../verb.hpp"
#include "noise_loop.hpp"
#include "replay/base/printable.hpp"

namespace polter::cli {
namespace {

struct NoiseArguments {
    Common common;
    node::TextOptions text;
    double seconds = 10;
    bool live = false;
    LoopArguments loop;
    CLI::Option* seconds_option = nullptr;
};

std::string formatted(const NoiseArguments& arguments, const node::Observation& observation, const char* measured_by, int indent) {
    if (!arguments.common.json) {
        node::TextOptions options = arguments.text;
        options.columns = output_columns();
        return wrap(replay::printable(node::to_text(observation, measured_by, options), true), options.columns);
    }
    return node::to_json(observation, measured_by).dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void watch(const NoiseArguments& arguments) {
    node::Interrupt interrupt;
    auto made = node::make_observer();
    if (const auto* why = std::get_if<std::string>(&made))
        throw std::runtime_error(fmt::format(
            "noise: the node cannot be observed: {}; try: sudo polter noise (polter noise --loop selfish needs no privilege)", *why));
    auto& observer = *std::get<0>(made);

    std::function<void(const node::Observation&)> each_second;
    const bool redraw = isatty(STDOUT_FILENO) != 0 && !arguments.common.json;
    if (arguments.live)
        each_second = [&](const node::Observation& last) {
            fmt::print("{}{}{}", redraw ? "\033[H\033[J" : "", formatted(arguments, last, observer.name(), -1),
                       redraw || arguments.common.json ? "" : "\n");
            std::fflush(stdout);
        };
    const bool endless = arguments.live && arguments.seconds_option->count() == 0;
    const auto whole = node::observe(observer, endless ? 0 : static_cast<std::uint64_t>(arguments.seconds * 1e9), each_second);
    if (arguments.live && !arguments.common.json) fmt::print("\nThe whole time:\n");
    fmt::print("{}", formatted(arguments, whole, observer.name(), arguments.live ? -1 : 2));
}

}  // namespace

void add_noise(CLI::App& parent) {
    auto* verb = parent.add_subcommand("noise", "Show the OS noise of this node, without any program: by source and process");
    const auto arguments = std::make_shared<NoiseArguments>();
    add_common(*verb, arguments->common);
    arguments->seconds_option =
        verb->add_option("--seconds", arguments->seconds, "Duration; Ctrl-C ends it earlier (default: 10; with --live: until Ctrl-C)")
            ->check(CLI::Range(0.01, 1e6))
            ->capture_default_str()
            ->option_text("S");
    verb->add_flag("--live", arguments->live, "Also print every second (with --json: one line each, the last for the whole time)");
    verb->add_flag("--per-cpu", arguments->text.per_cpu, "Also list by CPU (JSON: always)");
    verb->add_flag("--histogram", arguments->text.histogram, "Also show a histogram of the durations for each source (JSON: always)");
    verb->add_option("--top", arguments->text.top, "Processes or devices shown for each source")
        ->check(CLI::Range(0, 100000))
        ->capture_default_str();
    add_loop_options(*verb, arguments->loop);
    verb->footer(
        "Needs root, or CAP_BPF and CAP_PERFMON; --loop needs no privilege, but explains more with it.\n"
        "Example: sudo polter noise --seconds 30\n"
        "         sudo polter noise --live --per-cpu\n"
        "         sudo polter noise --json --seconds 60 > node.json\n"
        "         sudo polter noise --loop selfish --cpu 3   # what a program on that CPU loses, and to what");
    verb->callback([arguments] {
        if (arguments->loop.kind.empty())
            watch(*arguments);
        else
            run_loop(arguments->loop, arguments->common, arguments->seconds, arguments->text.top, arguments->text.histogram);
    });
}

}  // namespace polter::cli
