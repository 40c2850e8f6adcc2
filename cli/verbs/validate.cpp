// SPDX-License-Identifier: BSD-3-Clause
// polter validate: is the answer right on this machine?
#include "analyzers/validation/validate.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "../verb.hpp"
#include "analyzers/inject/alongside.hpp"
#include "analyzers/inject/spec.hpp"

namespace polter::cli {

namespace {

struct ValidateArguments {
    Common common;
    validation::Options options;
    bool quick = false;
    std::vector<double> levels = {1, 5, 20};
    std::vector<std::string> grains = {"1ms", "10ms", "100ms"}, patterns = {"periodic"}, kinds = {"work"}, specs;
    std::string period = "10ms", ranks = "all", trace, kept, windows;
    double seconds = 2;
};

void add_cases(ValidateArguments& arguments) {
    auto& cases = arguments.options.cases;
    const bool own = !arguments.options.command.empty();
    for (const std::string& kind : own ? std::vector<std::string>{"command"} : arguments.kinds)
        for (const std::string& grain : own ? std::vector<std::string>{"0"} : arguments.grains) {
            for (const std::string& spec : arguments.specs)
                cases.push_back({spec, spec, inject::parse_spec(spec).load(), inject::parse_time(grain), kind});
            if (!arguments.specs.empty()) continue;
            for (const std::string& pattern : arguments.patterns)
                for (const double level : arguments.levels)
                    cases.push_back({fmt::format("{},period={},load={}%,ranks={}", pattern, arguments.period, level, arguments.ranks),
                                     pattern, level / 100, inject::parse_time(grain), kind});
        }
    std::vector<inject::Spec> specs;
    for (const auto& one : cases) inject::check({inject::parse_spec(one.spec)}, inject::limits_here());
}

void check_windows(ValidateArguments& arguments) {
    constexpr int64_t least_periods = 5;
    const int64_t ns = arguments.options.windows_ns = inject::parse_time(arguments.windows);
    for (const auto& one : arguments.options.cases) {
        if (inject::parse_spec(one.spec).on_ns > 0)
            throw inject::Error("--windows sets on= and off= itself: leave out either it or these words in --inject");
        const inject::Spec spec = inject::parse_spec(fmt::format("{},on={},off={}", one.spec, ns, ns));
        if (ns < least_periods * std::max(spec.period_ns, one.grain_ns))
            throw inject::Error(
                fmt::format("windows of {} are too short: take at least {} periods of the noise (and intervals of the benchmark)",
                            arguments.windows, least_periods));
    }
}

// On a terminal a line a pair, elsewhere the first and then one a minute: a file or a batch system's log shows that it goes on.
std::function<void(const validation::Progress&)> progress_lines(bool terminal) {
    using Clock = std::chrono::steady_clock;
    return [terminal, begin = Clock::now(), told = std::optional<Clock::time_point>()](const validation::Progress& now) mutable {
        if (!terminal && told && Clock::now() - *told < std::chrono::minutes(1)) return;
        told = Clock::now();
        std::string line =
            fmt::format("case {} of {}, pair {} of {}: {}", now.done_cases + 1, now.cases, now.done_pairs + 1, now.pairs, now.spec);
        const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), part = now.part();
        if (part > 0) line += fmt::format(" (about {:.0f} s left)", std::ceil(elapsed * (1 - part) / part));
        tell(line);
    };
}

void check_trace(const ValidateArguments& arguments) {
    const auto log = std::filesystem::path(arguments.trace) / inject::log_name;
    if (!std::filesystem::exists(log))
        throw inject::Error(fmt::format("{}: has no log of injected noise; name an experiment of polter run --inject", arguments.trace));
    go_apart();
    const auto found = validation::match_log(log, arguments.trace);
    if (arguments.common.json)
        fmt::print("{}\n", validation::to_json(found, arguments.trace).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        fmt::print("{}", validation::to_text(found, arguments.trace));
}

void print(const ValidateArguments& arguments, const validation::Validated& validated) {
    if (arguments.common.json)
        fmt::print("{}\n", validation::to_json(validated).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        fmt::print("{}", validation::to_text(validated));
}

void run_validate(ValidateArguments& arguments) {
    if (!arguments.trace.empty()) return check_trace(arguments);
    if (!arguments.kept.empty()) {
        go_apart();
        return print(arguments, validation::judge_kept(arguments.kept, arguments.options.seed));
    }
    auto& options = arguments.options;
    if (options.pairs < 10 && arguments.windows.empty()) throw CLI::ValidationError("--pairs", "at least 10, but for --windows");
    if (arguments.quick) {
        arguments.levels = {5};
        arguments.grains = {"10ms"};
        arguments.seconds = 1;
    }
    options.run_ns = static_cast<int64_t>(arguments.seconds * 1e9);
    options.program = "/proc/self/exe";
    add_cases(arguments);
    if (!arguments.windows.empty()) check_windows(arguments);
    go_apart();
    if (!arguments.common.quiet) options.progress = progress_lines(isatty(STDERR_FILENO));
    print(arguments, validation::validate(options));
}

}  // namespace

void add_validate(CLI::App& parent) {
    auto* verb =
        parent.add_subcommand("validate", "Inject known noise, and compare what it cost with what the replay says, on this machine");
    const auto arguments = std::make_shared<ValidateArguments>();
    add_common(*verb, arguments->common);
    auto& options = arguments->options;
    verb->add_flag("--quick", arguments->quick, "One case only: 5 %, intervals of 10 ms, runs of 1 s");
    verb->add_option("--level", arguments->levels, "Percent of each CPU (default: 1,5,20)")
        ->delimiter(',')
        ->check(CLI::Range(0.01, 95.0))
        ->capture_default_str()
        ->option_text("P,...");
    verb->add_option("--grain", arguments->grains, "Lengths of the benchmark's intervals (default: 1ms,10ms,100ms)")
        ->delimiter(',')
        ->capture_default_str()
        ->option_text("TIME,...");
    verb->add_option("--pattern", arguments->patterns, "How the noise comes: periodic (default), bernoulli, exponential, pareto")
        ->delimiter(',')
        ->check(CLI::IsMember({"periodic", "bernoulli", "exponential", "pareto"}))
        ->capture_default_str()
        ->option_text("NAME,...");
    verb->add_option("--period", arguments->period, "Of the noise (default: 10ms)")->capture_default_str()->option_text("TIME");
    verb->add_option("--workload", arguments->kinds, "Of polter bench bsp (default: work)")
        ->delimiter(',')
        ->check(CLI::IsMember(bench::workloads))
        ->capture_default_str()
        ->option_text("NAME,...");
    verb->add_option("--inject", arguments->specs, "Instead of levels and patterns: a SPEC of polter inject; may be given again")
        ->allow_extra_args(false)
        ->option_text("SPEC");
    verb->add_option("--on-ranks", arguments->ranks, "Which ranks are hit (default: all)")->capture_default_str()->option_text("RANKS");
    verb->add_option("--pairs", options.pairs,
                     "Pairs of a quiet and an injected run for each case (default: 10, the least but for --windows)")
        ->check(CLI::Range(1, 10'000))
        ->capture_default_str()
        ->option_text("N");
    verb->add_option(
            "--windows", arguments->windows,
            "Both runs of a pair with noise, in turn for so long, the one while the other has none: for programs whose speed drifts")
        ->option_text("TIME");
    verb->add_option("--seconds", arguments->seconds, "Length of a run of the benchmark (default: 2)")
        ->check(CLI::Range(0.1, 3600.0))
        ->capture_default_str()
        ->option_text("S");
    verb->add_option("--ranks", options.bsp.ranks, "Ranks of the benchmark (default: 2)")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str()
        ->option_text("N");
    verb->add_option("--mpi", options.bsp.mpi, "Which MPI (default: the first installed)")
        ->check(CLI::IsMember({"openmpi", "mpich"}))
        ->option_text("NAME: openmpi or mpich");
    verb->add_option("--halo", options.bsp.halo, "Doubles exchanged with each neighbour")
        ->check(CLI::Range(0, 10'000'000))
        ->option_text("N");
    verb->add_option("--collective", options.bsp.collective, "What ends an interval (default: barrier)")
        ->check(CLI::IsMember(bench::collectives))
        ->capture_default_str()
        ->option_text("NAME: barrier, allreduce, bcast, reduce, alltoall or none");
    verb->add_option("--seed", options.seed, "Of the noise and of the resampling (default: 1)")->capture_default_str()->option_text("N");
    verb->add_option("--keep", options.keep, "Keep the traces, in folders whose names begin so")->option_text("DIR");
    verb->add_option("--trace", arguments->trace, "No runs: compare the log of this experiment of polter run --inject with its trace")
        ->option_text("DIR")
        ->check(named);
    verb->add_option("--kept", arguments->kept, "No runs: judge the pairs again that --keep left in this folder")
        ->option_text("DIR")
        ->check(named);
    verb->prefix_command();
    verb->footer(
        "COMMAND is a job of your own instead of the benchmark; bind its ranks to CPUs. All ranks run on this node.\n"
        "Example: polter validate --quick\n"
        "         polter validate --level 5 -- mpirun -n 2 --bind-to core lmp -in melt.in");
    verb->callback([verb, arguments] {
        auto& command = arguments->options.command;
        command = verb->remaining();
        if (!command.empty() && command.front().starts_with("-")) throw CLI::ExtrasError(verb->get_name(), {command.front()});
        const auto& behind = behind_separator();
        if (!behind.empty()) command.insert(command.end(), behind.begin() + (command.empty() ? 1 : 0), behind.end());
        run_validate(*arguments);
    });
}

}  // namespace polter::cli
