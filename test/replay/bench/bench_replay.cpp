// SPDX-License-Identifier: BSD-3-Clause
// How fast the replay is, against the OTF2 library reading the same archive with empty callbacks. Prints JSON.
//
//     bench_replay [--ranks N] [--events N] [--sources N] [--messages PERCENT] [--noise PERCENT] [--rounds N] [--trace DIR]
//                  [--launcher "mpirun -n 2"] [--brief]
//
// The archive is synthetic (synthetic.hpp). The figures are medians of interleaved rounds; quote ratios, machines differ. Alone, each takes
// one thread: its CPU time counts (in the kernel too), which other load on the machine changes least. Of several processes the time on the
// clock does, against that of one which is started anew as they are: a new process pays for its memory.
#include <fmt/core.h>
#include <otf2/otf2.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "../support/synthetic.hpp"
#include "../support/trace_spec.hpp"
#include "replay/engine/otf2_events.hpp"
#include "replay/parallel/group.hpp"
#include "replay/rules/mpi_rules.hpp"
#include "replay/testing.hpp"

namespace {

using namespace polter;

struct Arguments : test::SyntheticOptions {
    int rounds = 5;
    std::string trace, launcher, launched;
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

// A whole analysis in a process of its own, or in one of several; the first prints how long it took.
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
    if (!group || group->rank() == 0) fmt::print("{}\n", time);
    std::fflush(stdout);
    if (group) group->close(false);
    return 0;
}

double launched_seconds(const std::string& launcher, const std::string& trace) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    FILE* pipe = popen(
        fmt::format("{} '{}' --launched {} --trace '{}'", launcher, program, launcher.empty() ? "one" : "several", trace).c_str(), "r");
    double time = 0;
    const bool read = pipe && std::fscanf(pipe, "%lf", &time) == 1;
    if (!pipe || pclose(pipe) != 0 || !read) throw std::runtime_error((launcher.empty() ? program : launcher) + ": did not run the replay");
    return time;
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
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double read = *std::min_element(raw.begin(), raw.end()), whole = *std::min_element(command.begin(), command.end());
    return {{"events", events},
            {"rounds", rounds},
            {"read_events_per_second", static_cast<double>(events) / read},
            {"command_seconds", whole},
            {"command_events_per_second", static_cast<double>(events) / whole},
            {"command_of_reading", read / whole},
            {"peak_memory_mb", usage.ru_maxrss / 1024}};
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
    app.add_option("--launcher", arguments.launcher, "Measure several processes too, started by this: \"mpirun -n 2\"");
    app.add_option("--launched", arguments.launched, "(what is started anew: one or several)");
    app.add_flag("--brief", arguments.brief, "The whole command beside the bare reader only, least times");
    CLI11_PARSE(app, argc, argv);
    if (!arguments.launched.empty()) return replay_launched(arguments.trace, arguments.launched == "several");
    const test::TemporaryDirectory directory;
    const std::string trace = arguments.trace.empty() ? directory.path("t") : arguments.trace;
    if (arguments.trace.empty()) test::write_synthetic(arguments, trace);

    if (arguments.brief) {
        fmt::print("{}\n", brief(trace, arguments.rounds).dump(2));
        return 0;
    }
    replay::Model model;
    replay_pass(trace, model, 0, true);
    model.freeze();
    uint64_t events = 0;
    std::vector<double> raw, one, eighteen, command, attributed, alone, together;
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
        if (arguments.launcher.empty()) continue;
        alone.push_back(launched_seconds("", trace));
        together.push_back(launched_seconds(arguments.launcher, trace));
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto entry = [&](double time) {
        return nlohmann::json{
            {"seconds", time}, {"events_per_second", static_cast<double>(events) / time}, {"of_reading", median(raw) / time}};
    };
    nlohmann::json report = {{"bench", "replay"},
                             {"ranks", arguments.ranks},
                             {"events", events},
                             {"read", entry(median(raw))},
                             {"pass_1_scenario", entry(median(one))},
                             {"pass_18_lanes", entry(median(eighteen))},
                             {"command", entry(median(command))},
                             {"command_attribution", entry(median(attributed))},
                             {"peak_memory_mb", usage.ru_maxrss / 1024}};
    if (!together.empty()) {
        report["command_together"] = {
            {"seconds", median(together)}, {"launcher", arguments.launcher}, {"times_as_fast", median(alone) / median(together)}};
    }
    fmt::print("{}\n", report.dump(2));
    return 0;
} catch (const std::exception& e) {
    fmt::print(stderr, "bench_replay: {}\n", e.what());
    return 1;
}
