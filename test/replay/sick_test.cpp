// SPDX-License-Identifier: BSD-3-Clause
// Sick archives: an error with one line that says what and where, or a warning with a count; never a crash, never a hang.
#include <doctest/doctest.h>
#include <otf2/otf2.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "support/invariants.hpp"
#include "replay/trace/child_process.hpp"

namespace fs = std::filesystem;
using namespace polter;

namespace {

bool warns(const replay::Result& result, const std::string& text) {
    for (const auto& warning : result.warnings)
        if (warning.text.find(text) != std::string::npos) return true;
    return false;
}

replay::Result replay_of(const std::string& path) {
    replay::Options options;
    options.trace = path;
    options.attribution = true;  // its own checks find a graph that is not what the replay did
    return replay::replay(options);
}

std::string write_random(const test::TemporaryDirectory& directory, size_t steps = 60) {
    test::ProgramOptions options;
    options.seed = 5;
    options.steps = steps;
    const std::string path = directory.path("t");
    test::write_trace(test::random_program(options).trace, path);
    return path;
}

// As the command reads it: what OTF2 itself does not survive, or never ends, must not end the test. 0 result, 1 refused, 2 time ran out,
// 3 died or was stuck in OTF2, 4 anything else.
int apart(const std::string& path) {
    const auto end = replay::go_apart(10);
    if (!end) {
        for (const int fatal : {SIGSEGV, SIGABRT}) signal(fatal, SIG_DFL);  // doctest has its own
        alarm(200);
        try {
            replay_of(path);
            _exit(0);
        } catch (const replay::InputError&) {
            _exit(1);
        } catch (...) {
            _exit(4);
        }
    }
    if (!end->error.empty()) return end->error.find("the OTF2 library") != std::string::npos ? 3 : 4;
    return end->signal == SIGALRM ? 2 : end->exit_code;
}

OTF2_FlushType flush(void*, OTF2_FileType, OTF2_LocationRef, void*, bool) {
    return OTF2_FLUSH;
}

}  // namespace

TEST_CASE("what is no trace is refused with what, where and what to do") {
    const test::TemporaryDirectory directory;
    CHECK_THROWS_WITH_AS(replay_of(directory.path("nothing")), doctest::Contains("no such trace"), replay::InputError);
    fs::create_directory(directory.path("empty"));
    CHECK_THROWS_WITH_AS(replay_of(directory.path("empty")), doctest::Contains("holds no traces.otf2"), replay::InputError);
    fs::create_directories(directory.path("unsealed/ranks"));
    CHECK_THROWS_WITH_AS(replay_of(directory.path("unsealed")), doctest::Contains("never sealed"), replay::InputError);
    std::ofstream(directory.path("text.otf2")) << "not a trace\n";
    CHECK_THROWS_WITH_AS(replay_of(directory.path("text.otf2")), doctest::Contains("not a readable OTF2 archive"), replay::InputError);
    std::ofstream(directory.path("zero.otf2")).flush();
    CHECK_THROWS_AS(replay_of(directory.path("zero.otf2")), replay::InputError);
}

TEST_CASE("no event files, one event file missing, no events") {
    const test::TemporaryDirectory directory;
    const std::string path = write_random(directory);
    fs::remove(path + "/traces/1.evt");
    const replay::Result one_missing = replay_of(path);
    CHECK(warns(one_missing, "have no events"));
    CHECK(one_missing.per_rank[1].measured_ns == 0);
    fs::remove_all(path + "/traces");
    CHECK_THROWS_AS(replay_of(path), replay::InputError);
    test::TraceSpec empty(2);
    test::write_trace(empty, directory.path("e"));
    CHECK_THROWS_WITH_AS(replay_of(directory.path("e")), doctest::Contains("empty"), replay::InputError);
}

TEST_CASE("a rank that ends early: the others go on without it") {
    test::ProgramOptions options;
    options.seed = 9;
    test::Program program = test::random_program(options);
    auto& records = program.trace.records[2];
    records.resize(records.size() / 2);
    const test::TemporaryDirectory directory;
    test::write_trace(program.trace, directory.path("t"));
    const auto observed = test::observe(directory.path("t"), {});
    CHECK(observed.violations.identity == 0);
    CHECK(observed.violations.causality == 0);
    CHECK(observed.violations.monotonicity == 0);
    CHECK(observed.violations.additivity == 0);
    CHECK((warns(observed.result, "no send in the trace") || warns(observed.result, "lack members")));
}

