// SPDX-License-Identifier: BSD-3-Clause
#include "validate.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "analyzers/inject/alongside.hpp"
#include "analyzers/inject/spec.hpp"
#include "self.hpp"

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

std::string quiet_name(size_t pair) {
    return fmt::format("{}-quiet", pair);
}

std::string injected_name(size_t pair) {
    return fmt::format("{}-injected", pair);
}

// Where both runs are injected, in turn for so long.
std::string windows_name(size_t pair, bool second) {
    return fmt::format("{}-{}", pair, second ? "complement" : "windows");
}

std::string cost_name(size_t pair) {
    return fmt::format("{}-cost.json", pair);
}

// The warnings of a run, for the message that tells why it is of no use.
std::string said_in(const Json& result) {
    if (!result.is_object()) return "its output is no JSON";
    std::string said;
    for (const auto& warning : result.value("warnings", Json::array()))
        if (warning.is_string()) said += (said.empty() ? "" : "; ") + warning.get<std::string>();
    const Json run = result.value("run", Json::object()), exporter = run.is_object() ? run.value("exporter", Json::object()) : Json();
    for (const auto& warning : run.is_object() ? run.value("warnings", Json::array()) : Json::array())
        if (warning.is_string()) said += (said.empty() ? "" : "; ") + warning.get<std::string>();
    if (exporter.is_object()) said += fmt::format("; exporter {}: {}", exporter.value("name", "?"), exporter.value("why", "?"));
    return said;
}

// One traced run; what `polter run --json` printed.
Json run_job(const Options& options, const std::vector<std::string>& job, const std::string& spec, const fs::path& at,
             const fs::path& folder) {
    std::vector<std::string> words = {"run", "--json", "-o", at.string(), "--exporter", options.exporter};
    if (!spec.empty()) words.insert(words.end(), {"--inject", spec});
    words.push_back("--");
    words.insert(words.end(), job.begin(), job.end());
    Json result = Json::parse(SelfRun(options.program, words, folder, "run").output(), nullptr, false);
    // Whether `polter run` replayed it in the time that it allows itself does not matter: the pair is replayed here.
    const Json run = result.is_object() ? result.value("run", Json()) : Json();
    const auto said_why = [&](const char* key) { return run.is_object() && run.contains(key) && !run[key].is_null(); };
    if (!run.is_object() || !result.contains("measured_ns") || said_why("no_trace") || said_why("not_measured"))
        throw launch::Error("a run of the validation gave no result with noise (" + said_in(result) +
                            "); polter doctor says what can be measured here");
    return result;
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

EventCost cost_before_pair(const Options& options, const std::string& spec, size_t number, const Folder& folder, const CaseResult& result) {
    EventCost cost = measure_event_cost(options.program, options.exporter, spec, folder.path);
    if (!result.pairs.empty()) cost.cpus.insert(result.pairs.back().cost_by_loop.cpus.begin(), result.pairs.back().cost_by_loop.cpus.end());
    std::ofstream(folder.path / cost_name(number)) << to_json(cost) << "\n";
    return cost;
}

// What the log of an injected run warns of. Throws where nothing was injected.
void take_warnings(const fs::path& run, const Json& said, CaseResult& result) {
    const auto log = run / inject::log_name;
    if (!fs::exists(log)) throw launch::Error("nothing was injected: " + said["run"]["warnings"].dump());
    const inject::Log events = inject::read_log(log);
    for (const std::string& warning : events.warnings)
        if (std::find(result.warnings.begin(), result.warnings.end(), warning) == result.warnings.end()) result.warnings.push_back(warning);
    if (events.events() == 0) throw launch::Error("nothing was injected: the job is shorter than the period of the noise");
}

Crossover run_pair(const Options& options, const Case& one, const std::vector<std::string>& job, size_t number, const Folder& folder,
                   CaseResult& result) {
    const auto quiet_at = folder.path / quiet_name(number), injected_at = folder.path / injected_name(number);
    const std::string spec = fmt::format("{},seed={}", one.spec, options.seed + number);
    const EventCost cost = cost_before_pair(options, spec, number, folder, result);
    Json injected;
    for (const bool inject_now : {number % 2 == 1, number % 2 == 0})  // in turn first and second
        if (inject_now)
            injected = run_job(options, job, spec, injected_at, folder.path);
        else
            run_job(options, job, "", quiet_at, folder.path);
    take_warnings(injected_at, injected, result);
    Crossover all{.pairs = {judge_pair(quiet_at, injected_at, folder.path, cost, result.found)}, .compared = 1};
    folder.drop(quiet_at);
    folder.drop(injected_at);
    return all;
}

void add_pieces(CaseResult& result, size_t number, const Crossover& pieces) {
    result.compared = (result.compared * static_cast<double>(number) + pieces.compared) / static_cast<double>(number + 1);  // the mean
    const std::string warning =
        "the prediction in windows is not reliable: where the other run's events hit this one could not be found, as those of several "
        "ranks take turns within a step of the program; compare whole runs (without --windows)";
    if (!pieces.settled && std::find(result.warnings.begin(), result.warnings.end(), warning) == result.warnings.end())
        result.warnings.push_back(warning);
    result.pairs.insert(result.pairs.end(), pieces.pairs.begin(), pieces.pairs.end());
}

Crossover run_windows(const Options& options, const Case& one, const std::vector<std::string>& job, size_t number, const Folder& folder,
                      CaseResult& result) {
    const std::string spec = fmt::format("{},seed={}", one.spec, options.seed + number), ns = std::to_string(options.windows_ns);
    const EventCost cost = cost_before_pair(options, spec, number, folder, result);
    const std::array<fs::path, 2> at = {folder.path / windows_name(number, false), folder.path / windows_name(number, true)};
    for (const bool second : {number % 2 == 1, number % 2 == 0}) {  // in turn first and second
        const auto windows = fmt::format("{},on={},off={},after={}", spec, ns, ns, second ? ns : "0");
        take_warnings(at[second], run_job(options, job, windows, at[second], folder.path), result);
    }
    const Crossover pieces = judge_windows(at[0], at[1], folder.path, cost, result.found);
    for (const fs::path& run : at) folder.drop(run);
    return pieces;
}

// What fails is repeated once, with a warning: one job that the launcher lost must not cost the whole validation.
template <class Once>
auto repeat_once(const std::string& what, const std::vector<fs::path>& left_behind, CaseResult& result, const Once& once) {
    try {
        return once();
    } catch (const launch::Error& error) {
        result.warnings.push_back(fmt::format("{} was repeated: {}", what, error.what()));
    }
    for (const fs::path& one : left_behind) {
        std::error_code none;
        fs::remove_all(one, none);
    }
    return once();
}

// Where a window lies within one call's work, nothing can be compared.
void check_pieces(const CaseResult& result) {
    if (result.windows_ns > 0 && result.pairs.size() < 10)
        throw launch::Error(
            fmt::format("the runs have {} pieces that one did with noise and the other without; 10 are needed: take longer "
                        "runs or more pairs, and windows (--windows) that are longer than the time between MPI calls",
                        result.pairs.size()));
}

std::string host_name() {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    return host;
}

}  // namespace

