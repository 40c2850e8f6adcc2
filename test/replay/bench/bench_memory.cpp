// SPDX-License-Identifier: BSD-3-Clause
// How much memory the replay needs beside the OTF2 library's own buffers, and whether that grows with the trace. Prints JSON.
//
//     bench_memory [--ranks N] [--events N]… [--sources N] [--directory DIR]
//
// Each pattern is written with each number of events, and read twice, in processes of their own: by OTF2 alone, all locations open and
// read in turns as the replay does it, with callbacks that do nothing; and by the replay as the command does it. The difference of their
// peaks is the replay's own.
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

#include "replay/replay.hpp"
#include "replay/trace/archive.hpp"
#include "../support/synthetic.hpp"
#include "../support/trace_spec.hpp"

namespace {

using namespace polter;

struct Run {
    int64_t peak_bytes = 0;
    double seconds = 0;
};

Run apart(const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    const pid_t child = fork();
    if (child == 0) {
        try {
            work();
        } catch (const std::exception& error) {
            fmt::print(stderr, "bench_memory: {}\n", error.what());
            _exit(1);
        }
        _exit(0);
    }
    int status = 0;
    rusage usage{};
    wait4(child, &status, 0, &usage);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fmt::print(stderr, "bench_memory: a run failed\n");
        std::exit(1);
    }
    return {usage.ru_maxrss * 1024, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

void read_alone(const std::string& trace) {
    constexpr int64_t events_a_turn = 256;
    struct Turn {
        int64_t left = 0;
    };
    const auto count = [](void* user) {
        auto& turn = *static_cast<Turn*>(user);
        return --turn.left > 0 ? OTF2_CALLBACK_SUCCESS : OTF2_CALLBACK_INTERRUPT;
    };
    static const auto counted = count;
    OTF2_EvtReaderCallbacks* callbacks = OTF2_EvtReaderCallbacks_New();
    const auto on_region = [](OTF2_LocationRef, OTF2_TimeStamp, uint64_t, void* user, OTF2_AttributeList*, OTF2_RegionRef) {
        return counted(user);
    };
    OTF2_EvtReaderCallbacks_SetEnterCallback(callbacks, on_region);
    OTF2_EvtReaderCallbacks_SetLeaveCallback(callbacks, on_region);
    replay::Archive archive(trace);
    const size_t locations = archive.definitions().locations.size();
    std::vector<Turn> turns(locations);
    std::vector<void*> users;
    for (Turn& turn : turns) users.push_back(&turn);
    std::vector<replay::Warning> warnings;
    archive.open_events(callbacks, users, warnings);
    uint64_t events = 0;
    std::vector<bool> ended(locations, false);
    for (size_t left = locations; left > 0;)
        for (size_t i = 0; i < locations; ++i) {
            if (ended[i]) continue;
            turns[i].left = events_a_turn;
            if (archive.read(i, &events) != replay::Archive::Progress::ended) continue;
            ended[i] = true;
            --left;
        }
    OTF2_EvtReaderCallbacks_Delete(callbacks);
}

}  // namespace

int main(int argc, char** argv) {
    test::SyntheticOptions options;
    options.ranks = 1024;
    std::vector<int64_t> lengths{10'000'000, 100'000'000};
    std::string place;
    CLI::App app{"Peak memory of the replay beside OTF2's own"};
    app.add_option("--ranks", options.ranks)->capture_default_str();
    app.add_option("--events", lengths, "Of all ranks together; each is measured")->capture_default_str();
    app.add_option("--sources", options.sources)->capture_default_str();
    app.add_option("--directory", place, "Where the traces are written (14 bytes an event); default: the temporary directory");
    CLI11_PARSE(app, argc, argv);
    if (!place.empty()) setenv("TMPDIR", place.c_str(), 1);
    nlohmann::json cases = nlohmann::json::array();
    for (const bool one_way : {false, true}) {
        for (const int64_t length : lengths) {
            const test::TemporaryDirectory directory;
            const std::string trace = directory.path("t");
            options.events = length;
            options.one_way = one_way;
            options.messages = one_way ? 50 : 5;
            apart([&] { test::write_synthetic(options, trace); });
            const Run alone = apart([&] { read_alone(trace); });
            const Run replayed = apart([&] {
                replay::Options wanted;
                wanted.trace = trace;
                wanted.keep_bytes = 0;  // events that are kept have a limit of their own
                replay::replay(wanted);
            });
            cases.push_back({{"pattern", one_way ? "one_way" : "exchange"},
                             {"ranks", options.ranks},
                             {"events", length},
                             {"otf2_alone_bytes", alone.peak_bytes},
                             {"replay_bytes", replayed.peak_bytes},
                             {"own_bytes", replayed.peak_bytes - alone.peak_bytes},
                             {"seconds", replayed.seconds},
                             {"events_per_second", static_cast<double>(length) / replayed.seconds}});
        }
    }
    fmt::print("{}\n", nlohmann::json{{"schema", "polter.bench.memory/1"}, {"sources", options.sources}, {"cases", cases}}.dump(2));
    return 0;
}
