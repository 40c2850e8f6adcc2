// SPDX-License-Identifier: BSD-3-Clause
// polter advise: what to change on the machine, and what each change would save.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "../../analyzers/advice/advice.hpp"
#include "../../tracer/launch/launch.hpp"
#include "../progress_bar.hpp"
#include "../result_text.hpp"
#include "../verb.hpp"

namespace polter::cli {

namespace {

struct AdviseArguments {
    Common common;
    std::string trace;
    double least = 0.5;
    size_t most = 8;
};

void run_advise(const AdviseArguments& arguments) {
    go_apart();
    launch::seal_left_behind(arguments.trace, false);
    advice::Options options;
    options.trace = arguments.trace;
    options.least = arguments.least / 100;
    options.most = arguments.most;
    if (!arguments.common.quiet && isatty(STDERR_FILENO)) options.progress = progress_bar();
    const advice::Advice found = advice::advise(options);
    if (arguments.common.json)
        fmt::print("{}\n", advice::to_json(found).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        fmt::print("{}", advice::to_text(found, text_options()));
}

}  // namespace

void add_advise(CLI::App& parent) {
    auto* verb = parent.add_subcommand("advise", "What to change on the machine, and what each change would save");
    const auto arguments = std::make_shared<AdviseArguments>();
    add_common(*verb, arguments->common);
    verb->add_option("TRACE", arguments->trace, "Directory that polter run wrote, or an .otf2 file with noise metrics")
        ->required()
        ->check(named);
    verb->add_option("--least", arguments->least, "Leave out what saves less, in percent of the run time")
        ->check(CLI::Range(0.0, 100.0))
        ->capture_default_str();
    verb->add_option("--most", arguments->most, "At most so many suggestions")->check(CLI::Range(1, 64))->capture_default_str();
    verb->footer("Example: polter advise polter-lmp-20260102-030405");
    verb->callback([arguments] { run_advise(*arguments); });
}

}  // namespace polter::cli
