// SPDX-License-Identifier: BSD-3-Clause
// polter latency: the latency between ranks as distributions; and how two measurements differ.
#include "analyzers/latency/latency.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "../../../tracer/launch/exporter.hpp"
#include "../../result_text.hpp"
#include "../../verb.hpp"
#include "analyzers/inject/spec.hpp"
#include "replay/base/json_file.hpp"
#include "replay/base/printable.hpp"

namespace polter::cli {

namespace {

struct LatencyArguments {
    Common common;
    latency::Bench bench;
    std::string width = "50ns", top = "1s", output, from;
    std::vector<std::string> compared;
    uint64_t seed = 1;
};

std::string text_of(const nlohmann::json& json) {
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void compare(const LatencyArguments& arguments) {
    const std::string wanted = "a result of polter latency";
    latency::Comparison comparison = latency::compare(replay::read_json(arguments.compared[0], wanted),
                                                      replay::read_json(arguments.compared[1], wanted), arguments.seed);
    comparison.a = arguments.compared[0];
    comparison.b = arguments.compared[1];
    if (arguments.common.json)
        fmt::print("{}", text_of(latency::to_json(comparison)));
    else
        fmt::print("A: {}\nB: {}\n\n{}", replay::printable(comparison.a), replay::printable(comparison.b),
                   latency::to_text(comparison, output_columns()));
}

void measure(LatencyArguments arguments) {
    latency::Bench& bench = arguments.bench;
    bench.bins.width = static_cast<double>(inject::parse_time(arguments.width));
    bench.bins.top = static_cast<double>(inject::parse_time(arguments.top));
    if (bench.bins.width < 1 || bench.bins.top <= bench.bins.width) throw CLI::ValidationError("--top", "must be longer than --width");
    std::string why = "unknown";
    const auto raw = arguments.from.empty() ? nlohmann::json::parse(latency::run(bench, why))
                                            : replay::read_json(arguments.from, "what polter-latency writes");
    latency::Analysis analysis = latency::analyze(latency::parse(raw));
    analysis.exporter_why = why;
    const std::string json = arguments.common.json || !arguments.output.empty() ? text_of(latency::to_json(analysis)) : "";
    if (!arguments.output.empty()) {
        std::ofstream file(arguments.output);
        file << json;
        if (!file.flush()) throw std::runtime_error(arguments.output + ": the result cannot be written; give another place with -o");
    }
    fmt::print("{}", arguments.common.json ? json : latency::to_text(analysis, output_columns()));
}

}  // namespace

void add_latency(CLI::App& parent) {
    auto* verb = parent.add_subcommand("latency", "Measure the latency between all pairs of ranks, as distributions with their modes");
    const auto arguments = std::make_shared<LatencyArguments>();
    add_common(*verb, arguments->common);
    auto& bench = arguments->bench;
    const auto number = [&](const char* name, int64_t& value, const char* help, int64_t least, int64_t most) {
        verb->add_option(name, value, help)->check(CLI::Range(least, most))->capture_default_str()->option_text("N");
    };
    number("--bytes", bench.bytes, "Size of the messages, which go both ways", 0, 1'000'000'000);
    number("--trials", bench.trials, "Timed exchanges of a pair in a cycle", 1, 10'000'000);
    number("--warmups", bench.warmups, "Exchanges before, not timed", 0, 10'000'000);
    number("--cycles", bench.cycles, "How often all pairs are gone through", 1, 1'000'000);
    verb->add_option("--bins", bench.bins.count, "Bins of the histograms")
        ->check(CLI::Range(10, 100'000))
        ->capture_default_str()
        ->option_text("N");
    verb->add_option("--width", arguments->width, "Width of the first bin; the others grow with the latency")
        ->capture_default_str()
        ->option_text("TIME");
    verb->add_option("--top", arguments->top, "Where the last bin begins that counts all that is longer")
        ->capture_default_str()
        ->option_text("TIME");
    verb->add_option("--shuffle", bench.shuffle, "Meet the partners in another order, drawn with this seed")->option_text("SEED");
    verb->add_option("--exporter", bench.exporter, "Mark the samples that OS noise hit, as measured by this exporter")
        ->check(CLI::IsMember(launch::exporter_names()))
        ->capture_default_str()
        ->option_text("NAME: as in polter run");
    verb->add_option("--ranks", bench.ranks, "Number of ranks, where no launcher is given")
        ->check(CLI::Range(2, 1'000'000))
        ->capture_default_str()
        ->option_text("N");
    verb->add_option("--mpi", bench.mpi, "Which MPI; default: that of the launcher, else the first installed")
        ->check(CLI::IsMember({"openmpi", "mpich"}))
        ->option_text("NAME: openmpi or mpich");
    verb->add_option("-o,--output", arguments->output, "Also write the result as JSON to this file, for --compare and polter report")
        ->option_text("FILE")
        ->check(named);
    verb->add_option("--from", arguments->from,
                     "Do not measure: take what lib/polter/polter-latency-MPI wrote, where it was started by hand")
        ->option_text("FILE")
        ->check(named);
    auto* compared =
        verb->add_option("--compare", arguments->compared, "Do not measure: how do two results differ, and which differences are certain?")
            ->expected(2)
            ->option_text("FILE FILE")
            ->check(named);
    verb->add_option("--seed", arguments->seed, "Of the resampling of blocks; the same seed gives the same answer")
        ->needs(compared)
        ->capture_default_str();
    verb->prefix_command();
    verb->footer(
        "COMMAND is a launcher without a program; default: mpirun with the ranks bound to cores.\n"
        "Example: polter latency -o before.json mpirun -n 4\n"
        "         polter latency --compare before.json after.json");
    verb->callback([verb, arguments] {
        auto& launcher = arguments->bench.launcher;
        launcher = verb->remaining();
        if (!launcher.empty() && launcher.front().starts_with("-")) throw CLI::ExtrasError(verb->get_name(), {launcher.front()});
        const auto& behind = behind_separator();
        if (!behind.empty()) launcher.insert(launcher.end(), behind.begin() + (launcher.empty() ? 1 : 0), behind.end());
        if (arguments->compared.empty()) return measure(*arguments);
        if (!launcher.empty()) throw CLI::ExtrasError(verb->get_name(), {launcher.front()});
        compare(*arguments);
    });
}

}  // namespace polter::cli
