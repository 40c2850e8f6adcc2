// SPDX-License-Identifier: BSD-3-Clause
// How fast the replay is, against the OTF2 library reading the same archive with empty callbacks. Prints JSON.
//
//     bench_replay [--ranks N] [--events N] [--sources N] [--messages PERCENT] [--noise PERCENT] [--rounds N] [--trace DIR]
//                  [--brief | --launcher "mpirun -n 2" …]
//
// The archive is synthetic (synthetic.hpp). The figures are medians of interleaved rounds, of --brief and --launcher the least ones; quote
// ratios, machines differ. Alone, each takes one thread: its CPU time counts (in the kernel too), which other load on the machine changes
// least. Of several processes the time on the clock does, against that of one which is started anew as they are: a new process pays for its
// memory.
#include <fmt/core.h>
#include <otf2/otf2.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <ctime>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "../support/synthetic.hpp"
#include "../support/trace_spec.hpp"
#include "replay/engine/reading/otf2_events.hpp"
#include "replay/parallel/group.hpp"
#include "replay/parallel/traffic.hpp"
#include "replay/rules/mpi_rules.hpp"
#include "replay/scenario/scenario.hpp"
#include "replay/testing.hpp"

namespace {

using namespace polter;

struct Arguments : test::SyntheticOptions {
    int rounds = 5;
    std::string trace, launched;
    std::vector<std::string> launchers;
    bool brief = false;
};

double seconds(const std::function<void()>& run) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double cpu_seconds(const std::function<void()>& run) {
    const auto now = [] {
        timespec time{};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    const double begin = now();
    run();
    return now() - begin;
}

int64_t peak_memory_mb() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
}

uint64_t read_empty(const std::string& trace) {
    replay::Archive archive(trace);
    OTF2_EvtReaderCallbacks* callbacks = OTF2_EvtReaderCallbacks_New();
    OTF2_EvtReaderCallbacks_SetEnterCallback(callbacks, [](OTF2_LocationRef, OTF2_TimeStamp, uint64_t, void*, OTF2_AttributeList*,
                                                           OTF2_RegionRef) { return OTF2_CALLBACK_SUCCESS; });
    OTF2_EvtReaderCallbacks_SetLeaveCallback(callbacks, [](OTF2_LocationRef, OTF2_TimeStamp, uint64_t, void*, OTF2_AttributeList*,
                                                           OTF2_RegionRef) { return OTF2_CALLBACK_SUCCESS; });
    std::vector<replay::Warning> warnings;
    archive.open_events(callbacks, std::vector<void*>(archive.definitions().locations.size(), nullptr), warnings);
    uint64_t events = 0;
    for (size_t i = 0; i < archive.definitions().locations.size(); ++i)
        while (archive.read(i, &events) != replay::Archive::Progress::ended) {
        }
    OTF2_EvtReaderCallbacks_Delete(callbacks);
    return events;
}

// One replay pass: lane 0 is the measured timeline, lane 1 all removed, then each alone and all but each.
void replay_pass(const std::string& trace, replay::Model& model, size_t lanes, bool learning) {
    replay::Archive archive(trace);
    const size_t accounts = archive.definitions().accounts.size();
    replay::Lanes scenario{lanes, lanes, lanes, lanes, {}};
    for (size_t account = 0; account < accounts; ++account) {
        std::vector<int64_t> mask(lanes, 0);
        for (size_t lane = 0; lane < lanes; ++lane) {
            const bool all = lane == 1, alone = lane >= 2 && lane - 2 == account,
                       but = lane >= 2 + accounts && lane - 2 - accounts != account;
            if (all || alone || but) mask[lane] = -1;
        }
        scenario.masks.push_back(std::move(mask));
    }
    replay::Engine engine(archive, scenario, model, learning, std::make_unique<replay::MpiRules>());
    OTF2_EvtReaderCallbacks* callbacks = replay::event_callbacks();
    std::vector<void*> user_data;
    for (const auto& thread : engine.threads()) user_data.push_back(thread.get());
    std::vector<replay::Warning> warnings;
    archive.open_events(callbacks, user_data, warnings);
    engine.run();
    OTF2_EvtReaderCallbacks_Delete(callbacks);
}

// A whole analysis in a process of its own, or in one of several. The first prints how many they are, the seconds that it took, and the
// peak memory of the process that needed most.
int replay_launched(const std::string& trace, bool several) {
    auto transport = replay::launched_together([](const std::string& file) {
        return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/polter" / file).string();
    });
    if (several && !transport) throw std::runtime_error("the launcher does not say that it started several; use one of Open MPI or MPICH");
    std::optional<replay::Group> group;
    if (transport) group.emplace(std::move(transport)).gather({});
    const double time = seconds([&] {
        replay::Options options;
        options.trace = trace;
        if (group) options.group = &*group;
        replay::replay(options);
    });
    int64_t memory = peak_memory_mb();
    if (group) {
        replay::Bytes mine;
        mine.put(memory);
        for (const replay::Bytes& said : group->gather(mine)) memory = std::max(memory, replay::Input(said).get<int64_t>());
    }
    if (!group || group->rank() == 0) fmt::print("{} {} {}\n", group ? group->size() : 1, time, memory);
    std::fflush(stdout);
    if (group) group->close(false);
    return 0;
}

struct Launched {
    int processes = 0;
    double seconds = 0;
    int64_t peak_memory_mb = 0;
};

Launched launched(const std::string& launcher, const std::string& trace) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    FILE* pipe = popen(
        fmt::format("{} '{}' --launched {} --trace '{}'", launcher, program, launcher.empty() ? "one" : "several", trace).c_str(), "r");
    Launched result;
    const bool read = pipe && std::fscanf(pipe, "%d %lf %" SCNd64, &result.processes, &result.seconds, &result.peak_memory_mb) == 3;
    if (!pipe || pclose(pipe) != 0 || !read) throw std::runtime_error((launcher.empty() ? program : launcher) + ": did not run the replay");
    return result;
}

