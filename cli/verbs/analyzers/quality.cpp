// SPDX-License-Identifier: BSD-3-Clause
// polter quality: was a job as fast as those before it let expect?
#include "analyzers/quality/quality.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "../../result_text.hpp"
#include "../../verb.hpp"
#include "analyzers/inject/spec.hpp"
#include "replay/base/printable.hpp"
#include "running_job.hpp"

namespace polter::cli {

namespace {

struct QualityArguments {
    Common common;
    std::string folder, id, interval, followed;
    double size = 0;
    bool list = false;
};

void list_jobs(const std::vector<quality::Store::Entry>& entries) {
    for (const auto& entry : entries) fmt::print("{}  {}\n", replay::printable(entry.id), replay::printable(entry.application));
}

int64_t interval_of(const QualityArguments& arguments) {
    if (arguments.interval.empty()) return 0;
    try {
        if (const int64_t ns = inject::parse_time(arguments.interval); ns > 0) return ns;
    } catch (const inject::Error& error) {
        throw CLI::ValidationError("--interval", error.what());
    }
    throw CLI::ValidationError("--interval", "must be longer than 0");
}

void run_quality(const QualityArguments& arguments) {
    const int64_t interval_ns = interval_of(arguments);
    if (!arguments.followed.empty())
        return follow_running_job({arguments.followed, arguments.folder, arguments.size, interval_ns, arguments.common.json});
    const quality::Store store(arguments.folder, false);
    std::vector<std::string> warnings;
    const auto entries = store.entries(warnings);
    if (arguments.list) {
        for (const std::string& warning : warnings) tell(warning);
        return list_jobs(entries);
    }
    if (entries.empty()) throw quality::StoreError(arguments.folder + ": has no jobs that can be read; polter run --record adds them");
    const std::string id = arguments.id.empty() ? entries.back().id : arguments.id;
    const auto entry = std::find_if(entries.begin(), entries.end(), [&](const auto& one) { return one.id == id; });
    if (entry == entries.end())
        throw quality::StoreError(
            fmt::format("{}: has no job {}; polter quality --list {} names those it has", arguments.folder, id, arguments.folder));
    std::vector<quality::Job> jobs = store.jobs(entry->application, warnings);
    const auto at = std::find_if(jobs.begin(), jobs.end(), [&](const auto& job) { return job.id == id; });
    if (at == jobs.end()) throw quality::StoreError(fmt::format("{}: the job {} cannot be read", arguments.folder, id));
    const quality::Job job = *at;
    jobs.erase(at);
    quality::Assessment result = quality::assess(job, jobs, interval_ns);
    result.warnings.insert(result.warnings.end(), warnings.begin(), warnings.end());
    if (arguments.common.json)
        fmt::print("{}\n", quality::to_json(result).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        fmt::print("{}", quality::to_text(result, output_columns()));
}

}  // namespace

void add_quality(CLI::App& parent) {
    auto* verb =
        parent.add_subcommand("quality", "Was a job as fast as the recorded jobs of the same program let expect, and if not, why?");
    const auto arguments = std::make_shared<QualityArguments>();
    add_common(*verb, arguments->common);
    verb->add_option("HISTORY", arguments->folder, "Directory that polter run --record keeps jobs in")->required()->check(named);
    verb->add_option("--job", arguments->id, "The job to judge; default: the latest")->option_text("ID")->check(named);
    verb->add_option("--interval", arguments->interval,
                     "Also say what could be said of the job each time so long had passed (500ms, 30s); default: about ten times")
        ->option_text("TIME")
        ->check(named);
    auto* list = verb->add_flag("--list", arguments->list, "Only list the recorded jobs");
    auto* follow = verb->add_option("--follow", arguments->followed,
                                    "A job that runs now: the directory that polter run -o names. Prints a line after each --interval "
                                    "(default: 10s) until the job ends")
                       ->option_text("DIR")
                       ->check(named)
                       ->excludes(list);
    verb->get_option("--job")->excludes(follow);
    verb->add_option("--size", arguments->size, "With --follow: of the input, as polter run --size has it")
        ->needs(follow)
        ->check(CLI::PositiveNumber)
        ->option_text("X");
    verb->footer(
        "Jobs of one program are compared; their size, processes and nodes may differ.\n"
        "Example: polter run --record history --size 16000 mpirun -n 4 lmp -in melt.in; polter quality history");
    verb->callback([arguments] { run_quality(*arguments); });
}

}  // namespace polter::cli
