// SPDX-License-Identifier: BSD-3-Clause
#include "validate.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analyzers/inject/alongside.hpp"
#include "replay/replay.hpp"
#include "replay/what_if.hpp"

namespace polter::validation {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

class Folder {
  public:
    explicit Folder(const std::string& keep) : kept_(!keep.empty()) {
        auto name = kept_ ? keep : (fs::temp_directory_path() / "polter-validate-XXXXXX").string();
        if (kept_ ? !fs::create_directory(name) : !mkdtemp(name.data()))
            throw launch::Error(fmt::format("{}: cannot be made, or is there already; name another folder, or set TMPDIR", name));
        path = name;
    }
    ~Folder() {
        std::error_code error;
        if (!kept_) fs::remove_all(path, error);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    // After a pair.
    void drop(const fs::path& run) const {
        std::error_code error;
        if (!kept_) fs::remove_all(run, error);
    }
    fs::path path;

  private:
    bool kept_;
};

std::string text_of(const fs::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

// Runs this program as a user would; its standard output.
std::string run_self(const Options& options, std::vector<std::string> words, const fs::path& folder) {
    words.insert(words.begin(), options.program);
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const auto out = folder / "stdout", errors = folder / "stderr";
    const pid_t child = fork();
    if (child < 0) throw launch::Error(fmt::format("{}: cannot be started: {}", options.program, std::strerror(errno)));
    if (child == 0) {
        const int a = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), b = open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(a, STDOUT_FILENO);
        dup2(b, STDERR_FILENO);
        execv(arguments[0], arguments.data());
        _exit(127);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text_of(out);
    const std::string said = text_of(errors);
    throw launch::Error(
        fmt::format("a run of the validation failed ({}): {}",
                    WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status)) : fmt::format("exit code {}", WEXITSTATUS(status)),
                    said.substr(said.size() > 1000 ? said.size() - 1000 : 0)));
}

// The warnings of a run, for the message that tells why it is of no use.
std::string said_in(const Json& result) {
    if (!result.is_object()) return "its output is no JSON";
    std::string said;
    for (const auto& warning : result.value("warnings", Json::array()))
        if (warning.is_string()) said += (said.empty() ? "" : "; ") + warning.get<std::string>();
    return said.empty() ? "no warning says why" : said;
}

struct Run {
    fs::path at;
    int64_t program = 0, noise = 0;  // without MPI_Init; accumulated
    Json json;
};

Run run_job(const Options& options, const std::vector<std::string>& job, const std::string& spec, const fs::path& at,
            const fs::path& folder) {
    std::vector<std::string> words = {"run", "--json", "-o", at.string(), "--exporter", options.exporter};
    if (!spec.empty()) words.insert(words.end(), {"--inject", spec});
    words.push_back("--");
    words.insert(words.end(), job.begin(), job.end());
    Run run{at, 0, 0, Json::parse(run_self(options, words, folder), nullptr, false)};
    if (!run.json.is_object() || !run.json.contains("measured_ns") || !run.json.contains("accumulated_noise_ns") ||
        run.json["accumulated_noise_ns"].is_null())
        throw launch::Error("a run of the validation gave no result with noise (" + said_in(run.json) +
                            "); polter doctor says what can be measured here");
    run.program = run.json["measured_ns"].get<int64_t>() - run.json["init_ns"].get<int64_t>();
    run.noise = run.json["accumulated_noise_ns"].get<int64_t>();
    return run;
}

// What the injected noise cost, by the replay: the scenario without it alone. The machine's own noise stays, as in the quiet runs.
int64_t saved_without_injector(const fs::path& trace) {
    replay::Options options;
    options.trace = trace;
    int64_t saved = 0;
    const std::set<std::string> injector = {"polter-inject"};
    const replay::Scenario scenario = {{"preempt", injector, {}}, {"runqueue", injector, {}}};
    replay::replay(options, [&](const replay::Result&, replay::WhatIfs& what_ifs) { saved = what_ifs.savings({scenario}).front(); });
    return saved;
}

int64_t added_by_log(const fs::path& quiet, const fs::path& log) {
    replay::Options options;
    options.trace = quiet;
    options.inject = log;
    return replay::replay(options).injected->added_ns;
}

// Fixed for all runs of a case, so that they do the same work.
int64_t units_for(bench::Bsp bsp, int64_t grain) {
    bsp.grain_ns = grain;
    bsp.phases = 1;
    return Json::parse(bench::run_bsp(bsp)).at("units").get<int64_t>();
}

std::vector<std::string> job_of(const Options& options, const Case& one, const fs::path& folder) {
    if (!options.command.empty()) return options.command;
    bench::Bsp bsp = options.bsp;
    bsp.workload = one.workload;
    bsp.grain_ns = one.grain_ns;
    bsp.phases = std::max<int64_t>(10, options.run_ns / one.grain_ns);
    bsp.units = bsp.workload == "time" ? 0 : units_for(bsp, one.grain_ns);
    return bench::command_of(bsp, folder / "bsp.json");
}

Pair run_pair(const Options& options, const Case& one, const std::vector<std::string>& job, size_t number, const Folder& folder,
              CaseResult& result) {
    const auto quiet_at = folder.path / fmt::format("{}-quiet", number), injected_at = folder.path / fmt::format("{}-injected", number);
    const std::string spec = fmt::format("{},seed={}", one.spec, options.seed + number);
    Run quiet, injected;
    for (const bool inject_now : {number % 2 == 1, number % 2 == 0})  // in turn first and second
        if (inject_now)
            injected = run_job(options, job, spec, injected_at, folder.path);
        else
            quiet = run_job(options, job, "", quiet_at, folder.path);
    const auto log = injected_at / inject::log_name;
    if (!fs::exists(log)) throw launch::Error("nothing was injected: " + injected.json["run"]["warnings"].dump());
    const inject::Log events = inject::read_log(log);
    for (const std::string& warning : events.warnings)
        if (std::find(result.warnings.begin(), result.warnings.end(), warning) == result.warnings.end()) result.warnings.push_back(warning);
    if (events.events() == 0) throw launch::Error("nothing was injected: the job is shorter than the period of the noise");
    Pair pair;
    pair.quiet = quiet.program;
    pair.injected = injected.program;
    pair.machine_noise = quiet.noise;
    pair.estimated = injected.program - saved_without_injector(injected_at);
    pair.predicted = quiet.program + added_by_log(quiet_at, log);
    int64_t sum = 0;
    for (const auto& source : events.sources)
        for (const auto& event : source.events) sum += event.duration_ns;
    const auto found = match_log(log, injected_at);
    result.intrinsic_load += static_cast<double>(sum) / static_cast<double>(injected.json["ranks"].get<int64_t>()) /
                             static_cast<double>(injected.program) / static_cast<double>(options.pairs);
    result.found.add(found);
    folder.drop(quiet_at);
    folder.drop(injected_at);
    return pair;
}

// A pair with a run that failed is repeated once, with a warning: one job that the launcher lost must not cost the whole validation.
Pair run_pair_again(const Options& options, const Case& one, const std::vector<std::string>& job, size_t number, const Folder& folder,
                    CaseResult& result) {
    try {
        return run_pair(options, one, job, number, folder, result);
    } catch (const launch::Error& error) {
        result.warnings.push_back(fmt::format("pair {} was repeated: {}", number + 1, error.what()));
    }
    for (const char* which : {"quiet", "injected"}) {
        std::error_code none;
        fs::remove_all(folder.path / fmt::format("{}-{}", number, which), none);
    }
    return run_pair(options, one, job, number, folder, result);
}

}  // namespace

Validated validate(const Options& options) {
    Validated out;
    out.pairs = options.pairs;
    out.seed = options.seed;
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    out.host = host;
    out.mpi = options.command.empty() ? bench::mpi_of(options.bsp) : "";
    for (size_t i = 0; i < options.cases.size(); ++i) {
        const Case& one = options.cases[i];
        const Folder folder(options.keep.empty() ? "" : fmt::format("{}-{}", options.keep, i + 1));
        const auto job = job_of(options, one, folder.path);
        CaseResult result{one};
        const Run first = run_job(options, job, "", folder.path / "first", folder.path);  // caches, page tables, the exporter's programs
        out.exporter = first.json["run"]["exporter"]["name"].get<std::string>();
        folder.drop(first.at);
        for (size_t number = 0; number < options.pairs; ++number) {
            if (options.progress) options.progress({one.spec, i, options.cases.size(), number, options.pairs});
            result.pairs.push_back(run_pair_again(options, one, job, number, folder, result));
        }
        judge(result, options.seed);
        out.cases.push_back(std::move(result));
    }
    out.verdict = verdict_of(out.cases);
    return out;
}

}  // namespace polter::validation
