// SPDX-License-Identifier: BSD-3-Clause
// polter report: the result of a replay as one page; of several traces, side by side.
#include "analyzers/report/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "../../tracer/launch/launch.hpp"
#include "../progress_bar.hpp"
#include "../report.hpp"
#include "../sides.hpp"
#include "../verb.hpp"
#include "analyzers/report/data.hpp"
#include "replay/base/printable.hpp"

namespace polter::cli {

void write_report(const std::vector<std::vector<std::string>>& sides, const std::string& file, std::function<void(double)> progress) {
    report::write(report::render(report::data_of({.sides = sides, .latency = {}, .quality = {}, .prediction = {}, .progress = std::move(progress)})), file);
}

std::string report_beside(const std::string& trace) {
    const std::filesystem::path path(trace);
    return ((path.extension() == ".otf2" ? path.parent_path() : path) / "report.html").string();
}

namespace {

struct ReportArguments {
    Common common;
    std::vector<std::string> traces;
    std::string output, latency, quality, prediction;
};

// One trace: its name as it is, commas and all.
std::vector<std::vector<std::string>> sides_of(const std::vector<std::string>& traces) {
    if (traces.size() == 1) return {{traces.front()}};
    std::vector<std::vector<std::string>> sides;
    for (const std::string& side : traces) sides.push_back(runs_of(side));
    return sides;
}

void run_report(const ReportArguments& arguments) {
    report::check_built();
    go_apart();
    const auto sides = sides_of(arguments.traces);
    for (const auto& side : sides)
        for (const std::string& trace : side) launch::seal_left_behind(trace, false);
    const std::string file = !arguments.output.empty() ? arguments.output : sides.size() > 1 ? "report.html" : report_beside(sides[0][0]);
    const bool shows = !arguments.common.quiet && isatty(STDERR_FILENO);
    report::write(report::render(report::data_of({sides, arguments.latency, arguments.quality, arguments.prediction, shows ? progress_bar() : nullptr})), file);
    if (arguments.common.json)
        fmt::print("{}\n", nlohmann::json{{"schema", "polter.report/1"}, {"traces", sides}, {"report", file}}.dump(
                               2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        fmt::print("{}\n", replay::printable(file));
}

}  // namespace

void add_report(CLI::App& parent) {
    if (report::page().empty()) return;  // built without Node.js
    auto* verb = parent.add_subcommand("report", "Write the result as one HTML page with the timeline; it needs no network");
    const auto arguments = std::make_shared<ReportArguments>();
    add_common(*verb, arguments->common);
    verb->add_option("TRACE", arguments->traces,
                     "Directory that polter run wrote, or an .otf2 file of any tool; several: side by side, runs of one side joined by "
                     "commas (polter compare)")
        ->required()
        ->expected(1, 26)
        ->check(some_run);
    verb->add_option("-o,--output", arguments->output,
                     "The page (replaced if it exists); default: report.html in the trace's directory, of several traces here")
        ->type_name("FILE")
        ->check(named);
    verb->add_option("--latency", arguments->latency, "Also show this result of polter latency -o")->option_text("FILE")->check(named);
    verb->add_option("--quality", arguments->quality, "Also show this result of polter quality --json")->option_text("FILE")->check(named);
    verb->add_option("--predict", arguments->prediction, "Also show this result of polter predict --json")
        ->option_text("FILE")
        ->check(named);
    verb->footer(
        "Prints the name of the page. It opens from disk in any current browser, and makes no request.\n"
        "Example: polter report polter-lmp-20260102-030405 -o lmp.html\n"
        "         polter report polter-lmp-before polter-lmp-after");
    verb->callback([arguments] { run_report(*arguments); });
}

}  // namespace polter::cli
