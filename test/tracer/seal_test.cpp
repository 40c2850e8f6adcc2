// SPDX-License-Identifier: BSD-3-Clause
// The sealer on rank folders of every kind: whole, torn, dead, damaged at random.
#include "../../tracer/seal/seal.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "../../tracer/conventions.hpp"
#include "../../tracer/seal/chunks.hpp"
#include "../../tracer/seal/worlds.hpp"
#include "seal_ranks.hpp"

namespace fs = std::filesystem;
namespace property = polter::trace::property;
using namespace seal_test;
using polter::seal::seal;

namespace {

uint64_t events_of(unsigned calls) {
    return 3ull * calls + (calls + 9) / 10;
}

// What must hold of every sealed archive, however sick its ranks were. Empty, or what does not hold.
std::string flaw(const Contents& contents) {
    for (const auto& [location, defined] : contents.defined_events) {
        auto at = contents.events.find(location);
        auto read = at == contents.events.end() ? 0 : at->second;
        if (read != defined) return fmt::format("location {}: {} events defined, {} read", location, defined, read);
    }
    for (const auto& [location, times] : contents.times) {
        if (!std::is_sorted(times.begin(), times.end())) return fmt::format("location {}: time runs backward", location);
        if (times.front() < contents.offset || times.back() > contents.offset + contents.length)
            return fmt::format("location {}: outside the clock's range", location);
    }
    for (const auto& [location, depth] : contents.depth)
        if (depth != 0) return fmt::format("location {}: {} regions are open at the end", location, depth);
    return {};
}

polter::seal::Joined joined_of(const fs::path& rank_folder, const fs::path& out) {
    const auto folder = polter::seal::Folder::open(rank_folder);
    return polter::seal::join_chunks(folder.sub("traces")->open_file("0.evt"), folder.open_file("0.tail"), out);
}

void cut(const fs::path& file, uint64_t size) {
    fs::resize_file(file, size);
}

}  // namespace

TEST_CASE("two whole ranks make one archive") {
    Experiment experiment;
    write_rank(experiment.path, {.rank = 0});
    write_rank(experiment.path, {.rank = 1, .calls = 50, .start_ns = 2'000'000, .times = false});
    auto report = seal({experiment.path, "mpirun -n 2 ./p"});
    CHECK(report.ranks == 2);
    CHECK(report.events == events_of(100) + events_of(50));
    CHECK(report.warnings.empty());
    CHECK_FALSE(fs::exists(experiment.path / "ranks"));
    CHECK_FALSE(fs::exists(experiment.path / ".sealing"));
    auto contents = read_archive(experiment.path);
    CHECK(flaw(contents) == "");
    CHECK(contents.events[0] == events_of(100));
    CHECK(contents.offset == 1'000'010);
    // Two ranks' ids for the two culprits are the other way round.
    CHECK(contents.culprits[0][0] == "rival");
    CHECK(contents.culprits[0][1] == "kworker/0:1");
    CHECK(contents.culprits[1][0] == "kworker/0:1");
    // One communicator with one key is one definition; its group is the world's.
    CHECK(contents.send_comms[0][1] == contents.send_comms[1][1]);
    CHECK(contents.comm_names[contents.send_comms[0][1]] == "half");
    CHECK(contents.comm_groups[contents.send_comms[0][1]] == contents.comm_groups[0]);
    CHECK(contents.comm_names[0] == "MPI_COMM_WORLD");
    CHECK(contents.groups[contents.comm_groups[0]] == std::vector<uint64_t>{0, 1});
    CHECK(contents.metric_names[POLTER_TIMER] == "os:timer");
    CHECK(contents.metric_names[POLTER_NET] == "os-service:net");
    CHECK(contents.properties[property::incomplete] == "no");
    CHECK(contents.properties[property::exporter] == "bpf");
    CHECK(contents.properties[property::accounts_seen] == "timer,preempt");
    CHECK(contents.properties[property::own_cost_ns] == "14");
    CHECK(contents.properties[property::events_dropped] == "2");
    CHECK(contents.properties[property::command] == "mpirun -n 2 ./p");
    CHECK(contents.properties[property::rank_cpus] == "0-1:0-1");

    SUBCASE("and sealing it again changes nothing") {
        auto before = fs::last_write_time(experiment.path / "traces.otf2");
        CHECK(seal({experiment.path, "other"}).already_sealed);
        CHECK(fs::last_write_time(experiment.path / "traces.otf2") == before);
    }
}

