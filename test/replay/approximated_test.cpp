// SPDX-License-Identifier: BSD-3-Clause
// The approximated timeline as an archive: the same records at the times that the replay says, nothing lost, nothing backward.
#include <doctest/doctest.h>
#include <otf2/otf2.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "replay/rewrite/delay_file.hpp"
#include "replay/rewrite/event_copy.hpp"
#include "support/approximated_archive.hpp"

namespace fs = std::filesystem;
using namespace polter;
using namespace polter::test;

namespace {

// What otf2-print, which shares no code with us, sees of the events, attributes included.
std::string printed(const std::string& trace, const test::TemporaryDirectory& directory) {
    const std::string to = directory.path("printed");
    CHECK(std::system(("otf2-print '" + trace + "/traces.otf2' > '" + to + "' 2>&1").c_str()) == 0);
    std::ifstream file(to);
    return {std::istreambuf_iterator<char>(file), {}};
}
bool can_print() {
    return std::system("otf2-print --version > /dev/null 2>&1") == 0;
}

struct Differences {
    int64_t end = 0, order = 0, backward = 0, lost = 0, noise = 0, replayed = 0;
};

// Of a trace with everything removed: what is wrong with its archive.
Differences differences(const test::Program& program, replay::Faults faults = {}) {
    const test::TemporaryDirectory directory;
    test::write_trace(program.trace, directory.path("t"));
    const replay::Result result = write(directory.path("t"), directory.path("a"), std::nullopt, faults);
    const Timeline before = timeline(directory.path("t")), after = timeline(directory.path("a"));
    Differences found;
    REQUIRE(before.size() == after.size());
    std::vector<std::map<uint64_t, uint64_t>> at(before.size());
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t rank = 0; rank < before.size(); ++rank) {
        std::map<Kind, int64_t> kinds;
        for (const Event& event : before[rank]) ++kinds[event.kind];
        for (const Event& event : after[rank]) --kinds[event.kind];
        for (const auto& [kind, count] : kinds) found.lost += kind != Kind::Metric && count != 0;
        // Only the baselines are left of the metrics.
        found.noise += std::count_if(after[rank].begin(), after[rank].end(), [](const Event& e) { return e.kind == Kind::Metric; }) !=
                       static_cast<int64_t>(program.trace.accounts.size());
        for (size_t i = 1; i < after[rank].size(); ++i) found.backward += after[rank][i].time < after[rank][i - 1].time;
        const auto measured = enters_and_leaves(before[rank]), approximated = enters_and_leaves(after[rank]);
        for (size_t i = 0; i < std::min(measured.size(), approximated.size()); ++i) at[rank][measured[i]] = approximated[i];
        first = std::min(first, approximated.front());
        last = std::max(last, approximated.back());
    }
    found.end = static_cast<int64_t>(last - first) != result.approximated_ns;
    for (const auto& order : program.orders) {
        const auto distance = static_cast<int64_t>(at[order.second_rank][static_cast<uint64_t>(order.second)] -
                                                   at[order.first_rank][static_cast<uint64_t>(order.first)]);
        found.order += distance < std::min<int64_t>(0, order.second - order.first);
    }
    const replay::Result again = read(directory.path("a"));
    found.replayed = again.accumulated_noise_ns != 0 || again.measured_ns != result.approximated_ns || again.ranks != result.ranks;
    return found;
}

}  // namespace

TEST_CASE("nothing removed: the archive is the trace") {
    const bool prints = can_print();
    if (!prints) MESSAGE("no otf2-print: attributes and arguments are not compared");
    for (uint64_t seed = 1; seed <= programs; ++seed) {
        CAPTURE(seed);
        test::Program program = program_of(seed);
        if (seed % 3 == 0) program.trace.ticks_per_second = 2'600'005'674;
        if (seed % 5 == 0) program.trace.one_class = true;
        const test::TemporaryDirectory directory;
        test::write_trace(program.trace, directory.path("t"));
        write(directory.path("t"), directory.path("a"), std::vector<std::string>{});
        CHECK(timeline(directory.path("t")) == timeline(directory.path("a")));
        if (prints && seed <= 6)  // it takes longer than all else
            CHECK(printed(directory.path("t"), directory) == printed(directory.path("a"), directory));
    }
}

TEST_CASE("all removed: the end is the approximated one, in order, whole, and nothing is left to remove") {
    for (uint64_t seed = 1; seed <= programs; ++seed) {
        CAPTURE(seed);
        const Differences found = differences(program_of(seed));
        CHECK(found.end == 0);
        CHECK(found.order == 0);
        CHECK(found.backward == 0);
        CHECK(found.lost == 0);
        CHECK(found.noise == 0);
        CHECK(found.replayed == 0);
    }
}

