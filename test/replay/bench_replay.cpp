// SPDX-License-Identifier: BSD-3-Clause
// How fast the replay is, against the OTF2 library reading the same archive with empty callbacks. Prints JSON.
//
//     bench_replay [--ranks N] [--events N] [--sources N] [--messages PERCENT] [--noise PERCENT] [--rounds N] [--trace DIR]
//
// The synthetic archive: ranks × events; user regions, of which the given share are exchanges with the neighbour (Irecv, Send, Wait), an
// allreduce now and then, and noise records. The figures are medians of interleaved rounds; quote ratios, machines differ.
#include <fmt/core.h>
#include <otf2/otf2.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "replay/events.hpp"
#include "replay/passes.hpp"
#include "trace_spec.hpp"

namespace {

using namespace polter;

struct Arguments {
    size_t ranks = 64, sources = 8;
    int64_t events = 10'000'000, messages = 5, noise = 2;
    int rounds = 5;
    std::string trace;
};

double seconds(const std::function<void()>& run) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

OTF2_FlushType flush(void*, OTF2_FileType, OTF2_LocationRef, void*, bool) {
    return OTF2_FLUSH;
}

// Definitions by the tests' writer, then each location's events straight into OTF2: an archive larger than memory is no problem.
void write(const Arguments& arguments, const std::string& directory) {
    test::TraceSpec spec(arguments.ranks);
    for (size_t i = 0; i < arguments.sources; ++i) spec.accounts.push_back("os:source" + std::to_string(i));
    const char* regions[] = {"work", "MPI_Irecv", "MPI_Send", "MPI_Wait", "MPI_Allreduce"};
    for (const char* name : regions)  // the writer numbers regions as they come
        for (const auto kind : {test::Record::Kind::enter, test::Record::Kind::leave}) {
            test::Record record;
            record.kind = kind;
            record.name = name;
            spec.records[0].push_back(record);
        }
    test::write_trace(spec, directory);
    const std::string body = directory + ".body";
    std::filesystem::remove_all(body);
    OTF2_Archive* archive =
        OTF2_Archive_Open(body.c_str(), "traces", OTF2_FILEMODE_WRITE, OTF2_CHUNK_SIZE_MIN, OTF2_CHUNK_SIZE_MIN,  // as the anchor says
                          OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    static const OTF2_FlushCallbacks callbacks{flush, nullptr};
    OTF2_Archive_SetFlushCallbacks(archive, &callbacks, nullptr);
    OTF2_Archive_SetSerialCollectiveCallbacks(archive);
    OTF2_Archive_OpenEvtFiles(archive);
    const int64_t each = arguments.events / static_cast<int64_t>(arguments.ranks);
    for (size_t r = 0; r < arguments.ranks; ++r) {
        OTF2_EvtWriter* events = OTF2_Archive_GetEvtWriter(archive, r);
        std::vector<uint64_t> totals(arguments.sources, 0);
        uint64_t now = 1000, request = 0;
        const auto noise = [&](size_t source, uint64_t ns) {
            OTF2_MetricValue value;
            value.unsigned_int = totals[source] += ns;
            const OTF2_Type type = OTF2_TYPE_UINT64;
            OTF2_EvtWriter_Metric(events, nullptr, now, static_cast<uint32_t>(source), 1, &type, &value);
        };
        for (size_t source = 0; source < arguments.sources; ++source) noise(source, 0);
        const auto right = static_cast<uint32_t>((r + 1) % arguments.ranks),
                   left = static_cast<uint32_t>((r + arguments.ranks - 1) % arguments.ranks);
        int64_t messages = 0, noises = 0, steps = 0;
        for (int64_t i = 0; i < each; ++steps) {
            now = 1000 + static_cast<uint64_t>(i) * 100;  // equal times on all ranks: the exchange's order holds
            if (messages * 100 < i * arguments.messages) {
                OTF2_EvtWriter_Enter(events, nullptr, now, 1);
                OTF2_EvtWriter_MpiIrecvRequest(events, nullptr, now, ++request);
                OTF2_EvtWriter_Leave(events, nullptr, now + 10, 1);
                OTF2_EvtWriter_Enter(events, nullptr, now + 20, 2);
                OTF2_EvtWriter_MpiSend(events, nullptr, now + 20, right, 0, 1, 1024);
                OTF2_EvtWriter_Leave(events, nullptr, now + 30, 2);
                OTF2_EvtWriter_Enter(events, nullptr, now + 40, 3);
                OTF2_EvtWriter_MpiIrecv(events, nullptr, now + 60, left, 0, 1, 1024, request);
                OTF2_EvtWriter_Leave(events, nullptr, now + 60, 3);
                messages += 9;
                i += 9;
                if (steps % 50 == 0) {
                    now += 100;
                    OTF2_EvtWriter_Enter(events, nullptr, now, 4);
                    OTF2_EvtWriter_MpiCollectiveBegin(events, nullptr, now);
                    OTF2_EvtWriter_MpiCollectiveEnd(events, nullptr, now + 90, OTF2_COLLECTIVE_OP_ALLREDUCE, 0, 0, 8, 8);
                    OTF2_EvtWriter_Leave(events, nullptr, now + 90, 4);
                    i += 4;
                }
            } else {
                OTF2_EvtWriter_Enter(events, nullptr, now, 0);
                if (noises * 100 < i * arguments.noise) {
                    now += 90;
                    noise((r + static_cast<size_t>(steps)) % arguments.sources, 20);
                    ++noises;
                    ++i;
                }
                OTF2_EvtWriter_Leave(events, nullptr, now + 5, 0);
                i += 2;
            }
        }
        OTF2_Archive_CloseEvtWriter(archive, events);
    }
    OTF2_Archive_CloseEvtFiles(archive);
    OTF2_Archive_Close(archive);
    for (const auto& entry : std::filesystem::directory_iterator(body + "/traces"))
        if (entry.path().extension() == ".evt")
            std::filesystem::rename(entry.path(), directory + "/traces/" + entry.path().filename().string());
    std::filesystem::remove_all(body);
}

uint64_t read_empty(const std::string& trace) {
    replay::Archive archive(trace);
    OTF2_EvtReaderCallbacks* callbacks = OTF2_EvtReaderCallbacks_New();
    OTF2_EvtReaderCallbacks_SetEnterCallback(callbacks, [](OTF2_LocationRef, OTF2_TimeStamp, uint64_t, void*, OTF2_AttributeList*,
                                                           OTF2_RegionRef) { return OTF2_CALLBACK_SUCCESS; });
    OTF2_EvtReaderCallbacks_SetLeaveCallback(callbacks, [](OTF2_LocationRef, OTF2_TimeStamp, uint64_t, void*, OTF2_AttributeList*,
                                                           OTF2_RegionRef) { return OTF2_CALLBACK_SUCCESS; });
    std::vector<std::string> warnings;
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
    replay::Engine engine(archive, scenario, model, learning);
    OTF2_EvtReaderCallbacks* callbacks = replay::event_callbacks();
    std::vector<void*> user_data;
    for (const auto& thread : engine.threads()) user_data.push_back(thread.get());
    std::vector<std::string> warnings;
    archive.open_events(callbacks, user_data, warnings);
    engine.run();
    OTF2_EvtReaderCallbacks_Delete(callbacks);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
    Arguments arguments;
    CLI::App app{"Speed of the replay against reading with OTF2 alone"};
    app.add_option("--ranks", arguments.ranks);
    app.add_option("--events", arguments.events);
    app.add_option("--sources", arguments.sources);
    app.add_option("--messages", arguments.messages, "Percent of the events that are exchanges");
    app.add_option("--noise", arguments.noise, "Percent of the events that are noise records");
    app.add_option("--rounds", arguments.rounds);
    app.add_option("--trace", arguments.trace, "Measure this archive instead");
    CLI11_PARSE(app, argc, argv);
    const test::TemporaryDirectory directory;
    const std::string trace = arguments.trace.empty() ? directory.path("t") : arguments.trace;
    if (arguments.trace.empty()) write(arguments, trace);

    replay::Model model;
    replay_pass(trace, model, 0, true);
    model.freeze();
    uint64_t events = 0;
    std::vector<double> raw, one, eighteen, command, attributed;
    for (int round = 0; round < arguments.rounds; ++round) {
        raw.push_back(seconds([&] { events = read_empty(trace); }));
        one.push_back(seconds([&] { replay_pass(trace, model, 2, false); }));
        eighteen.push_back(seconds([&] { replay_pass(trace, model, 18, false); }));
        command.push_back(seconds([&] {
            replay::Options options;
            options.trace = trace;
            replay::replay(options);
        }));
        attributed.push_back(seconds([&] {
            replay::Options options;
            options.trace = trace;
            options.attribution = true;
            replay::replay(options);
        }));
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
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
                                   {"peak_memory_mb", usage.ru_maxrss / 1024}};
    fmt::print("{}\n", report.dump(2));
    return 0;
}