Validated validate(const Options& options) {
    Validated out;
    out.pairs = options.pairs;
    out.seed = options.seed;
    out.host = host_name();
    out.mpi = options.command.empty() ? bench::mpi_of(options.bsp) : "";
    for (size_t i = 0; i < options.cases.size(); ++i) {
        const Case& one = options.cases[i];
        const Folder folder(options.keep.empty() ? "" : fmt::format("{}-{}", options.keep, i + 1));
        const auto job = job_of(options, one, folder.path);
        CaseResult result{.asked = one, .windows_ns = options.windows_ns};
        const fs::path at = folder.path / "first";  // caches, page tables, the exporter's programs
        const Json first = repeat_once("the first run", {at}, result, [&] { return run_job(options, job, "", at, folder.path); });
        out.exporter = first["run"]["exporter"]["name"].get<std::string>();
        folder.drop(at);
        for (size_t number = 0; number < options.pairs; ++number) {
            if (options.progress) options.progress({one.spec, i, options.cases.size(), number, options.pairs});
            const auto more = repeat_once(fmt::format("pair {}", number + 1),
                                          {folder.path / quiet_name(number), folder.path / injected_name(number),
                                           folder.path / windows_name(number, false), folder.path / windows_name(number, true)},
                                          result, [&] {
                                              return options.windows_ns > 0 ? run_windows(options, one, job, number, folder, result)
                                                                            : run_pair(options, one, job, number, folder, result);
                                          });
            add_pieces(result, number, more);
        }
        check_pieces(result);
        judge(result, options.seed);
        out.cases.push_back(std::move(result));
    }
    out.verdict = verdict_of(out.cases);
    return out;
}

Validated judge_kept(const std::string& folder, uint64_t seed) {
    Validated out;
    out.seed = seed;
    out.host = host_name();
    CaseResult result;
    const fs::path in = folder;
    const auto two = [&](size_t pair) -> std::array<fs::path, 2> {
        if (fs::exists(in / windows_name(pair, false))) return {in / windows_name(pair, false), in / windows_name(pair, true)};
        return {in / quiet_name(pair), in / injected_name(pair)};
    };
    for (; fs::exists(two(out.pairs)[0]) && fs::exists(two(out.pairs)[1]); ++out.pairs) {
        const auto [first, second] = two(out.pairs);
        const bool windows = first.filename() == windows_name(out.pairs, false);
        if (out.pairs == 0) {
            result.asked.spec = inject::read_log(second / inject::log_name).sources.at(0).spec;
            result.windows_ns = windows ? inject::parse_spec(result.asked.spec).on_ns : 0;
        }
        const Json json = Json::parse(text_of(in / cost_name(out.pairs)), nullptr, false);
        const EventCost cost = json.is_object() ? event_cost_from(json) : EventCost();
        if (!windows) {
            result.pairs.push_back(judge_pair(first, second, fs::temp_directory_path(), cost, result.found));
            continue;
        }
        const Crossover pieces = judge_windows(first, second, fs::temp_directory_path(), cost, result.found);
        add_pieces(result, out.pairs, pieces);
    }
    if (result.pairs.empty())
        throw launch::Error(fmt::format("{}: has no pair of runs; name a folder that polter validate --keep made", folder));
    check_pieces(result);
    judge(result, seed);
    out.cases.push_back(std::move(result));
    out.verdict = verdict_of(out.cases);
    return out;
}

}  // namespace polter::validation