TEST_CASE("delays of the wrong events would be found") {
    int64_t wrong = 0;
    for (uint64_t seed = 1; seed <= programs; ++seed) {
        const Differences found = differences(program_of(seed), {.wrong_end = true});
        wrong += found.end + found.order + found.replayed;
    }
    CHECK(wrong > 0);
}

TEST_CASE("regions inside a call that becomes shorter do not keep it as long as it was") {
    using RecordKind = test::Record::Kind;
    test::TraceSpec spec(1);
    spec.accounts = {"os:gone"};
    spec.add(0, 0, RecordKind::enter, "main");
    spec.add(0, 100, RecordKind::enter, "MPI_Comm_rank");
    spec.add(0, 150, RecordKind::noise, "os:gone").ns = 40;
    spec.add(0, 180, RecordKind::enter, "inside");
    spec.add(0, 190, RecordKind::leave, "inside");
    spec.add(0, 200, RecordKind::leave, "MPI_Comm_rank");
    spec.add(0, 210, RecordKind::leave, "main");
    const test::TemporaryDirectory directory;
    test::write_trace(spec, directory.path("t"));
    write(directory.path("t"), directory.path("a"));
    CHECK(enters_and_leaves(timeline(directory.path("a"))[0]) == std::vector<uint64_t>{0, 100, 140, 150, 160, 170});
}

// Of a rank that was hit from 10 to 20, which is recorded at 100, and from 30 to 60 by noise that is removed: how long it would have
// taken without the first too, by a replay of the archive.
static int64_t without_both(replay::Faults faults) {
    using RecordKind = test::Record::Kind;
    test::TraceSpec spec(1);
    spec.accounts = {"os:late", "os:gone"};
    const auto add = [&](int64_t time, RecordKind kind, const char* name) -> test::Record& {
        test::Record record;
        record.kind = kind;
        record.time = time;
        record.name = name;
        spec.records[0].push_back(record);
        return spec.records[0].back();
    };
    add(0, RecordKind::enter, "main");
    add(60, RecordKind::noise, "os:gone").ns = 30;
    add(80, RecordKind::enter, "part");
    test::Record& late = add(100, RecordKind::noise, "os:late");
    late.ns = 10;
    late.ago = 80;
    add(150, RecordKind::leave, "part");
    add(150, RecordKind::leave, "main");
    const test::TemporaryDirectory directory;
    test::write_trace(spec, directory.path("t"));
    CHECK(write(directory.path("t"), directory.path("a"), std::vector<std::string>{"gone"}, faults).approximated_ns == 120);
    const replay::Result again = read(directory.path("a"));
    CHECK(again.measured_ns == 120);
    return again.approximated_ns;
}

TEST_CASE("noise that was recorded late is as long before its record as it is in the new timeline") {
    CHECK(without_both({}) == 110);
    CHECK(without_both({.ago_as_measured = true}) == 120);  // it would have hit before the beginning
}

TEST_CASE("how long ago something was, at either end of calls and between them") {
    const test::TemporaryDirectory directory;
    replay::DelayFile file(directory.path("delays"), 1);
    // Enter at 100, undelayed; Leave at 200 with a delay of 40; then computing until 300 with a delay of 50.
    for (const replay::DelayPoint& point : {replay::DelayPoint{1, 100, 0, true}, {3, 200, 40, false}, {4, 300, 50, false}})
        file.add(0, point);
    file.finish();
    replay::DelayFile::Reader reader(file, 0);
    replay::ApproximatedClock clock(&reader, false);
    CHECK(clock.at(1, 100, false) == 100);
    CHECK(clock.ago(100, 100, 30) == 30);  // before anything moved
    CHECK(clock.at(2, 150, false) == 110);
    CHECK(clock.ago(150, 110, 5) == 5);    // in the call: its distance to the Leave is kept, 145 − 40
    CHECK(clock.ago(150, 110, 45) == 10);  // … but never before the Enter
    CHECK(clock.at(3, 200, false) == 160);
    CHECK(clock.at(4, 300, false) == 250);
    CHECK(clock.ago(300, 250, 60) == 50);    // 240 − 40
    CHECK(clock.ago(300, 250, 120) == 110);  // 180 − 40
    CHECK(clock.ago(300, 250, 260) == 210);  // 40
    CHECK(clock.forgotten() == 0);
}

