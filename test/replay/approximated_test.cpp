// SPDX-License-Identifier: BSD-3-Clause
// The approximated timeline as an archive: the same records at the times that the replay says, nothing lost, nothing backward.
#include <doctest/doctest.h>
#include <otf2/otf2.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>

#include "invariants.hpp"
#include "replay/delay_file.hpp"
#include "replay/event_copy.hpp"
#include "replay/kept_noise.hpp"
#include "replay/otf2_records.hpp"

// Every kind of record is written and read here, the deprecated ones too.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace fs = std::filesystem;
using namespace polter;

namespace {

replay::Result write(const std::string& trace, const std::string& to, std::optional<std::vector<std::string>> remove = std::nullopt,
                     replay::Faults faults = {}) {
    replay::Options options;
    options.trace = trace;
    options.remove = std::move(remove);
    options.write_approximated = to;
    replay::Hooks hooks;
    hooks.faults = faults;
    return replay::replay_with(options, hooks);
}

replay::Result read(const std::string& trace) {
    replay::Options options;
    options.trace = trace;
    return replay::replay(options);
}

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

enum class Kind {
#define POLTER_NAME(Name) Name,
    POLTER_BEGINNING_EVENTS(POLTER_NAME) POLTER_OTHER_EVENTS(POLTER_NAME) BufferFlush,
    Metric
#undef POLTER_NAME
};

struct Event {
    Kind kind;
    uint64_t time, value;  // value: of a metric's first member
    bool operator==(const Event&) const = default;
};
using Timeline = std::vector<std::vector<Event>>;  // by location, in the definitions' order

template <Kind K, auto Write>
struct Seen;
template <Kind K, class... Values, OTF2_ErrorCode (*Write)(OTF2_EvtWriter*, OTF2_AttributeList*, OTF2_TimeStamp, Values...)>
struct Seen<K, Write> {
    static OTF2_CallbackCode call(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, Values...) {
        static_cast<std::vector<Event>*>(user)->push_back({K, time, 0});
        return OTF2_CALLBACK_SUCCESS;
    }
    static void write(OTF2_EvtWriter* writer, OTF2_TimeStamp time) { CHECK(Write(writer, nullptr, time, Values{}...) == OTF2_SUCCESS); }
};
OTF2_CallbackCode metric(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, OTF2_MetricRef, uint8_t,
                         const OTF2_Type*, const OTF2_MetricValue* values) {
    static_cast<std::vector<Event>*>(user)->push_back({Kind::Metric, time, values[0].unsigned_int});
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode buffer_flush(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, OTF2_TimeStamp stop) {
    static_cast<std::vector<Event>*>(user)->push_back({Kind::BufferFlush, time, stop});
    return OTF2_CALLBACK_SUCCESS;
}

OTF2_EvtReaderCallbacks* all_kinds() {
    OTF2_EvtReaderCallbacks* callbacks = OTF2_EvtReaderCallbacks_New();
#define POLTER_SEEN(Name) OTF2_EvtReaderCallbacks_Set##Name##Callback(callbacks, Seen<Kind::Name, OTF2_EvtWriter_##Name>::call);
    POLTER_BEGINNING_EVENTS(POLTER_SEEN)
    POLTER_OTHER_EVENTS(POLTER_SEEN)
#undef POLTER_SEEN
    OTF2_EvtReaderCallbacks_SetMetricCallback(callbacks, metric);
    OTF2_EvtReaderCallbacks_SetBufferFlushCallback(callbacks, buffer_flush);
    return callbacks;
}

Timeline timeline(const std::string& trace) {
    replay::Archive archive(trace);
    Timeline result(archive.definitions().locations.size());
    std::vector<void*> users;
    for (auto& location : result) users.push_back(&location);
    OTF2_EvtReaderCallbacks* callbacks = all_kinds();
    std::vector<std::string> warnings;
    archive.open_events(callbacks, users, warnings);
    OTF2_EvtReaderCallbacks_Delete(callbacks);
    for (size_t i = 0; i < result.size(); ++i) {
        uint64_t events = 0;
        while (archive.read(i, &events) == replay::Archive::Progress::more) {
        }
    }
    CHECK(warnings.empty());
    return result;
}

std::vector<uint64_t> enters_and_leaves(const std::vector<Event>& events) {
    std::vector<uint64_t> times;
    for (const Event& event : events)
        if (event.kind == Kind::Enter || event.kind == Kind::Leave) times.push_back(event.time);
    return times;
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

test::Program program_of(uint64_t seed) {
    test::ProgramOptions options;
    options.seed = seed;
    options.ranks = 2 + seed % 6;
    options.accounts = 1 + seed % 3;
    options.structured = seed % 4 == 1;
    return test::random_program(options);
}

constexpr uint64_t programs = test::programs_of(24);

}  // namespace

TEST_CASE("nothing removed: the archive is the trace") {
    if (!can_print()) MESSAGE("no otf2-print: attributes and arguments are not compared");
    for (uint64_t seed = 1; seed <= programs; ++seed) {
        CAPTURE(seed);
        test::Program program = program_of(seed);
        if (seed % 3 == 0) program.trace.ticks_per_second = 2'600'005'674;
        if (seed % 5 == 0) program.trace.one_class = true;
        const test::TemporaryDirectory directory;
        test::write_trace(program.trace, directory.path("t"));
        write(directory.path("t"), directory.path("a"), std::vector<std::string>{});
        CHECK(timeline(directory.path("t")) == timeline(directory.path("a")));
        if (can_print()) CHECK(printed(directory.path("t"), directory) == printed(directory.path("a"), directory));
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

namespace {

// The number that stands `place` numbers behind the beginning of the warning that says `what`; 0 where none does.
int64_t told(const replay::Result& result, const std::string& what, size_t place) {
    for (const std::string& warning : result.warnings) {
        if (warning.find(what) == std::string::npos) continue;
        const char* at = warning.c_str();
        for (size_t i = 0;; ++i) {
            at += std::strcspn(at, "0123456789");
            char* end = nullptr;
            const int64_t number = std::strtoll(at, &end, 10);
            if (i == place) return number;
            at = end;
        }
    }
    return 0;
}
int64_t without_room(const replay::Result& result) {
    return told(result, "longer than the time they lie in", 0);
}
int64_t cut_off(const replay::Result& result) {
    return told(result, "no longer waits as long", 1);
}

int64_t local_noise(const replay::Result& result, bool source1) {
    int64_t sum = 0;
    for (const auto& rank : result.per_rank)
        for (const auto& [name, source] : rank.sources) sum += (name == "source1") == source1 ? source.local_ns : 0;
    return sum;
}

// Of a trace without one of its three sources, against the trace: records that have no room, more than there; local noise that is gone
// and was not told; by how much the noise-free time is another.
struct Kept {
    int64_t without_room = 0, gone = 0, noise_free = 0, noise_free_ns = 0, cut = 0;
};

Kept kept_noise(uint64_t seed, replay::Faults faults = {}) {
    test::Program program = program_of(seed * 3 + 2);
    REQUIRE(program.trace.accounts.size() == 3);
    program.trace.one_class = seed % 2 == 0;
    const test::TemporaryDirectory directory;
    test::write_trace(program.trace, directory.path("t"));
    const replay::Result before = read(directory.path("t"));
    const replay::Result written = write(directory.path("t"), directory.path("a"), std::vector<std::string>{"source1"}, faults);
    const replay::Result after = read(directory.path("a"));
    CHECK(after.measured_ns == written.approximated_ns);
    CHECK(local_noise(after, true) == 0);
    Kept kept;
    kept.cut = cut_off(written);
    kept.without_room = std::max<int64_t>(0, without_room(after) - without_room(before));
    kept.gone = local_noise(before, false) - kept.cut - local_noise(after, false);
    kept.noise_free = after.approximated_ns - before.approximated_ns;
    kept.noise_free_ns = before.approximated_ns;
    return kept;
}

}  // namespace

TEST_CASE("some removed: the others' noise stays where it has room, and counts as much") {
    int64_t noise_free_error = 0, cut = 0;
    for (uint64_t seed = 1; seed <= programs; ++seed) {
        CAPTURE(seed);
        const Kept kept = kept_noise(seed);
        CHECK(kept.without_room == 0);
        CHECK(kept.gone == 0);
        CHECK(std::abs(kept.noise_free) * 200 <= kept.noise_free_ns);
        noise_free_error += std::abs(kept.noise_free);
        cut += kept.cut;
    }
    CHECK(cut > 0);
    MESSAGE("noise-free times are " << noise_free_error << " ns off in all");
}

TEST_CASE("noise that stays behind what was removed before it, or that waits for nothing any more, would be found") {
    int64_t behind = 0, absorbed = 0, noise_free_error = 0;
    for (uint64_t seed = 1; seed <= programs; ++seed) {
        const Kept kept = kept_noise(seed, {.noise_stays_behind = true});
        behind += kept.without_room;
        noise_free_error += std::abs(kept.noise_free);
    }
    // Few programs have such noise: as many as it takes, also where others are spared.
    for (uint64_t seed = 1; seed <= 24 && absorbed == 0; ++seed) absorbed += kept_noise(seed, {.keep_absorbed = true}).without_room;
    MESSAGE(behind << ", " << absorbed << "; noise-free times are " << noise_free_error << " ns off in all");
    CHECK(behind > 0);
    CHECK(absorbed > 0);
}

TEST_CASE("noise that stays, while computing: what was removed before it is gone") {
    using RecordKind = test::Record::Kind;
    const auto records = [](replay::Faults faults) {
        test::TraceSpec spec(1);
        spec.accounts = {"os:stays", "os:gone"};
        spec.add(0, 0, RecordKind::enter, "main");
        spec.add(0, 40, RecordKind::noise, "os:gone").ns = 30;
        spec.add(0, 45, RecordKind::noise, "os:stays").ns = 5;
        spec.add(0, 80, RecordKind::noise, "os:gone").ns = 20;
        spec.add(0, 90, RecordKind::noise, "os:stays").ns = 10;
        spec.add(0, 100, RecordKind::leave, "main");
        const test::TemporaryDirectory directory;
        test::write_trace(spec, directory.path("t"));
        write(directory.path("t"), directory.path("a"), std::vector<std::string>{"gone"}, faults);
        const Timeline written = timeline(directory.path("a"));
        std::vector<uint64_t> times;
        for (const Event& event : written[0])
            if (event.kind == Kind::Metric && event.value > 0) times.push_back(event.time);
        return times;
    };
    CHECK(records({}) == std::vector<uint64_t>{15, 40});
    CHECK(records({.noise_stays_behind = true}) == std::vector<uint64_t>{45, 50});
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

// From 100 to 200: struck at 120 and 170 while it waits, until 180, and once in its tail.
static replay::KeptNoise in_call(int64_t less, int64_t removed_in_tail, bool keep_absorbed = false, bool stepwise = false) {
    std::vector<replay::ClaimedPiece> pieces{
        {185, 190, 190, 0, true}, {190, 190 + removed_in_tail, 195, 1, false}, {170, 178, 179, 2, true}, {120, 125, 125, 0, true}};
    return replay::place_kept_noise({100, 200, 0, less, true, 180, 180 - less + removed_in_tail, stepwise}, pieces, keep_absorbed);
}

TEST_CASE("noise that stays, in a call that waits: in its own part of the call") {
    const replay::KeptNoise shorter = in_call(50, 0);  // waits until 130
    CHECK(shorter.cuts.empty());
    CHECK(shorter.turns == std::vector<replay::DelayTurn>{{120, 3}, {125, 3}, {170, 48}, {178, 48}, {180, 50}, {185, 50}, {190, 50}});
    const replay::KeptNoise struck = in_call(60, 5);  // waits until 125
    CHECK(struck.cuts.empty());
    CHECK(struck.turns ==
          std::vector<replay::DelayTurn>{{120, 8}, {125, 8}, {170, 53}, {178, 53}, {180, 55}, {185, 55}, {190, 55}, {190, 55}, {195, 60}});
    // With its removed noise in a step that waited: as long before the Leave as it was.
    CHECK(in_call(60, 5, false, true).turns ==
          std::vector<replay::DelayTurn>{{120, 8}, {125, 8}, {170, 53}, {178, 53}, {180, 55}, {185, 60}, {190, 60}, {190, 60}, {195, 60}});
    const replay::KeptNoise hardly = in_call(72, 0);  // waits until 108: 5 of 13 have no room
    CHECK(hardly.cuts == std::vector<replay::NoiseCut>{{179, 5, 2}});
    CHECK(hardly.turns == std::vector<replay::DelayTurn>{
                              {120, 20}, {125, 20}, {170, 65}, {173, 65}, {173, 65}, {178, 70}, {180, 72}, {185, 72}, {190, 72}});
    const replay::KeptNoise never = in_call(80, 0);
    CHECK(never.cuts == std::vector<replay::NoiseCut>{{179, 8, 2}, {125, 5, 0}});
    CHECK(in_call(80, 0, true).cuts.empty());
}

// Of a rank that was struck from 10 to 20, which is recorded at 100, and from 30 to 60 by noise that is removed: how long it would have
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
    CHECK(without_both({.ago_as_measured = true}) == 120);  // it would have struck before the beginning
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
        if (approximated)
            write(directory.path("t"), directory.path("a"));
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