// Whether the command would leave it to one process, on as many free cores.
bool left_to_one(const std::string& trace, int processes) {
    replay::Archive archive(trace);
    return processes > 1 &&
           replay::expected_part(replay::crossing_traffic(archive, processes), processes, processes) > replay::most_expected_part;
}

// One process started anew, then several by each launcher, which all take part: least times and peaks of memory.
nlohmann::json together(const std::string& trace, std::vector<std::string> launchers, int rounds) {
    launchers.insert(launchers.begin(), "");
    std::vector<Launched> least(launchers.size());
    for (int round = 0; round < rounds; ++round)
        for (size_t i = 0; i < launchers.size(); ++i) {
            const Launched now = launched(launchers[i], trace);
            if (round == 0 || now.seconds < least[i].seconds) least[i] = now;
        }
    nlohmann::json points = nlohmann::json::array();
    for (const Launched& one : least)
        points.push_back({{"processes", one.processes},
                          {"seconds", one.seconds},
                          {"times_as_fast", least[0].seconds / one.seconds},
                          {"left_to_one", left_to_one(trace, one.processes)},
                          {"peak_memory_mb", one.peak_memory_mb}});
    return {{"rounds", rounds}, {"points", points}};
}

// How many scenarios a replay of the archive has whose sources all have noise.
size_t scenarios(const std::string& trace) {
    const replay::Archive archive(trace);
    const auto& accounts = archive.definitions().accounts;
    return replay::Scenarios(accounts, std::nullopt, std::vector<bool>(accounts.size(), true)).lanes().count;
}

// Written by a child process, whose memory does not count.
void write_apart(const Arguments& arguments, const std::string& trace) {
    const pid_t child = fork();
    if (child == 0) {
        try {
            test::write_synthetic(arguments, trace);
        } catch (const std::exception& error) {
            fmt::print(stderr, "bench_replay: {}\n", error.what());
            _exit(1);
        }
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) throw std::runtime_error("the synthetic archive was not written");
}