TEST_CASE("every kind of record is copied, with its time") {
    const test::TemporaryDirectory directory;
    const std::string trace = directory.path("t");
    OTF2_Archive* archive = OTF2_Archive_Open(trace.c_str(), "traces", OTF2_FILEMODE_WRITE, OTF2_CHUNK_SIZE_MIN, OTF2_CHUNK_SIZE_MIN,
                                              OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    REQUIRE(archive);
    static const OTF2_FlushCallbacks flush{[](void*, OTF2_FileType, OTF2_LocationRef, void*, bool) -> OTF2_FlushType { return OTF2_FLUSH; },
                                           nullptr};
    OTF2_Archive_SetFlushCallbacks(archive, &flush, nullptr);
    OTF2_Archive_SetSerialCollectiveCallbacks(archive);
    OTF2_Archive_OpenEvtFiles(archive);
    OTF2_EvtWriter* writer = OTF2_Archive_GetEvtWriter(archive, 7);
    uint64_t time = 100, kinds = 0;
    OTF2_EvtWriter_Enter(writer, nullptr, time, 0);
#define POLTER_WRITE(Name)                                             \
    Seen<Kind::Name, OTF2_EvtWriter_##Name>::write(writer, time += 3); \
    ++kinds;
    POLTER_BEGINNING_EVENTS(POLTER_WRITE)
    POLTER_OTHER_EVENTS(POLTER_WRITE)
#undef POLTER_WRITE
    time += 3;
    OTF2_EvtWriter_BufferFlush(writer, nullptr, time, time + 1);
    OTF2_EvtWriter_Leave(writer, nullptr, time += 3, 0);
    OTF2_Archive_CloseEvtWriter(archive, writer);
    OTF2_Archive_CloseEvtFiles(archive);
    OTF2_GlobalDefWriter* definitions = OTF2_Archive_GetGlobalDefWriter(archive);
    OTF2_GlobalDefWriter_WriteClockProperties(definitions, 1'000'000'000, 90, 1'000, OTF2_UNDEFINED_TIMESTAMP);
    OTF2_GlobalDefWriter_WriteString(definitions, 0, "main");
    OTF2_GlobalDefWriter_WriteSystemTreeNode(definitions, 0, 0, 0, OTF2_UNDEFINED_SYSTEM_TREE_NODE);
    OTF2_GlobalDefWriter_WriteLocationGroup(definitions, 0, 0, OTF2_LOCATION_GROUP_TYPE_PROCESS, 0, OTF2_UNDEFINED_LOCATION_GROUP);
    OTF2_GlobalDefWriter_WriteLocation(definitions, 7, 0, OTF2_LOCATION_TYPE_CPU_THREAD, kinds + 3, 0);
    OTF2_GlobalDefWriter_WriteRegion(definitions, 0, 0, 0, 0, OTF2_REGION_ROLE_FUNCTION, OTF2_PARADIGM_USER, OTF2_REGION_FLAG_NONE, 0, 0,
                                     0);
    OTF2_Archive_CloseGlobalDefWriter(archive, definitions);
    OTF2_Archive_Close(archive);

    write(trace, directory.path("a"));
    const Timeline before = timeline(trace), after = timeline(directory.path("a"));
    REQUIRE(before.size() == 1);
    CHECK(before[0].size() == kinds + 3);
    CHECK(before == after);
}

TEST_CASE("nothing is overwritten, nothing half-done is left") {
    const test::TemporaryDirectory directory;
    test::write_trace(program_of(1).trace, directory.path("t"));
    fs::create_directory(directory.path("there"));
    CHECK_THROWS_AS(write(directory.path("t"), directory.path("there")), replay::InputError);
    CHECK(fs::is_empty(directory.path("there")));
    CHECK_THROWS_AS(write(directory.path("t"), directory.path("no/such/folder")), replay::InputError);
    CHECK_THROWS_AS(write(directory.path("none"), directory.path("a")), replay::InputError);
    CHECK_THROWS_AS(write(directory.path("t"), directory.path("a"), std::vector<std::string>{"nobody"}), replay::InputError);
    const auto names = [&] {
        std::set<std::string> found;
        for (const auto& entry : fs::directory_iterator(directory.path(""))) found.insert(entry.path().filename());
        return found;
    };
    CHECK(names() == std::set<std::string>{"t", "there"});
    write(directory.path("t"), directory.path("a") + "/");
    CHECK(names() == std::set<std::string>{"a", "t", "there"});
    replay::Archive archive(directory.path("a"));
    CHECK(archive.definitions().properties.contains("APPROXIMATED"));
}

TEST_CASE("delays go to a file and come back, location by location") {
    const test::TemporaryDirectory directory;
    replay::DelayFile file(directory.path("delays"), 3);
    CHECK(fs::is_empty(fs::path(directory.path("delays")).parent_path()));  // unlinked: it cannot stay behind
    constexpr uint64_t points = 5 * replay::DelayFile::points_per_chunk + 17;
    for (uint64_t i = 1; i <= points; ++i)
        for (const size_t location : {0u, 2u})
            file.add(location, {i, static_cast<int64_t>(i * 10), static_cast<int64_t>(i * (location + 1)), i % 2 == 0});
    file.finish();
    replay::DelayPoint point;
    std::vector<replay::NoiseCut> cuts;
    CHECK(!replay::DelayFile::Reader(file, 1).next(&point, &cuts));
    for (const size_t location : {2u, 0u}) {
        replay::DelayFile::Reader reader(file, location);
        uint64_t wrong = 0, count = 0;
        while (reader.next(&point, &cuts)) {
            ++count;
            wrong += point.record != count || point.ticks != static_cast<int64_t>(count * 10) ||
                     point.delay != static_cast<int64_t>(count * (location + 1)) || point.in_call != (count % 2 == 0);
        }
        CHECK(count == points);
        CHECK(wrong == 0);
    }
}

namespace {

// The memory that `work` needs, in KiB, in a process of its own.
template <class Work>
long most_memory(Work work) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        try {
            work();
        } catch (...) {
            _exit(1);
        }
        _exit(0);
    }
    int status = 0;
    rusage usage{};
    REQUIRE(wait4(child, &status, 0, &usage) == child);
    CHECK(status == 0);
    return usage.ru_maxrss;
}

