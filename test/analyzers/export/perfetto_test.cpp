// SPDX-License-Identifier: BSD-3-Clause
// The Perfetto export against the trace as it was specified, read with protozero's reader.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "analyzers/export/export.hpp"
#include "perfetto_decode.hpp"
#include "replay/base/error.hpp"
#include "test/replay/support/micro_parse.hpp"
#include "test/replay/support/random_program.hpp"

namespace fs = std::filesystem;
using namespace polter;
using Kind = test::Record::Kind;

namespace {

struct Exported {
    exports::ExportResult result;
    test::PerfettoTrace trace;
};

Exported exported(const test::TemporaryDirectory& folder, const std::string& trace, exports::ExportOptions options = {}) {
    options.trace = trace;
    options.output = folder.path("out.perfetto-trace");
    Exported out{exports::export_trace(options), {}};
    out.trace = test::decode_perfetto(options.output);
    return out;
}

int64_t ticks_in_ns(const test::TraceSpec& trace, int64_t ticks) {
    return static_cast<int64_t>(static_cast<__int128>(ticks) * 1'000'000'000 / static_cast<__int128>(trace.ticks_per_second));
}

// Messages with both ends: by channel, as many as were sent and received.
size_t messages(const test::TraceSpec& trace) {
    std::map<std::tuple<size_t, size_t, uint32_t, int64_t, uint32_t>, std::pair<size_t, size_t>> ends;
    const auto world = [&](size_t rank, const test::Record& r) -> size_t {
        if (r.comm >= trace.comms.size() || trace.comms[r.comm].empty()) return r.comm == 0 ? static_cast<size_t>(r.peer) : rank;
        return trace.comms[r.comm][static_cast<size_t>(r.peer)];
    };
    for (size_t rank = 0; rank < trace.ranks(); ++rank) {
        std::map<uint64_t, uint32_t> partitioned;  // by request, as posted
        for (test::Record r : trace.records[rank]) {
            if (r.kind == Kind::irecv_request) partitioned[r.request] = r.partitioned;
            if (r.kind == Kind::irecv) r.partitioned = partitioned[r.request];
            if (r.kind == Kind::send || r.kind == Kind::isend) ++ends[{rank, world(rank, r), r.comm, r.tag, r.partitioned}].first;
            if (r.kind == Kind::recv || r.kind == Kind::irecv) ++ends[{world(rank, r), rank, r.comm, r.tag, r.partitioned}].second;
        }
    }
    size_t sum = 0;
    for (const auto& [channel, both] : ends) sum += std::min(both.first, both.second);
    return sum;
}

struct Flows {
    size_t whole = 0, begun = 0, ended = 0;
    bool backward = false;
};

Flows flows(const test::PerfettoTrace& trace) {
    std::map<uint64_t, std::pair<size_t, size_t>> ends;
    Flows found;
    for (const auto& event : trace.events) {
        for (const uint64_t id : event.flows) ++ends[id].first, ++found.begun;
        for (const uint64_t id : event.ending_flows) ++ends[id].second, ++found.ended;
    }
    for (const auto& [id, both] : ends) found.whole += both.first == 1 && both.second == 1;
    return found;
}

void check_measured(const test::TraceSpec& spec, const Exported& out) {
    int64_t origin = INT64_MAX;
    for (const auto& records : spec.records)
        for (const auto& r : records)
            if (r.kind == Kind::enter || r.kind == Kind::leave) origin = std::min(origin, ticks_in_ns(spec, r.time));
    for (size_t rank = 0; rank + spec.strangers < spec.ranks(); ++rank) {
        CAPTURE(rank);
        if (spec.threads.contains(rank)) continue;  // no rank of its own
        const std::string process = "measured: rank " + std::to_string(rank);
        const auto calls = out.trace.tracks_of(process, "MPI calls");
        REQUIRE(calls.size() == 1);
        std::vector<std::tuple<int64_t, std::string>> expected, got;
        std::map<int64_t, int64_t> leaves;
        int64_t noise_ns = 0, drawn_ns = 0;
        for (const auto& r : spec.records[rank]) {
            if (r.kind == Kind::enter) expected.emplace_back(ticks_in_ns(spec, r.time) - origin, r.name);
            if (r.kind == Kind::noise) noise_ns += r.ns;
        }
        for (const auto& slice : out.trace.slices(calls[0])) got.emplace_back(slice.begin, slice.name);
        CHECK(got == expected);
        for (const char* track : {"OS noise", "OS services"})
            for (const uint64_t uuid : out.trace.tracks_of(process, track))
                for (const auto& slice : out.trace.slices(uuid)) {
                    drawn_ns += slice.end - slice.begin;
                    CHECK(slice.depth == 0);  // slices of noise never overlap
                }
        CHECK(drawn_ns <= noise_ns);
        // All of it, unless it was longer than the time that it can have taken.
        bool without_room = false;
        for (const auto& warning : out.result.warnings)
            without_room = without_room || warning.find("were longer than the time") != std::string::npos;
        if (!without_room) CHECK(drawn_ns == noise_ns);
    }
}

}  // namespace

TEST_CASE("micro traces: calls, messages, noise and nesting") {
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(POLTER_MICRO_TRACES)) {
        if (entry.path().extension() != ".txt") continue;
        ++files;
        CAPTURE(entry.path().filename().string());
        const test::TraceSpec spec = test::parse_micro(entry.path().string()).trace;
        const test::TemporaryDirectory folder;
        test::write_trace(spec, folder.path("t"));
        const Exported out = exported(folder, folder.path("t"));
        CHECK(out.trace.faults == std::vector<std::string>{});
        check_measured(spec, out);
        const bool both = out.result.timelines.size() == 2;
        CHECK(flows(out.trace).whole == messages(spec) * (both ? 2 : 1));
    }
    CHECK(files > 50);
}

