// SPDX-License-Identifier: BSD-3-Clause
// polter export: a trace in the formats of other tools.
#include "analyzers/export/export.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "../../tracer/launch/launch.hpp"
#include "../verb.hpp"
#include "analyzers/export/window.hpp"

namespace polter::cli {

namespace {

using exports::Format;

const std::map<std::string, Format> formats{{"perfetto", Format::perfetto},
                                            {"chrome", Format::chrome},
                                            {"csv", Format::csv},
                                            {"loggopsim", Format::loggopsim},
                                            {"goal", Format::goal}};

struct ExportArguments {
    Common common;
    std::string trace, to, output, window, ranks;
    size_t aggregate = 0;
    bool measured_only = false;
    CLI::Option *window_option = nullptr, *ranks_option = nullptr;
};

void run_export(const ExportArguments& arguments) {
    exports::ExportOptions options;
    options.trace = arguments.trace;
    options.format = formats.at(arguments.to);
    options.output = arguments.output;
    options.aggregate = arguments.aggregate;
    options.measured_only = arguments.measured_only;
    if (arguments.window_option->count() > 0)
        std::tie(options.selection.begin, options.selection.end) = exports::parse_window(arguments.window);
    if (arguments.ranks_option->count() > 0) options.selection.ranks = exports::parse_ranks(arguments.ranks);
    go_apart();
    launch::seal_left_behind(arguments.trace, false);
    const exports::ExportResult result = exports::export_trace(options);
    if (arguments.common.json) {
        fmt::print("{}\n", exports::to_json(result).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
        return;
    }
    fmt::print("{}", exports::to_text(result));
    flush_output();
    if (!arguments.common.quiet)
        for (const auto& warning : result.warnings) tell(warning);
}

// A wrong value is a wrong command line, before anything is read.
CLI::Validator readable(std::function<void(const std::string&)> parse) {
    return {[parse = std::move(parse)](std::string& value) -> std::string {
                try {
                    parse(value);
                } catch (const std::exception& error) {
                    return error.what();
                }
                return "";
            },
            ""};
}

// Of the options, those that the format has no use for are wrong.
void check_use(const ExportArguments& arguments) {
    const bool goal = arguments.to == "goal", noise = arguments.to == "loggopsim";
    const auto refuse = [](const char* option, const char* why) { throw CLI::ValidationError(option, why); };
    if (goal && arguments.window_option->count() > 0) refuse("--window", "a GOAL program is always the whole run");
    if (goal && arguments.ranks_option->count() > 0)
        refuse("--ranks", "a GOAL program needs all ranks, or their messages would wait for ever");
    if (arguments.aggregate > 0 && (goal || noise)) refuse("--aggregate", "is for perfetto, chrome and csv");
    if (arguments.measured_only && (goal || noise))
        refuse("--measured-only", "is for perfetto, chrome and csv; goal and loggopsim have one timeline");
}

}  // namespace

void add_export(CLI::App& parent) {
    auto* verb = parent.add_subcommand("export", "Write a trace for Perfetto, Chrome, spreadsheets (CSV) or LogGOPSim");
    const auto arguments = std::make_shared<ExportArguments>();
    add_common(*verb, arguments->common);
    verb->add_option("TRACE", arguments->trace, "Directory that polter run wrote, or an .otf2 file of any tool")->required()->check(named);
    verb->add_option(
            "--to", arguments->to,
            "perfetto: for ui.perfetto.dev; chrome: JSON for chrome://tracing; csv: a folder of tables; loggopsim: a folder of noise "
            "files; goal: the run as a program for LogGOPSim")
        ->required()
        ->type_name("FORMAT")
        ->check(CLI::IsMember({"perfetto", "chrome", "csv", "loggopsim", "goal"}));
    verb->add_option("-o,--output", arguments->output,
                     "File or folder to write; default: the trace's name with an ending, in the current directory")
        ->check(named)
        ->type_name("FILE");
    arguments->window_option =
        verb->add_option("--window", arguments->window, "Only this part of the time since the first event, like 1.2s-1.3s or 800-950ms")
            ->check(readable([](const std::string& text) { exports::parse_window(text); }))
            ->type_name("A-B");
    arguments->ranks_option = verb->add_option("--ranks", arguments->ranks, "Only these ranks, like 0,3,8-15")
                                  ->check(readable([](const std::string& text) { exports::parse_ranks(text); }))
                                  ->type_name("LIST");
    verb->add_option(
            "--aggregate", arguments->aggregate,
            "Instead of single calls, messages and noise: which part of each interval of time was MPI, and which part noise; N intervals")
        ->expected(0, 1)
        ->default_str("1000")
        ->check(CLI::Range(1, 1000000))
        ->type_name("N");
    verb->add_flag("--measured-only", arguments->measured_only,
                   "Leave out the approximated timeline (without noise); half the size, and no replay");
    verb->footer(
        "Example: polter export --to perfetto polter-lmp-20260102-030405     # open the file at ui.perfetto.dev\n"
        "         polter export --to perfetto --window 1.2s-1.3s --ranks 0-7 -o part.perfetto-trace polter-lmp-20260102-030405\n"
        "         polter export --to csv -o tables polter-lmp-20260102-030405");
    verb->callback([arguments] {
        check_use(*arguments);
        run_export(*arguments);
    });
}

}  // namespace polter::cli
