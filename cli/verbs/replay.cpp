// SPDX-License-Identifier: BSD-3-Clause
// polter replay: when each event of a trace would have happened without the noise, and what that adds up to.
#include "replay/replay.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "../../tracer/launch/launch.hpp"
#include "../progress_bar.hpp"
#include "../result_text.hpp"
#include "../together.hpp"
#include "../verb.hpp"
#include "replay/base/printable.hpp"
#include "replay/model/model_file.hpp"
#include "replay/parallel/forked.hpp"
#include "replay/parallel/traffic.hpp"
#include "replay/trace/archive.hpp"

namespace polter::cli {

namespace {

struct ReplayArguments {
    Common common;
    std::string trace, remove, write_approximated, inject, save_model, use_model, mpi_algorithms = "auto";
    bool model = false, attribution = false, timeline = false, seal_foreign = false, all = false, verbose = false, all_processes = false;
    int processes = 0;          // 0: what is fastest
    replay::Division division;  // of the work on this host, without a launcher
    size_t costliest = 10;
    uint32_t windows = 10;
    CLI::Option *remove_option = nullptr, *windows_option = nullptr;
};

// Blanks around a name are not part of it.
std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> names;
    for (size_t begin = 0; begin < list.size();) {
        const size_t end = std::min(list.find(',', begin), list.size());
        const size_t first = list.find_first_not_of(" \t", begin), last = list.find_last_not_of(" \t", end - 1);
        if (first < end) names.push_back(list.substr(first, last + 1 - first));
        begin = end + 1;
    }
    return names;
}

// The text shows more than the JSON unless asked: a finer line over time; and whose noise caused the delay, where the trace is small
// enough for that to take a few seconds. The rule depends on the trace alone, so several processes agree.
replay::Result replayed(const ReplayArguments& arguments, replay::Options& options) {
    constexpr uint32_t usual_windows = 60;
    constexpr uint64_t small_trace = uint64_t{64} << 20;
    if (arguments.common.json) return replay::replay(options);
    if (arguments.windows_option->count() == 0)
        options.windows = static_cast<uint32_t>(std::min<size_t>(usual_windows, text_options().columns - 4));
    if (options.attribution || !options.write_approximated.empty() || replay::event_bytes(options.trace) > small_trace)
        return replay::replay(options);
    options.attribution = true;
    if (options.group) return replay::replay(options);
    try {
        return replay::replay(options);
    } catch (const replay::InputError&) {  // no room for the temporary file, perhaps; else it fails again
        options.attribution = false;
        return replay::replay(options);
    }
}

// How many processes of this host share the trace, where no launcher started any.
int processes_here(ReplayArguments& arguments) {
    const bool chosen = arguments.processes > 0;
    arguments.division = chosen ? replay::Division{.processes = arguments.timeline ? 1 : arguments.processes}
                                : replay::fastest_division(arguments.trace, !arguments.timeline);
    return arguments.division.processes;
}

// Whether all processes take part: not where that is not expected to be faster. The first one decides, and the others wait for that.
bool shared(const ReplayArguments& arguments, replay::Group& group) {
    if (group.size() == 1 || arguments.all_processes || arguments.timeline) return true;
    const double at_once = replay::processes_at_once(group);
    replay::Bytes decision;
    if (group.rank() == 0) {
        replay::Archive archive(arguments.trace);
        const replay::Traffic traffic = replay::crossing_traffic(archive, group.size());
        const bool faster = replay::expected_part(traffic, group.size(), at_once) <= replay::most_expected_part;
        const bool busy = replay::expected_part(traffic, group.size(), group.size()) <= replay::most_expected_part;
        if (!faster && !arguments.common.quiet)
            tell(fmt::format(
                "one of the {} processes replays the trace: {} that several would not be faster; --all-processes has them share it",
                group.size(),
                busy ? std::string("this host has so few cores, or so much other work on them,")
                     : fmt::format("its ranks talk to each other so much ({:.0f} % of the records would go from process to process)",
                                   100 * traffic.crossing())));
        decision.put(faster);
    }
    const std::vector<replay::Bytes> said = group.gather(decision);
    return replay::Input(said.front()).get<bool>();
}

void prepare(const ReplayArguments& arguments) {
    if (!arguments.save_model.empty()) replay::check_writable(arguments.save_model);
    for (const auto& further : launch::seal_left_behind(arguments.trace, arguments.seal_foreign))
        tell(fmt::format("another MPI job of the same command is in {}", further.string()));
}

void run_one(const ReplayArguments& arguments, replay::Group* group) {
    const bool prints = !group || group->rank() == 0;
    replay::Options options;
    options.group = group;
    options.trace = arguments.trace;
    if (arguments.remove_option->count() > 0) options.remove = split(arguments.remove);
    options.windows = arguments.windows;
    options.attribution = arguments.attribution;
    options.timeline = arguments.timeline;
    options.costliest = arguments.costliest;
    options.decode_ahead = arguments.division.decode_ahead;
    options.write_approximated = arguments.write_approximated;
    options.inject = arguments.inject;
    options.use_model = arguments.use_model;
    options.mpi_algorithms = arguments.mpi_algorithms;
    if (prints && !arguments.common.quiet && isatty(STDERR_FILENO)) options.progress = progress_bar();
    if (group && arguments.division.processes == 1 && !shared(arguments, *group)) {
        if (!prints) return;
        options.group = nullptr;
    }
    const replay::Result result = replayed(arguments, options);
    if (!prints) return;
    if (!arguments.save_model.empty()) replay::write_model(result.model, arguments.save_model);
    if (arguments.common.json) {
        nlohmann::json json = replay::to_json(result);
        if (!arguments.write_approximated.empty()) json["approximated_archive"] = arguments.write_approximated;
        if (result.injected) json["injected"] = replay::injected_to_json(*result.injected);
        if (arguments.model) json["model"] = replay::model_to_json(result.model);
        fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
        replay::TextOptions layout = text_options();
        layout.all = arguments.all;
        layout.costs = arguments.attribution;
        layout.verbose = arguments.verbose;
        fmt::print("{}{}{}", replay::to_text(result, layout), result.injected ? replay::injected_to_text(*result.injected, layout) : "",
                   arguments.model ? replay::model_to_text(result.model, layout) : "");
        if (!arguments.write_approximated.empty())
            fmt::print("approximated timeline: {}\n", replay::printable(arguments.write_approximated));
    }
}

}  // namespace

