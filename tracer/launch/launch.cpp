// SPDX-License-Identifier: BSD-3-Clause
#include "launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <folder.hpp>
#include <seal.hpp>

#include "../conventions.hpp"
#include "collect/collect.hpp"
#include "environment.hpp"
#include "experiment.hpp"
#include "exporter.hpp"
#include "job.hpp"
#include "launcher_job.hpp"
#include "layout.hpp"
#include "programs/flavour.hpp"
#include "remains.hpp"
#include "standard_streams.hpp"

namespace polter::launch {
namespace fs = std::filesystem;
namespace {

constexpr int grace_seconds = 10;  // for ranks that outlive their launcher

void tell(const Options& options, const std::string& text) {
    if (!options.quiet) write_message(fmt::format("polter: {}\n", text));
}

std::string chosen(const std::string& option, const char* variable, const char* otherwise) {
    if (!option.empty()) return option;
    const char* value = std::getenv(variable);
    return value && *value ? value : otherwise;
}

std::string exporter_choice(const Options& options) {
    auto choice = chosen(options.exporter, trace::env_exporter, "auto");
    for (const auto& name : exporter_names())
        if (name == choice) {
            check_exporter(choice);
            return choice;
        }
    throw Error(fmt::format("POLTER_EXPORTER={}: no such exporter; one of auto, module, bpf, perf, proc, none", choice));
}

Flavour choose_flavour(const Options& options) {
    auto wanted = chosen(options.mpi, "POLTER_MPI", "");
    if (wanted.empty()) return find_flavour(options.command);
    auto mpi = mpi_named(wanted);
    if (!mpi || *mpi == Mpi::none) throw Error(fmt::format("POLTER_MPI={}: not known; it is openmpi or mpich", wanted));
    Flavour out;
    out.mpi = *mpi;
    out.why = "asked for";
    return out;
}

// What is put into the program; empty where there is certainly no MPI in it.
fs::path choose_preload(const Options& options, Flavour& flavour) {
    if (flavour.open) {
        if (auto library = find_part(dispatch_library); !library.empty()) return library;
        flavour.open = false;  // not on this architecture
    }
    if (flavour.certainly_none) return {};
    if (flavour.mpi == Mpi::none)
        throw Error(fmt::format("{}: {}; say which MPI it uses: --mpi openmpi or --mpi mpich", shell_text(options.command), flavour.why));
    auto library = find_part(preload_library(flavour.mpi));
    if (library.empty())
        throw Error(fmt::format("the tracer for {} ({}) is not installed beside {}: build Poltergeist with that MPI's development package",
                                name_of(flavour.mpi), preload_library(flavour.mpi), (executable_folder() / "polter").string()));
    return library;
}

void check_program(const std::vector<std::string>& command) {
    if (!find_program(command.front()))
        throw Error(fmt::format("{}: no such program; give the command as you would type it without polter", command.front()));
}

std::string no_trace_text(const Flavour& flavour, const Outcome& outcome) {
    auto text = std::string("no trace: the job left nothing that calls MPI. ");
    if (!flavour.obstacle.empty())
        text += flavour.obstacle;
    else if (flavour.open)
        text += fmt::format("{}{}", flavour.mpi == Mpi::none ? flavour.why + ", and " : "",
                            outcome.exit_code ? fmt::format("it ended with exit code {} before any MPI_Init", outcome.exit_code)
                                              : "nothing that it started called MPI_Init (what is linked statically cannot be traced)");
    else if (flavour.certainly_none || flavour.mpi == Mpi::none)
        text += flavour.why;
    else if (flavour.launcher != Mpi::none && flavour.launcher != flavour.mpi)
        text += fmt::format("{} is linked with {}, its launcher is that of {}", flavour.program, name_of(flavour.mpi),
                            name_of(flavour.launcher));
    else if (outcome.exit_code != 0)
        text += "it failed before MPI_Init";
    else
        text += fmt::format("traced as {} ({}): the program may be linked statically, use another MPI (say --mpi), or never call MPI_Init",
                            name_of(flavour.mpi), flavour.why);
    return text;
}

// Beside the first experiment, with a number; where that cannot be, it stays in it.
fs::path put_beside(const fs::path& first, const std::string& folder, size_t& number) {
    for (;; ++number) {
        const fs::path beside = fmt::format("{}-{}", first.string(), number);
        if (renameat2(AT_FDCWD, (first / folder).c_str(), AT_FDCWD, beside.c_str(), RENAME_NOREPLACE) == 0) return beside;
        if (errno != EEXIST) return first / folder;
    }
}

void add_traced(Outcome& outcome, const fs::path& experiment, seal::Report report, const Exporter& exporter) {
    Traced traced{experiment, std::move(report), {}};
    const auto& why = traced.report.exporter_why;
    if (traced.report.exporter == "none") traced.not_measured = why.empty() ? exporter.why : why;
    outcome.traced.push_back(std::move(traced));
}

void seal_into(Outcome& outcome, const std::vector<std::string>& command, const Flavour& flavour, const Exporter& exporter) {
    try {
        auto report = seal::seal({outcome.experiment, shell_text(command), exporter.ended_ns, seal::Foreign::own_rights});
        if (report.already_sealed) return;
        outcome.sealed = true;
        auto further = std::move(report.further);
        add_traced(outcome, outcome.experiment, std::move(report), exporter);
        size_t number = 2;
        for (auto& job : further) {
            const auto at = put_beside(outcome.experiment, job.folder, number);
            if (job.failed.empty())
                add_traced(outcome, at, std::move(job.report), exporter);
            else
                outcome.warnings.push_back(fmt::format("{}: {}", at.string(), job.failed));
        }
    } catch (const seal::NoRanks&) {
        outcome.no_trace = no_trace_text(flavour, outcome);
    }
}

nlohmann::ordered_json record_of(const Options& options, const Flavour& flavour, const Exporter& exporter, const std::string& job) {
    auto record = provenance(options.command);
    record["mpi"] = {{"flavour", flavour.open ? "any" : name_of(flavour.mpi)},
                     {"why", flavour.open ? "decided by each program as it starts" : flavour.why}};
    record["exporter"] = {{"name", exporter.name}, {"why", exporter.why}, {"unseen", exporter.unseen}, {"limits", exporter.limits}};
    record["job"] = job;
    return record;
}

void write_record(const fs::path& experiment, const nlohmann::ordered_json& record, Outcome& outcome) {
    try {
        write_json(experiment / trace::provenance_name, record);
    } catch (const Error& error) {
        outcome.warnings.push_back(fmt::format("{}; the end of the run is not noted there", error.what()));
    }
}

void finish_record(nlohmann::ordered_json& record, Outcome& outcome) {
    record["ended"] = time_text();
    record["wall_ns"] = outcome.wall_ns;
    record["exit_code"] = outcome.exit_code;
    record["ranks"] = 0;
    if (!outcome.no_trace.empty()) record["no_trace"] = outcome.no_trace;
    record["warnings"] = outcome.warnings;
    if (outcome.traced.empty()) write_record(outcome.experiment, record, outcome);
    for (size_t i = 0; i < outcome.traced.size(); ++i) {
        auto own = record;
        const auto& traced = outcome.traced[i];
        own["ranks"] = traced.report.ranks;
        if (outcome.traced.size() > 1) own["mpi_job"] = {{"number", i + 1}, {"of", outcome.traced.size()}};
        for (const auto& warning : traced.report.warnings) own["warnings"].push_back(warning);
        write_record(traced.experiment, own, outcome);
    }
}

// Libraries say in many ways that a file system is full.
std::string no_room(const fs::path& experiment) {
    std::error_code error;
    const auto space = fs::space(experiment, error);
    return error || space.available > 1 << 20 ? "" : " (there is no room left on its file system)";
}

// What comes after the job must not change what the job has come to.
template <class Work>
void after_job(Outcome& outcome, const Work& work) {
    try {
        work();
    } catch (const std::exception& error) {
        outcome.trace_failed = true;
        outcome.no_trace =
            fmt::format("{}{}; the job itself ended with exit code {}. When that is mended, make the trace with: polter replay {}",
                        error.what(), no_room(outcome.experiment), outcome.exit_code, outcome.experiment.string());
    }
}

// A run that never came to MPI_Init: the next one may want the same name.
void leave_nothing_in_the_way(Outcome& outcome) {
    if (!outcome.no_trace.empty() && !outcome.trace_failed && take_back_experiment(outcome.experiment)) outcome.experiment.clear();
}

// One line: what measures, and by name what it does not see. The whole is in experiment.json and, if it matters, in the result. Empty where
// the user asked for none.
std::string exporter_line(const Exporter& exporter) {
    auto line = fmt::format("exporter {}", exporter.name);
    if (exporter.name == "none") return exporter.unseen.empty() ? "" : line + ": no noise is measured; why: polter doctor";
    if (!exporter.unseen.empty()) line += fmt::format("; not seen: {}", fmt::join(exporter.unseen, ", "));
    if (exporter.name == "perf" || exporter.name == "proc") line += "; for more: polter doctor";
    return exporter.notice.empty() ? line : fmt::format("{}; {}", line, exporter.notice);
}

Outcome outcome_of(const Exporter& exporter, const fs::path& experiment) {
    Outcome out;
    out.experiment = experiment;
    out.exporter = exporter.name;
    out.exporter_why = exporter.why;
    out.unseen = exporter.unseen;
    out.limits = exporter.limits;
    return out;
}

void timed_job(const Options& options, const Environment& environment, bool dies_with_us, Exporter& exporter, Outcome& outcome) {
    auto start = std::chrono::steady_clock::now();
    outcome.exit_code = run_job(options.command, environment, {dies_with_us, options.output_to_error, [&] { exporter.look(); }});
    outcome.wall_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
    exporter.look();
    if (!exporter.ended.empty()) outcome.warnings.push_back(exporter.ended);
    outcome.events_not_shown = exporter.events_not_shown();
}

}  // namespace

Outcome run(const Options& options) {
    check_program(options.command);
    const auto recording = recording_environment(options.recording);
    auto choice = exporter_choice(options);
    auto flavour = choose_flavour(options);
    auto preload = choose_preload(options, flavour);
    if (!flavour.open)
        if (const auto refusal = refusal_as_root(flavour, options.command); !refusal.empty()) throw Error(refusal);
    auto experiment = make_experiment(options.output, application_name(options.command, flavour.program));
    auto exporter = [&] {
        try {
            return choose_exporter(choice, experiment / daemon_log);
        } catch (const Error&) {
            take_back_experiment(experiment);
            throw;
        }
    }();
    if (const auto line = exporter_line(exporter); !line.empty()) tell(options, line);
    if (!flavour.obstacle.empty()) tell(options, fmt::format("not traced: {}; the job runs as it is", flavour.obstacle));
    if (!flavour.open && flavour.launcher != Mpi::none && flavour.mpi != flavour.launcher)
        tell(options, fmt::format("{} uses {} and its launcher is that of {}: each process will be alone in its own MPI_COMM_WORLD",
                                  flavour.program, name_of(flavour.mpi), name_of(flavour.launcher)));

    auto outcome = outcome_of(exporter, experiment);
    auto job = random_job_id();
    auto environment = job_environment(options.command, experiment, job, flavour, preload, exporter, recording, outcome.warnings);
    auto record = record_of(options, flavour, exporter, job);
    try {
        write_json(experiment / trace::provenance_name, record);
        if (options.companion) options.companion->begin(experiment);
    } catch (const Error&) {
        take_back_experiment(experiment);
        throw;
    }
    timed_job(options, environment, false, exporter, outcome);
    if (options.companion)
        for (auto& warning : options.companion->end()) outcome.warnings.push_back(std::move(warning));
    after_job(outcome, [&] {
        wait_for_ranks(experiment, job, grace_seconds, outcome.warnings);
        collect_from_nodes(options.command, experiment, job);
        exporter.release();
        seal_into(outcome, options.command, flavour, exporter);
    });
    finish_record(record, outcome);
    leave_nothing_in_the_way(outcome);
    return outcome;
}

Outcome exec(const Options& options) {
    check_program(options.command);
    const auto recording = recording_environment(options.recording);
    auto choice = exporter_choice(options);
    auto flavour = choose_flavour(options);
    auto preload = choose_preload(options, flavour);
    auto launched = find_launcher_job(application_name(options.command, flavour.program));
    auto experiment = join_experiment(options.output, launched);
    auto exporter = choose_node_exporter(choice, node_note(experiment));

    auto outcome = outcome_of(exporter, experiment);
    auto environment = job_environment(options.command, experiment, launched.id, flavour, preload, exporter, recording, outcome.warnings);
    auto record = record_of(options, flavour, exporter, launched.id);
    timed_job(options, environment, true, exporter, outcome);

    after_job(outcome, [&] {
        ExperimentLock lock(experiment);
        if (!last_to_end(experiment, launched)) return;
        after_job(outcome, [&] { seal_into(outcome, options.command, flavour, exporter); });
        finish_record(record, outcome);
        forget_processes(experiment);
        leave_nothing_in_the_way(outcome);
    });
    return outcome;
}

namespace {

// Of experiment.json: written by this program, but perhaps not to its end, and by whom we cannot know.
struct Left {
    std::vector<std::string> command;
    std::string job;
};

Left left_in(const fs::path& experiment) {
    constexpr size_t most = 16u << 20;
    auto record = nlohmann::json::parse(seal::text_of(experiment, trace::provenance_name, most), nullptr, false);
    Left left;
    if (!record.is_object()) return left;
    if (record.contains("job") && record["job"].is_string()) left.job = record["job"].get<std::string>();
    if (record.contains("command") && record["command"].is_array())
        for (const auto& word : record["command"])
            if (word.is_string()) left.command.push_back(word.get<std::string>());
    return left;
}

}  // namespace

size_t still_running(const fs::path& experiment) {
    return running_ranks(experiment, left_in(experiment).job).size();
}

std::vector<fs::path> seal_left_behind(const fs::path& experiment, bool foreign) {
    if (seal::is_sealed(experiment) || !fs::is_directory(experiment / trace::ranks_folder)) return {};
    const Left left = left_in(experiment);
    auto running = running_ranks(experiment, left.job);
    if (!running.empty())
        throw Error(fmt::format("{}: {} of its processes still run; wait for the job's end", experiment.string(), running.size()));
    try {
        const auto report =
            seal::seal({experiment, shell_text(left.command), 0, foreign ? seal::Foreign::as_owner : seal::Foreign::refuse});
        std::vector<fs::path> further;
        for (const auto& job : report.further) further.push_back(experiment / job.folder);
        return further;
    } catch (const seal::Error& error) {
        throw Error(error.what());
    }
}

}  // namespace polter::launch
