// SPDX-License-Identifier: BSD-3-Clause
// polter report: the result of a replay as one page.
#include "analyzers/report/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "../../tracer/launch/launch.hpp"
#include "../progress_bar.hpp"
#include "../report.hpp"
#include "../verb.hpp"
#include "replay/base/printable.hpp"

namespace polter::cli {

void write_report(const std::string& trace, const std::string& file, std::function<void(double)> progress) {
    replay::Options options;
    options.trace = trace;
    options.attribution = options.timeline = true;
    options.windows = 60;
    options.costliest = 40;
    options.progress = std::move(progress);
    report::write(report::render(replay::to_json(replay::replay(options))), file);
}

std::string report_beside(const std::string& trace) {
    const std::filesystem::path path(trace);
    return ((path.extension() == ".otf2" ? path.parent_path() : path) / "report.html").string();
}

namespace {

struct Arguments {
    Common common;
    std::string trace, output;
};

void run(const Arguments& arguments) {
    report::check_built();
    go_apart();
    launch::seal_left_behind(arguments.trace, false);
    const std::string file = arguments.output.empty() ? report_beside(arguments.trace) : arguments.output;
    const bool shows = !arguments.common.quiet && isatty(STDERR_FILENO);
    write_report(arguments.trace, file, shows ? progress_bar() : nullptr);
    if (arguments.common.json)
        fmt::print("{}\n", nlohmann::json{{"schema", "polter.report/1"}, {"trace", arguments.trace}, {"report", file}}.dump(
                               2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        fmt::print("{}\n", replay::printable(file));
}

}  // namespace

void add_report(CLI::App& parent) {
    auto* verb = parent.add_subcommand("report", "Write the result as one HTML page with the timeline; it needs no network");
    const auto arguments = std::make_shared<Arguments>();
    add_common(*verb, arguments->common);
    verb->add_option("TRACE", arguments->trace, "Directory that polter run wrote, or an .otf2 file of any tool")->required()->check(named);
    verb->add_option("-o,--output", arguments->output, "The page; default: report.html in the trace's directory (replaced if it exists)")
        ->type_name("FILE")
        ->check(named);
    verb->footer(
        "Prints the name of the page. It opens from disk in any current browser, and makes no request.\n"
        "Example: polter report polter-lmp-20260102-030405 -o lmp.html");
    verb->callback([arguments] { run(*arguments); });
}

}  // namespace polter::cli