void add_replay(CLI::App& parent) {
    auto* verb = parent.add_subcommand("replay", "Compute what the noise in a trace cost, by cause, process, MPI call and rank");
    const auto arguments = std::make_shared<ReplayArguments>();
    add_common(*verb, arguments->common);
    verb->add_option("TRACE", arguments->trace, "Directory that polter run wrote, or an .otf2 file of any tool")->required()->check(named);
    arguments->remove_option =
        verb->add_option("--remove", arguments->remove,
                         "Sources to remove, comma-separated; default: all noise (os-service:NAME for a service; \"\": none)")
            ->expected(1)
            ->allow_extra_args(false)
            ->type_name("SOURCE,...");
    verb->add_flag("--all-processes", arguments->all_processes,
                   "Under mpirun: have all processes share the trace, also where one alone is expected to be faster");
    verb->add_option("--processes", arguments->processes,
                     "Without mpirun: how many processes of this host share the trace; default: what its free cores make fastest")
        ->check(CLI::Range(1, 64))
        ->type_name("N");
    verb->add_flag("--all", arguments->all, "Show everything: causes below 0.1 %, all ranks and processes, and the detailed tables");
    verb->add_flag("-v,--verbose", arguments->verbose, "Explain each warning");
    auto* attribution = verb->add_flag(
        "--attribution", arguments->attribution,
        "Also list the costliest noise events and the critical path; JSON: also by culprit and rank of origin (needs a temporary file in "
        "TMPDIR: about 30 bytes per MPI call, in collectives per message)");
    verb->add_flag(
            "--timeline", arguments->timeline,
            "JSON: also the timeline in levels of detail, close-ups, origins of delays and distributions, as polter report shows them")
        ->needs(attribution);
    verb->add_option("--costliest", arguments->costliest, "Number of noise events that --attribution lists")
        ->check(CLI::Range(1, 100000))
        ->needs(attribution)
        ->capture_default_str();
    arguments->windows_option =
        verb->add_option("--windows", arguments->windows,
                         "Number of equal intervals of the run, in the JSON and in Delay over time (there 60 if not given)")
            ->check(CLI::Range(1, 10000))
            ->capture_default_str();
    verb->add_option("--write-approximated", arguments->write_approximated,
                     "Write the timeline without the removed noise as an OTF2 archive; DIR must not exist (first written as DIR.partial-…)")
        ->check(named)
        ->option_text("DIR");
    verb->add_option(
            "--inject", arguments->inject,
            "Predict the run under the noise that FILE describes (JSON; format: replay/README.md in the source or in share/doc/polter)")
        ->check(named)
        ->excludes(arguments->remove_option)
        ->option_text("FILE");
    verb->add_flag("--model", arguments->model, "Show the communication costs learned from the trace");
    verb->add_option("--save-model", arguments->save_model, "Write the communication costs learned from the trace to FILE, for --use-model")
        ->check(named)
        ->option_text("FILE");
    verb->add_option("--mpi-algorithms", arguments->mpi_algorithms,
                     "Whose rules say which algorithm a collective likely uses; auto: those of the MPI that the trace names, else of any")
        ->type_name("MPI")
        ->check(CLI::IsMember({"openmpi", "mpich", "smpi", "auto", "none"}));
    verb->add_option("--use-model", arguments->use_model, "Use the communication costs in FILE instead of those of the trace")
        ->check(named)
        ->option_text("FILE");
    verb->add_flag("--seal-foreign", arguments->seal_foreign,
                   "Also complete an archive that another user's run left unfinished (root does it with that user's rights)");
    verb->footer(
        "Example: polter replay --remove timer,preempt polter-lmp-20260102-030405\n"
        "         polter replay --attribution polter-lmp-20260102-030405                # which single noise events cost most\n"
        "         polter replay --write-approximated quiet polter-lmp-20260102-030405   # quiet/traces.otf2, for any OTF2 tool\n"
        "         polter replay --save-model here.json long-run && polter replay --use-model here.json short-run\n"
        "         mpirun -n 4 polter replay polter-lmp-20260102-030405   # a large trace on several hosts: the same result");
    verb->callback([arguments] {
        together_or_apart({.prepare = [&] { prepare(*arguments); },
                           .processes = [&] { return processes_here(*arguments); },
                           .run = [&](replay::Group* group) { run_one(*arguments, group); }});
    });
}

}  // namespace polter::cli