TEST_CASE("a chunk of definitions is as small as OTF2 has it, unless a definition is longer") {
    const auto chunk_size = [](const fs::path& experiment) {
        uint64_t events = 0, definitions = 0;
        OTF2_Reader* reader = OTF2_Reader_Open((experiment / "traces.otf2").c_str());
        REQUIRE(reader);
        CHECK(OTF2_Reader_GetChunkSize(reader, &events, &definitions) == OTF2_SUCCESS);
        OTF2_Reader_Close(reader);
        return definitions;
    };
    Experiment usual, with_long_text, with_long_table;
    write_rank(usual.path, {.size = 1});
    seal({usual.path, "p"});
    CHECK(chunk_size(usual.path) == OTF2_CHUNK_SIZE_MIN);

    const std::string text(300'000, 'x');
    write_rank(with_long_text.path, {.size = 1, .extra_lines = {fmt::format(R"({{"string":2,"value":"{}"}})", text)}});
    seal({with_long_text.path, "p"});
    CHECK(chunk_size(with_long_text.path) > text.size());
    const auto strings = read_archive(with_long_text.path).strings;
    CHECK(std::any_of(strings.begin(), strings.end(), [&](const auto& one) { return one.second == text; }));

    std::vector<std::string> lines;
    for (unsigned id = 2; id < 100'000; ++id) lines.push_back(fmt::format(R"({{"string":{},"value":"{}"}})", id, id));
    write_rank(with_long_table.path, {.size = 1, .extra_lines = lines});
    seal({with_long_table.path, "p"});
    CHECK(chunk_size(with_long_table.path) > OTF2_CHUNK_SIZE_MIN);
    CHECK(flaw(read_archive(with_long_table.path)) == "");
}

TEST_CASE("communicators are unified by key and members, and groups shared") {
    Experiment experiment;
    write_rank(experiment.path, {.rank = 0,
                                 .extra_lines = {R"({"comm":3,"name":"","parent":2,"key":"w.2","group":[1,0]})",
                                                 R"({"comm":4,"name":"own","parent":0,"key":"w.3.0","group":[0]})"}});
    write_rank(experiment.path, {.rank = 1,
                                 .extra_lines = {R"({"comm":3,"name":"own","parent":0,"key":"w.3.1","group":[1]})",
                                                 R"({"comm":4,"name":"turned","parent":2,"key":"w.2","group":[1,0]})"}});
    CHECK(seal({experiment.path, ""}).warnings.empty());
    auto contents = read_archive(experiment.path);
    CHECK(contents.comm_names.size() == 6);  // world, self, half, turned, and each rank's own
    auto turned = std::find_if(contents.comm_names.begin(), contents.comm_names.end(), [](const auto& c) { return c.second == "turned"; });
    REQUIRE(turned != contents.comm_names.end());
    CHECK(contents.groups[contents.comm_groups[turned->first]] == std::vector<uint64_t>{1, 0});
}

TEST_CASE("a rank that was killed keeps all that it wrote") {
    for (unsigned calls : {0u, 10u, 30'000u, 200'000u}) {
        CAPTURE(calls);
        Experiment experiment;
        write_rank(experiment.path, {.rank = 0});
        write_rank(experiment.path, {.rank = 1, .calls = calls, .finishes = false});
        auto report = seal({experiment.path, ""});
        CHECK(report.unfinished == std::vector<uint32_t>{1});
        auto contents = read_archive(experiment.path);
        CHECK(flaw(contents) == "");
        // Its last Enter, and the Leave that the sealer adds.
        CHECK(contents.events[1] == events_of(calls) + 2);
        CHECK(contents.properties[property::incomplete] == "yes");
        CHECK(contents.properties[property::ranks_unfinished] == "1");
    }
}

TEST_CASE("a torn last line is normal; other garbage is counted") {
    Experiment experiment;
    write_rank(experiment.path, {.rank = 0});
    auto folder = write_rank(
        experiment.path, {.rank = 1, .extra_lines = {"garbage", R"({"string":-4,"value":"x"})", R"({"comm":9,"key":"k","group":[77]})"}});
    auto sidecar = folder / "rank.jsonl";
    cut(sidecar, fs::file_size(sidecar) - 20);
    auto report = seal({experiment.path, ""});
    CHECK(report.unfinished == std::vector<uint32_t>{1});
    CHECK(report.warnings.size() == 1);
    CHECK(report.warnings[0].find("3 lines") != std::string::npos);
    auto contents = read_archive(experiment.path);
    CHECK(flaw(contents) == "");
    CHECK(contents.events[1] == events_of(100));  // the event file itself was whole
}

TEST_CASE("the end of the exporter is told, from whoever knows it best") {
    Experiment experiment;
    // Rank 0 slept while the daemon was killed, and so saw its page move long before; rank 1 has the same daemon.
    write_rank(experiment.path, {.rank = 0, .size = 3, .final_fields = R"("exporter_ended_ns":1000100,)"});
    write_rank(experiment.path, {.rank = 1, .size = 3, .final_fields = R"("exporter_ended_ns":1000500,)"});
    write_rank(experiment.path, {.rank = 2, .size = 3, .host = "n2"});
    uint64_t known = 0;
    std::string expected = "1000500";
    int told = 1;
    SUBCASE("the ranks") {}
    SUBCASE("the launcher") {
        known = 1'000'600;
        expected = "1000600";
    }
    SUBCASE("the launcher, and after the last event") {
        known = 9'000'000;
        expected = "";
        told = 0;
    }
    auto report = seal({experiment.path, "", known});
    CHECK(told == std::count_if(report.warnings.begin(), report.warnings.end(),
                                [](const std::string& w) { return w.find("exporter ended") != std::string::npos; }));
    CHECK(read_archive(experiment.path).properties[property::measuring_ended_ns] == expected);
}

TEST_CASE("a rank that stopped tracing is told too") {
    Experiment experiment;
    write_rank(experiment.path, {.rank = 0, .final_fields = R"("tracing_ended_ns":1000300,)"});
    write_rank(experiment.path, {.rank = 1});
    seal({experiment.path, ""});
    CHECK(read_archive(experiment.path).properties[property::measuring_ended_ns] == "1000300");
}

TEST_CASE("ranks that left nothing are missing, not forgotten") {
    Experiment experiment;
    write_rank(experiment.path, {.rank = 2, .size = 4});
    auto report = seal({experiment.path, ""});
    CHECK(report.missing == std::vector<uint32_t>{0, 1, 3});
    auto contents = read_archive(experiment.path);
    CHECK(flaw(contents) == "");
    CHECK(contents.defined_events.size() == 4);
    CHECK(contents.properties[property::incomplete] == "yes");
    CHECK(contents.properties[property::ranks_missing] == "0,1,3");
}

TEST_CASE("a rank that was not measured leaves the others measured, and is named") {
    Experiment experiment;
    const std::string none = R"({"exporter":"none","seen":[],"net":[],"why":"no room"})";
    for (uint32_t rank = 0; rank < 6; ++rank) {
        const bool unmeasured = rank == 0 || rank > 3;
        write_rank(experiment.path, {.rank = rank, .size = 6, .extra_lines = unmeasured ? std::vector{none} : std::vector<std::string>{}});
    }
    const auto report = seal({experiment.path, ""});
    CHECK(report.exporter == "bpf");
    CHECK(report.unmeasured == std::vector<uint32_t>{0, 4, 5});
    auto properties = read_archive(experiment.path).properties;
    CHECK(properties[property::exporter] == "bpf");
    CHECK(properties[property::exporter_by_rank] == "bpf:1-3;none:0,4-5");
    CHECK(properties[property::accounts_seen] == "timer,preempt");
    CHECK(properties[property::warnings] == "3 of 6 ranks were not measured (0,4-5): no room");
}

TEST_CASE("nothing at all is an error that says so") {
    Experiment experiment;
    CHECK_THROWS_AS(seal({experiment.path, ""}), polter::seal::NoRanks);
    fs::create_directories(experiment.path / "ranks/n1.1");
    CHECK_THROWS_AS(seal({experiment.path, ""}), polter::seal::NoRanks);
}

namespace {

// Peak memory of a child that seals, in KiB; its time is bounded.
long sealing_kib(const fs::path& experiment) {
    const auto pid = fork();
    if (pid == 0) {
        alarm(100);
        try {
            seal({experiment, ""});
        } catch (const polter::seal::Error&) {
            _exit(1);
        }
        _exit(0);
    }
    int status = 0;
    rusage used{};
    wait4(pid, &status, 0, &used);
    REQUIRE(WIFEXITED(status));
    return used.ru_maxrss;
}

}  // namespace

TEST_CASE("a sidecar takes memory and time in proportion to its size, whatever is in it") {
    const auto bomb = [](const char* what) {
        std::vector<std::string> lines;
        const std::string name(what);
        if (name == "string index") lines = {R"({"string":4194303,"value":"x"})"};
        if (name == "communicator index") lines = {R"({"comm":4194303,"name":"x","key":"k","group":[0]})"};
        if (name == "window index") lines = {R"({"win":4194303,"name":"x","key":"k","comm":0})"};
        if (name == "nested") lines = {R"({"warnings":)" + std::string(4 << 20, '[') + std::string(4 << 20, ']') + "}"};
        if (name == "many small") {
            std::string list = "[]";
            for (int i = 0; i < 2'000'000; ++i) list += ",[]";
            lines = {R"({"final":true,"events":{},"warnings":[)" + list + "]}"};
        }
        if (name == "chain" || name == "shared list") {
            std::string members = "0";
            for (int i = 1; i < 1000; ++i) members += "," + std::to_string(i);
            lines = {R"({"comm":2,"parent":0,"key":"a","group":[)" + members + "]}"};
            for (int i = 3; i < 60'000; ++i)
                lines.push_back(
                    fmt::format(R"({{"comm":{},"parent":0,"key":"k{}","group":{{"same_as":{}}}}})", i, i, name == "chain" ? i - 1 : 2));
        }
        if (name == "locations")
            for (uint64_t i = 1; i < 5'000; ++i) lines.push_back(fmt::format(R"({{"location":{},"name":"x"}})", i << 32));
        return lines;
    };
    long plain = 0;
    for (const char* what :
         {"nothing", "string index", "communicator index", "window index", "nested", "many small", "chain", "shared list", "locations"}) {
        CAPTURE(what);
        Experiment experiment;
        const auto lines = bomb(what);
        uint64_t bytes = 0;
        for (const auto& line : lines) bytes += line.size();
        write_rank(experiment.path, {.rank = 0, .size = 1000, .calls = 10, .extra_lines = lines});
        const long kib = sealing_kib(experiment.path);
        if (plain == 0) plain = kib;
        MESSAGE(what << ": " << bytes / 1024 << " KiB take " << kib - plain << " KiB");
        CHECK(kib - plain < 16 * 1024 + static_cast<long>(40 * bytes / 1024));
    }
}

TEST_CASE("each of several worlds becomes an archive of its own") {
    Experiment experiment;
    write_rank(experiment.path, {.rank = 0, .world = "a"});
    write_rank(experiment.path, {.rank = 1, .world = "a"});
    write_rank(experiment.path, {.rank = 0, .size = 1, .host = "n2", .world = "b"});
    SUBCASE("at once") {}
    SUBCASE("what an interrupted sealing has set apart already is taken too") {
        const auto ranks = experiment.path / "job-2/ranks";
        fs::create_directories(ranks);
        fs::rename(experiment.path / "ranks/n2.1000", ranks / "n2.1000");
    }
    auto report = seal({experiment.path, ""});
    CHECK(report.ranks == 2);
    CHECK(report.warnings.empty());
    CHECK(flaw(read_archive(experiment.path)) == "");
    REQUIRE(report.further.size() == 1);
    CHECK(report.further[0].folder == "job-2");
    CHECK(report.further[0].report.ranks == 1);
    CHECK(flaw(read_archive(experiment.path / "job-2")) == "");
    CHECK_FALSE(fs::exists(experiment.path / "job-2/ranks"));
}

TEST_CASE("processes with one rank under one name belong to jobs that began one after the other") {
    using polter::seal::Sidecar, polter::seal::worlds_of;
    const auto rank = [](uint32_t number, uint64_t started_ns, const char* world = "") {
        Sidecar sidecar;
        sidecar.rank = number;
        sidecar.size = 2;
        sidecar.started_ns = started_ns;
        sidecar.world = world;
        sidecar.folder = std::to_string(started_ns);
        return sidecar;
    };
    const auto shape = [](const std::vector<std::vector<Sidecar>>& worlds) {
        std::string out;
        for (const auto& world : worlds) {
            for (const auto& one : world) out += std::to_string(one.rank) + "@" + std::to_string(one.started_ns) + " ";
            out += "| ";
        }
        return out;
    };
    CHECK(shape(worlds_of({})) == "");
    CHECK(shape(worlds_of({rank(1, 20), rank(0, 31), rank(0, 10), rank(1, 30)})) == "0@10 1@20 | 0@31 1@30 | ");
    CHECK(shape(worlds_of({rank(0, 10), rank(0, 30), rank(1, 31)})) == "0@10 | 0@30 1@31 | ");  // one left nothing
    CHECK(shape(worlds_of({rank(0, 10, "a"), rank(0, 11, "b"), rank(1, 12, "a"), rank(1, 13, "b")})) == "0@10 1@12 | 0@11 1@13 | ");
}

TEST_CASE("sealing interrupted between any two steps can be repeated") {
    // The state after an interruption: some event files moved, some definitions in place, no anchor.
    for (bool moved : {false, true}) {
        for (bool finishes : {false, true}) {
            CAPTURE(moved);
            CAPTURE(finishes);
            Experiment experiment;
            write_rank(experiment.path, {.rank = 0});
            auto folder = write_rank(experiment.path, {.rank = 1, .calls = 40'000, .finishes = finishes});
            fs::create_directories(experiment.path / "traces");
            fs::create_directories(experiment.path / ".sealing/archive/traces");
            std::ofstream(experiment.path / ".sealing/archive/traces.otf2") << "half";
            std::ofstream(experiment.path / "traces/0.def") << "half";
            if (moved && finishes) fs::rename(folder / "traces/1.evt", experiment.path / "traces/1.evt");
            seal({experiment.path, ""});
            auto contents = read_archive(experiment.path);
            CHECK(flaw(contents) == "");
            CHECK(contents.events[1] == events_of(40'000) + (finishes ? 0 : 2));
        }
    }
}

TEST_CASE("chunks that stand in the file and in the tail count once") {
    Experiment experiment;
    auto folder = write_rank(experiment.path, {.rank = 0, .size = 1, .calls = 60'000, .finishes = false});
    auto all = experiment.path / "all";
    auto joined = joined_of(folder, all);
    REQUIRE(joined.from_tail > 3);
    // Killed between the flush of two chunks and their release.
    fs::copy_file(all, folder / "traces/0.evt", fs::copy_options::overwrite_existing);
    cut(folder / "traces/0.evt", 2 * polter::trace::event_chunk_size);
    auto again = joined_of(folder, experiment.path / "again");
    CHECK(again.flushed == 2);
    CHECK(again.from_tail == joined.from_tail - 2);
    CHECK(again.bytes == joined.bytes);
    // And cut in the middle of writing the third.
    fs::copy_file(all, folder / "traces/0.evt", fs::copy_options::overwrite_existing);
    cut(folder / "traces/0.evt", 2 * polter::trace::event_chunk_size + 1000);
    CHECK(joined_of(folder, experiment.path / "again").bytes == joined.bytes);
}

TEST_CASE("the checks can fail: an event file that lost its end, unsealed") {
    Experiment experiment;
    write_rank(experiment.path, {.rank = 0, .size = 1});
    seal({experiment.path, ""});
    auto file = experiment.path / "traces/0.evt";
    cut(file, fs::file_size(file) / 2);
    std::string found;
    try {
        found = flaw(read_archive(experiment.path));
    } catch (const std::exception& error) {
        found = error.what();
    }
    CHECK(found != "");
}

// Whatever was cut or overwritten: an archive that holds its invariants, or an error. Never a crash, never a hang.
TEST_CASE("random damage") {
    std::mt19937 random(20240607);
    auto below = [&](uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n ? n - 1 : 0)(random); };
    int sealed = 0;
    for (int round = 0; round < 60; ++round) {
        CAPTURE(round);
        Experiment experiment;
        write_rank(experiment.path, {.rank = 0, .calls = 200});
        auto folder =
            write_rank(experiment.path, {.rank = 1, .calls = static_cast<unsigned>(20'000 + below(20'000)), .finishes = round % 2 == 0});
        std::vector<fs::path> files{folder / "rank.jsonl"};
        for (auto file : {folder / "traces/1.evt", folder / "1.tail"})
            if (fs::exists(file)) files.push_back(file);
        for (uint64_t hit = 0; hit <= below(3); ++hit) {
            const auto& file = files[below(files.size())];
            auto size = fs::file_size(file);
            // The events of a rank that finished are taken as they are, once all of them are there: only its file's end is in question.
            if (below(2) || (round % 2 == 0 && file.extension() == ".evt")) {
                cut(file, below(size + 1));
            } else if (size) {
                std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
                // Of a tail file most is never used: hit what is.
                bytes.seekp(static_cast<std::streamoff>(below(2) ? below(std::min<uint64_t>(size, 5000)) : below(size)));
                for (uint64_t i = 0; i <= below(64); ++i) bytes.put(static_cast<char>(below(256)));
            }
        }
        auto pid = fork();
        if (pid == 0) {
            alarm(60);
            try {
                seal({experiment.path, ""});
            } catch (const polter::seal::Error&) {
                _exit(2);
            }
            _exit(0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        CHECK(WIFEXITED(status));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) continue;
        ++sealed;
        std::string found;
        try {
            found = flaw(read_archive(experiment.path));
        } catch (const std::exception& error) {
            found = error.what();
        }
        CHECK(found == "");
    }
    CHECK(sealed > 40);
}

TEST_CASE("clocks of two hosts are corrected by what was exchanged, and the archive says how well") {
    Experiment experiment;
    // The second host's clock is ahead by 5 s. Each exchange takes 1000 ns there and 1200 ns back, so the offset is known to 1100 ns.
    constexpr uint64_t ahead = 5'000'000'000;
    write_rank(experiment.path, {.rank = 0, .host = "n1"});
    const auto exchange = [&](uint64_t at) {
        return "{\"compared_with\":0,\"stamps\":[[" + std::to_string(at + ahead) + "," + std::to_string(at + 1000) + "," +
               std::to_string(at + 2200 + ahead) + "]]}";
    };
    write_rank(experiment.path,
               {.rank = 1, .host = "n2", .start_ns = 1'000'000 + ahead, .extra_lines = {exchange(900'000), exchange(1'900'000)}});
    const auto report = polter::seal::seal({.experiment = experiment.path});
    const auto archive = read_archive(experiment.path);
    const auto error = std::stoll(archive.properties.at("POLTER::CLOCK_ERROR_NS"));
    CHECK(error >= 1000);
    CHECK(error <= 1200);
    CHECK(archive.offset >= 999'000);
    CHECK(archive.offset <= 1'000'000);
    CHECK(archive.length < ahead);
    REQUIRE(archive.times.at(0).size() == archive.times.at(1).size());
    for (size_t i = 0; i < archive.times.at(0).size(); ++i)
        CHECK(std::abs(static_cast<int64_t>(archive.times.at(1)[i] - archive.times.at(0)[i])) <= error);
}

TEST_CASE("clocks that nothing compares are unknown") {
    Experiment experiment;
    write_rank(experiment.path, {.rank = 0, .host = "n1", .calls = 0});
    write_rank(experiment.path, {.rank = 1, .host = "n2", .calls = 0});
    const auto report = polter::seal::seal({.experiment = experiment.path});
    CHECK(report.properties.at("POLTER::CLOCK_ERROR_NS") == "unknown");
    CHECK(std::any_of(report.warnings.begin(), report.warnings.end(),
                      [](const std::string& w) { return w.find("could not be compared") != w.npos; }));
}