TEST_CASE("random programs: flows are messages, in both timelines") {
    for (uint64_t seed = 1; seed <= test::programs_of(12); ++seed) {
        CAPTURE(seed);
        test::ProgramOptions options;
        options.seed = seed;
        options.ranks = 5;
        options.steps = 60;
        options.structured = seed % 3 == 1;
        options.windows = seed % 3 == 2;
        const test::TraceSpec spec = test::random_program(options).trace;
        const test::TemporaryDirectory folder;
        test::write_trace(spec, folder.path("t"));
        const Exported out = exported(folder, folder.path("t"));
        CHECK(out.trace.faults == std::vector<std::string>{});
        check_measured(spec, out);
        CHECK(out.result.timelines == std::vector<std::string>{"measured", "approximated"});
        CHECK(flows(out.trace).whole == 2 * messages(spec));
        // Both timelines have the same calls; no call of the approximated one begins later.
        for (size_t rank = 0; rank < spec.ranks(); ++rank) {
            const auto measured = out.trace.slices(out.trace.tracks_of("measured: rank " + std::to_string(rank), "MPI calls").at(0));
            const auto quiet = out.trace.slices(out.trace.tracks_of("approximated: rank " + std::to_string(rank), "MPI calls").at(0));
            REQUIRE(measured.size() == quiet.size());
            for (size_t i = 0; i < measured.size(); ++i) {
                CHECK(measured[i].name == quiet[i].name);
                CHECK(quiet[i].begin <= measured[i].begin);
            }
        }
    }
}

TEST_CASE("traces of other tools") {
    if (!fs::exists(POLTER_FOREIGN_TRACES)) {
        MESSAGE("not run: no traces at " << POLTER_FOREIGN_TRACES);
        return;
    }
    for (const auto& entry : fs::directory_iterator(POLTER_FOREIGN_TRACES)) {
        if (!entry.is_directory()) continue;
        CAPTURE(entry.path().filename().string());
        const test::TemporaryDirectory folder;
        const Exported out = exported(folder, entry.path().string());
        CHECK(out.trace.faults == std::vector<std::string>{});
        uint64_t calls = 0, sent = 0;
        for (const auto& [what, number] : out.result.counts) {
            if (what == "calls") calls = number;
            if (what == "messages_sent") sent = number;
        }
        uint64_t begun = 0;
        for (const auto& event : out.trace.events) begun += event.type == 1;
        CHECK(begun == calls);
        CHECK(calls > 0);
        const Flows found = flows(out.trace);
        CHECK(found.begun == sent);
        // This one names MPI_COMM_SELF, and others' communicators, for what went between ranks: not all of it can be matched.
        if (entry.path().filename() == "sstmacro-otf2_test_traces")
            CHECK(found.whole > 0);
        else
            CHECK(found.whole == sent);
    }
}

