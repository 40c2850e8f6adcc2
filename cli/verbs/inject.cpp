// SPDX-License-Identifier: BSD-3-Clause
// polter inject: known noise on chosen CPUs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "../verb.hpp"
#include "analyzers/inject/from_trace.hpp"
#include "analyzers/inject/injector.hpp"
#include "analyzers/inject/shared.hpp"

namespace polter::cli {

namespace {

struct InjectArguments {
    Common common;
    std::vector<std::string> specs;
    double seconds = 10;
    std::string log;
};

std::string summary(const inject::Log& log) {
    std::string text;
    for (const auto& source : log.sources) {
        int64_t sum = 0;
        for (const auto& event : source.events) sum += event.duration_ns;
        const auto same = [&](const auto& each) { return each.spec == source.spec; };
        if (std::any_of(log.interrupts.begin(), log.interrupts.end(), same)) continue;
        text += fmt::format("{}: {} events, {:.3f} ms in all\n", source.spec, source.events.size(), static_cast<double>(sum) / 1e6);
    }
    for (const auto& each : log.interrupts) text += fmt::format("{}: {} caused\n", each.spec, each.caused);
    return text;
}

void run_inject(const InjectArguments& arguments) {
    inject::Request request;
    for (const std::string& text : arguments.specs) {
        request.specs.push_back(inject::parse_spec(text));
        const auto& spec = request.specs.back();
        if (spec.by_rank) throw inject::Error(fmt::format("{}: ranks belong to a job: polter run --inject; here, give cpus=", text));
        request.listed.push_back(spec.kind == inject::Kind::replay ? inject::listed_events(spec) : inject::EventsOf());
    }
    inject::check(request.specs, inject::limits_here());
    request.length_ns = std::llround(arguments.seconds * 1e9);
    const inject::Log log = inject::inject(request);
    if (!arguments.log.empty()) inject::write_log(log, arguments.log);
    if (arguments.common.json)
        fmt::print("{}\n", inject::to_json(log).dump(2));
    else
        fmt::print("{}", summary(log));
    if (!arguments.common.quiet)
        for (const std::string& warning : log.warnings) tell("inject: " + warning);
    if (!log.incomplete.empty()) throw inject::Error(log.incomplete);
}

}  // namespace

void add_inject(CLI::App& parent) {
    auto* verb = parent.add_subcommand("inject", "Inject known noise on chosen CPUs, and log each event");
    const auto arguments = std::make_shared<InjectArguments>();
    add_common(*verb, arguments->common);
    verb->add_option("SPEC", arguments->specs, "What to inject, and where; see below")->required()->option_text("SPEC...");
    verb->add_option("--seconds", arguments->seconds, "Duration (default: 10); Ctrl-C ends it earlier")
        ->check(CLI::Range(0.01, 1e6))
        ->capture_default_str()
        ->option_text("S");
    verb->add_option("-o,--output", arguments->log, "Write the log of all events (schema polter.inject/1) to this file")
        ->option_text("FILE")
        ->check(named);
    verb->footer(inject::spec_help() +
                 "Takes a CPU by a real-time thread; where that is not allowed, as an ordinary task, with a warning.\n"
                 "Example: polter inject --seconds 5 -o noise.json ferreira-100hz,cpus=1\n"
                 "         polter run --inject periodic,period=10ms,load=5%,ranks=0 mpirun -n 2 --bind-to core ./app");
    verb->callback([arguments] { run_inject(*arguments); });
}

}  // namespace polter::cli