TEST_CASE("event files cut at any length end in a result or in an error") {
    const test::TemporaryDirectory directory;
    const std::string path = write_random(directory);
    const std::string victim = path + "/traces/0.evt";
    std::ifstream in(victim, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    for (size_t part = 0; part <= 20; ++part) {
        CAPTURE(part);
        std::ofstream(victim, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size() * part / 21));
        const int end = apart(path);
        CHECK(end != 2);
        CHECK(end != 4);
        WARN(end != 3);  // OTF2 itself may die of it
        if (end == 0) CHECK(warns(replay_of(path), part == 0 ? "" : "break off"));
    }
}

TEST_CASE("bytes changed at random never hang it, and never make it break a promise of its own") {
    const test::TemporaryDirectory directory;
    const std::string path = write_random(directory, 20);
    std::mt19937_64 random(7);
    const char* files[] = {"/traces/0.evt", "/traces/2.evt", "/traces.def", "/traces.otf2", "/traces/1.def"};
    int died = 0;
    for (int round = 0; round < 120; ++round) {
        CAPTURE(round);
        const std::string victim = path + files[round % 5];
        std::ifstream in(victim, std::ios::binary);
        std::string bytes((std::istreambuf_iterator<char>(in)), {});
        in.close();
        const std::string before = bytes;
        for (int k = 0; k < 1 + round % 3; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
        std::ofstream(victim, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        const int end = apart(path);
        CHECK(end != 2);
        CHECK(end != 4);
        died += end == 3;
        std::ofstream(victim, std::ios::binary).write(before.data(), static_cast<std::streamsize>(before.size()));
    }
    MESSAGE(died << " of 120 mutations killed the process (inside the OTF2 library)");
}

// A writer that was killed: its last chunk is on disk without an end, and OTF2's reader goes over it again and again.
TEST_CASE("the file of a killed writer is read once") {
    const test::TemporaryDirectory directory;
    test::TraceSpec spec(1);
    spec.accounts = {"os:timer"};
    test::Record record;
    for (int64_t i = 0; i < 20'000; ++i) {
        record.kind = i % 2 ? test::Record::Kind::leave : test::Record::Kind::enter;
        record.time = i;
        record.name = "main";
        spec.records[0].push_back(record);
    }
    test::write_trace(spec, directory.path("t"));
    const pid_t child = fork();
    if (child == 0) {  // writes the same location into another archive, and dies in the middle
        OTF2_Archive* archive = OTF2_Archive_Open(directory.path("k").c_str(), "traces", OTF2_FILEMODE_WRITE, OTF2_CHUNK_SIZE_MIN,
                                                  OTF2_CHUNK_SIZE_MIN, OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
        static const OTF2_FlushCallbacks callbacks{flush, nullptr};
        OTF2_Archive_SetFlushCallbacks(archive, &callbacks, nullptr);
        OTF2_Archive_SetSerialCollectiveCallbacks(archive);
        OTF2_Archive_OpenEvtFiles(archive);
        OTF2_EvtWriter* events = OTF2_Archive_GetEvtWriter(archive, 0);
        // OTF2 flushes when its memory is full: a few chunks are enough to have several on disk.
        for (uint64_t i = 0;; ++i) {
            if (i % 2)
                OTF2_EvtWriter_Leave(events, nullptr, i, 0);
            else
                OTF2_EvtWriter_Enter(events, nullptr, i, 0);
            std::error_code error;
            if (i % 100'000 == 0 && fs::exists(directory.path("k") + "/traces/0.evt", error) &&
                fs::file_size(directory.path("k") + "/traces/0.evt", error) > OTF2_CHUNK_SIZE_MIN)
                raise(SIGKILL);
            if (i > 100'000'000) _exit(1);
        }
    }
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    fs::copy_file(directory.path("k") + "/traces/0.evt", directory.path("t") + "/traces/0.evt", fs::copy_options::overwrite_existing);
    CHECK(apart(directory.path("t")) == 0);
    const replay::Result result = replay_of(directory.path("t"));
    CHECK(result.events > 20'000);
    CHECK(warns(result, "break off"));
}

TEST_CASE("clocks that disagree are told, not believed") {
    test::TraceSpec spec(2);
    spec.accounts = {"os:timer"};
    spec.add(0, 5000, test::Record::Kind::enter, "MPI_Send");
    auto& send = spec.add(0, 5000, test::Record::Kind::send);
    send.peer = 1;
    spec.add(0, 5010, test::Record::Kind::leave, "MPI_Send");
    spec.add(1, 10, test::Record::Kind::enter, "MPI_Recv");
    spec.add(1, 3000, test::Record::Kind::recv).peer = 0;
    spec.add(1, 3000, test::Record::Kind::leave, "MPI_Recv");
    const test::TemporaryDirectory directory;
    test::write_trace(spec, directory.path("t"));
    const replay::Result result = replay_of(directory.path("t"));
    CHECK(warns(result, "end up to 2000 ns before they begin"));
    CHECK(result.accumulated_noise_ns == 0);
}

// Rank 2 has ended; rank 0 waits for a message of its that does not exist, and comes to the barrier with rank 1 behind that.
TEST_CASE("a rank that has ended and is no member does not break up a collective") {
    using Kind = test::Record::Kind;
    test::TraceSpec spec(3);
    spec.comms = {{0, 1, 2}, {0, 1}};
    spec.add(0, 0, Kind::enter, "MPI_Recv");
    spec.add(0, 500, Kind::recv).peer = 2;
    spec.add(0, 500, Kind::leave, "MPI_Recv");
    for (const size_t rank : {0, 1}) {
        spec.add(rank, rank == 0 ? 600 : 10, Kind::enter, "MPI_Barrier");
        spec.add(rank, 700, Kind::collective_end).comm = 1;
        spec.add(rank, 700, Kind::leave, "MPI_Barrier");
    }
    spec.add(2, 0, Kind::enter, "main");
    spec.add(2, 1, Kind::leave, "main");
    const test::TemporaryDirectory directory;
    test::write_trace(spec, directory.path("t"));
    const replay::Result result = replay_of(directory.path("t"));
    CHECK(warns(result, "1 receives"));
    CHECK(!warns(result, "collective"));
}

TEST_CASE("a rank that has records and not one call ends where its last operation is") {
    using Kind = test::Record::Kind;
    for (const Kind kind : {Kind::noise, Kind::send, Kind::recv, Kind::irecv_request, Kind::collective_end}) {
        CAPTURE(static_cast<int>(kind));
        test::TraceSpec spec(2);
        spec.accounts = {"os:timer"};
        spec.add(0, 5000, Kind::enter, "main");
        spec.add(0, 9000, Kind::leave, "main");
        spec.add(1, 7000, kind, "os:timer").ns = 100;
        const test::TemporaryDirectory directory;
        test::write_trace(spec, directory.path("t"));
        const replay::Result result = replay_of(directory.path("t"));
        CHECK(result.measured_ns == 4000);
        CHECK(result.per_rank[0].measured_ns == 4000);
        const int64_t length = kind == Kind::noise ? 0 : 2000;  // noise alone is nothing that it did
        CHECK(result.per_rank[1].measured_ns == length);
        CHECK(result.per_rank[1].approximated_ns == length);
    }
}

TEST_CASE("a record outside of calls, behind the last call, is where its rank ends") {
    test::TraceSpec spec(2);
    spec.accounts = {"os:timer"};
    using Kind = test::Record::Kind;
    for (const size_t rank : {0, 1}) {
        spec.add(rank, 0, Kind::enter, "main");
        spec.add(rank, 10, Kind::leave, "main");
    }
    spec.add(1, 150, Kind::noise, "os:timer").ns = 50;
    spec.add(1, 200, Kind::send);
    const test::TemporaryDirectory directory;
    test::write_trace(spec, directory.path("t"));
    const replay::Result result = replay_of(directory.path("t"));
    CHECK(result.measured_ns == 200);
    CHECK(result.approximated_ns == 150);
    CHECK(result.per_rank[1].approximated_ns == 150);
}

TEST_CASE("what a process that is no rank says of messages is nobody's") {
    using Kind = test::Record::Kind;
    for (const char* call :
         {"MPI_Parrived", "MPI_Probe", "MPI_Mprobe", "MPI_Iprobe", "MPI_File_write_all", "MPI_Neighbor_alltoall", "MPI_Recv"}) {
        CAPTURE(call);
        test::TraceSpec spec(3);
        spec.strangers = 1;
        for (const size_t rank : {0, 1, 2}) {
            spec.add(rank, 0, Kind::enter, "main");
            spec.add(rank, 100, Kind::enter, call);
            if (rank == 2) {
                test::Record& leave = spec.add(rank, 200, Kind::leave, call);
                leave.posted = call != std::string("MPI_File_write_all") && call != std::string("MPI_Neighbor_alltoall");
                leave.file_comm = !leave.posted;
                leave.partitioned = call == std::string("MPI_Parrived");
            } else {
                spec.add(rank, 200, Kind::leave, call);
            }
            spec.add(rank, 300, Kind::leave, "main");
        }
        spec.neighbours[{0, 0}] = "in 1 out 1";
        const test::TemporaryDirectory directory;
        test::write_trace(spec, directory.path("t"));
        const replay::Result result = replay_of(directory.path("t"));
        CHECK(result.per_rank.size() == 2);
        CHECK(result.measured_ns == 300);
        CHECK(result.approximated_ns == 300);
    }
}