// The whole command beside the bare reader, least times: what other load on the machine changes least.
nlohmann::json brief(const std::string& trace, int rounds) {
    uint64_t events = 0;
    std::vector<double> raw, command;
    for (int round = 0; round < rounds; ++round) {
        raw.push_back(cpu_seconds([&] { events = read_empty(trace); }));
        command.push_back(cpu_seconds([&] {
            replay::Options options;
            options.trace = trace;
            replay::replay(options);
        }));
    }
    const double read = *std::min_element(raw.begin(), raw.end()), whole = *std::min_element(command.begin(), command.end());
    return {{"events", events},
            {"rounds", rounds},
            {"read_events_per_second", static_cast<double>(events) / read},
            {"command_seconds", whole},
            {"command_events_per_second", static_cast<double>(events) / whole},
            {"command_of_reading", read / whole},
            {"peak_memory_mb", peak_memory_mb()}};
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) try {
    Arguments arguments;
    CLI::App app{"Speed of the replay against reading with OTF2 alone"};
    app.add_option("--ranks", arguments.ranks);
    app.add_option("--events", arguments.events);
    app.add_option("--sources", arguments.sources);
    app.add_option("--messages", arguments.messages, "Percent of the events that are exchanges");
    app.add_option("--noise", arguments.noise, "Percent of the events that are noise records");
    app.add_option("--rounds", arguments.rounds);
    app.add_option("--trace", arguments.trace, "Measure this archive instead");
    app.add_option("--launcher", arguments.launchers,
                   "Only several processes, started by this (\"mpirun -n 2\"), against one; may be repeated")
        ->allow_extra_args(false);
    app.add_option("--launched", arguments.launched, "(what is started anew: one or several)");
    app.add_flag("--brief", arguments.brief, "The whole command beside the bare reader only, least times");
    CLI11_PARSE(app, argc, argv);
    if (!arguments.launched.empty()) return replay_launched(arguments.trace, arguments.launched == "several");
    const test::TemporaryDirectory directory;
    const std::string trace = arguments.trace.empty() ? directory.path("t") : arguments.trace;
    if (arguments.trace.empty()) write_apart(arguments, trace);

    if (arguments.brief || !arguments.launchers.empty()) {
        nlohmann::json report = arguments.brief ? brief(trace, arguments.rounds) : together(trace, arguments.launchers, arguments.rounds);
        if (arguments.trace.empty()) report["scenarios"] = scenarios(trace);
        fmt::print("{}\n", report.dump(2));
        return 0;
    }
    replay::Model model;
    replay_pass(trace, model, 0, true);
    model.freeze();
    uint64_t events = 0;
    std::vector<double> raw, one, eighteen, command, attributed;
    for (int round = 0; round < arguments.rounds; ++round) {
        raw.push_back(cpu_seconds([&] { events = read_empty(trace); }));
        one.push_back(cpu_seconds([&] { replay_pass(trace, model, 2, false); }));
        eighteen.push_back(cpu_seconds([&] { replay_pass(trace, model, 18, false); }));
        command.push_back(cpu_seconds([&] {
            replay::Options options;
            options.trace = trace;
            replay::replay(options);
        }));
        attributed.push_back(cpu_seconds([&] {
            replay::Options options;
            options.trace = trace;
            options.attribution = true;
            replay::replay(options);
        }));
    }
    const auto entry = [&](double time) {
        return nlohmann::json{
            {"seconds", time}, {"events_per_second", static_cast<double>(events) / time}, {"of_reading", median(raw) / time}};
    };
    const nlohmann::json report = {{"bench", "replay"},
                                   {"ranks", arguments.ranks},
                                   {"events", events},
                                   {"read", entry(median(raw))},
                                   {"pass_1_scenario", entry(median(one))},
                                   {"pass_18_lanes", entry(median(eighteen))},
                                   {"command", entry(median(command))},
                                   {"command_attribution", entry(median(attributed))},
                                   {"peak_memory_mb", peak_memory_mb()}};
    fmt::print("{}\n", report.dump(2));
    return 0;
} catch (const std::exception& e) {
    fmt::print(stderr, "bench_replay: {}\n", e.what());
    return 1;
}