// Two ranks that each compute with noise and exchange nothing but a message a step.
long memory_of(int64_t steps, bool approximated) {
    const test::TemporaryDirectory directory;
    most_memory([&] {
        test::TraceSpec spec(2);
        spec.accounts = {"os:timer"};
        for (int64_t i = 0; i < steps; ++i)
            for (size_t rank = 0; rank < 2; ++rank) {
                const auto add = [&](int64_t time, test::Record::Kind kind, const char* name) -> test::Record& {
                    return spec.add(rank, i * 1'000 + time, kind, name);
                };
                const char* call = rank == 0 ? "MPI_Send" : "MPI_Recv";
                add(10, test::Record::Kind::noise, "os:timer").ns = 7;
                add(100 + 200 * static_cast<int64_t>(rank), test::Record::Kind::enter, call);
                add(350, rank == 0 ? test::Record::Kind::send : test::Record::Kind::recv, "").peer = rank == 0 ? 1 : 0;
                add(400, test::Record::Kind::leave, call);
            }
        test::write_trace(spec, directory.path("t"));
    });
    return most_memory([&] {
        replay::Options options;
        options.trace = directory.path("t");
        options.write_approximated = directory.path("a");
        options.keep_bytes = 0;  // events that are kept have a limit of their own
        if (approximated)
            replay::replay(options);
        else
            timeline(directory.path("t"));  // keeps every record: grows
    });
}

}  // namespace

TEST_CASE("memory does not grow with events") {
#ifdef __SANITIZE_ADDRESS__
    MESSAGE("AddressSanitizer keeps what was freed: not tested");
    return;
#endif
    const long few = memory_of(20'000, true), many = memory_of(200'000, true);
    MESSAGE(few << " KiB with 160,000 events, " << many << " KiB with 1,600,000");
    constexpr long buffers = 12 * 1024;  // OTF2's, which the short trace does not fill
    CHECK(many < few + buffers);
    CHECK(memory_of(200'000, false) > few + buffers);  // the same question finds who keeps the events
}

// Traces of other tools, where they lie beside the checkout.
TEST_CASE("traces of other tools are copied as they are") {
    if (!fs::exists(POLTER_FOREIGN_TRACES)) {
        MESSAGE("none at " << POLTER_FOREIGN_TRACES);
        return;
    }
    for (const auto& entry : fs::directory_iterator(POLTER_FOREIGN_TRACES)) {
        if (!fs::exists(entry.path() / "traces.otf2")) continue;
        CAPTURE(entry.path().string());
        const test::TemporaryDirectory directory;
        write(entry.path().string(), directory.path("a"));
        CHECK(timeline(entry.path().string()) == timeline(directory.path("a")));
        if (can_print()) CHECK(printed(entry.path().string(), directory) == printed(directory.path("a"), directory));
    }
}