TEST_CASE("a window cuts calls and noise, and a choice of ranks leaves the others out") {
    test::TraceSpec spec(3);
    spec.accounts = {"os:timer"};
    for (size_t rank = 0; rank < 3; ++rank) {
        spec.add(rank, 0, Kind::enter, "main");
        for (int64_t t = 100; t < 1000; t += 100) {
            spec.add(rank, t, Kind::enter, "MPI_Barrier");
            spec.add(rank, t + 50, Kind::leave, "MPI_Barrier");
            test::Record& noise = spec.add(rank, t + 90, Kind::noise, "os:timer");
            noise.ns = 20;
        }
        spec.add(rank, 1000, Kind::leave, "main");
    }
    const test::TemporaryDirectory folder;
    test::write_trace(spec, folder.path("t"));
    exports::ExportOptions options;
    options.measured_only = true;
    options.selection.begin = 380;
    options.selection.end = 520;
    options.selection.ranks = {false, true};
    const Exported out = exported(folder, folder.path("t"), options);
    CHECK(out.trace.faults == std::vector<std::string>{});
    CHECK(out.trace.tracks_of("measured: rank 0", "MPI calls").empty());
    CHECK(out.trace.tracks_of("measured: rank 2", "MPI calls").empty());
    std::vector<std::tuple<std::string, int64_t, int64_t>> got;
    for (const auto& slice : out.trace.slices(out.trace.tracks_of("measured: rank 1", "MPI calls").at(0)))
        got.emplace_back(slice.name, slice.begin, slice.end);
    CHECK(got ==
          std::vector<std::tuple<std::string, int64_t, int64_t>>{{"main", 380, 520}, {"MPI_Barrier", 400, 450}, {"MPI_Barrier", 500, 520}});
    std::vector<std::pair<int64_t, int64_t>> noise;
    for (const auto& slice : out.trace.slices(out.trace.tracks_of("measured: rank 1", "OS noise").at(0)))
        noise.emplace_back(slice.begin, slice.end);
    CHECK(noise == std::vector<std::pair<int64_t, int64_t>>{{380, 390}, {470, 490}});
}

TEST_CASE("aggregated: parts of time") {
    test::TraceSpec spec(1);
    spec.accounts = {"os:timer"};
    spec.add(0, 0, Kind::enter, "MPI_Init");
    spec.add(0, 100, Kind::leave, "MPI_Init");
    spec.add(0, 350, Kind::noise, "os:timer").ns = 100;
    spec.add(0, 500, Kind::enter, "MPI_Finalize");
    spec.add(0, 1000, Kind::leave, "MPI_Finalize");
    const test::TemporaryDirectory folder;
    test::write_trace(spec, folder.path("t"));
    exports::ExportOptions options;
    options.measured_only = true;
    options.aggregate = 5;
    const Exported out = exported(folder, folder.path("t"), options);
    CHECK(out.trace.faults == std::vector<std::string>{});
    const auto values = [&](const char* name) {
        std::vector<std::pair<int64_t, double>> list;
        const uint64_t track = out.trace.tracks_of("measured: rank 0", name).at(0);
        for (const auto& event : out.trace.events)
            if (event.track == track) list.emplace_back(event.time, *event.value);
        return list;
    };
    CHECK(values("time in MPI") == std::vector<std::pair<int64_t, double>>{{0, 50}, {200, 0}, {400, 50}, {600, 100}});
    CHECK(values("noise: timer") == std::vector<std::pair<int64_t, double>>{{0, 0}, {200, 50}, {400, 0}});
}

TEST_CASE("too large is an error that says what to do, and nothing is left") {
    test::ProgramOptions program;
    program.seed = 3;
    program.ranks = 4;
    program.steps = 100;
    const test::TemporaryDirectory folder;
    test::write_trace(test::random_program(program).trace, folder.path("t"));
    exports::ExportOptions options;
    options.trace = folder.path("t");
    fs::create_directory(folder.path("here"));
    options.output = folder.path("here/out");
    options.most_bytes = 10'000;
    std::string said;
    try {
        exports::export_trace(options);
    } catch (const replay::InputError& error) {
        said = error.what();
    }
    for (const char* choice : {"--window", "--ranks", "--aggregate", "out"}) CHECK(said.find(choice) != std::string::npos);
    CHECK(fs::is_empty(folder.path("here")));
}
