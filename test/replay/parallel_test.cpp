// SPDX-License-Identifier: BSD-3-Clause
// Several analysis processes give the answer of one, byte for byte: on random programs, on the traces computed by hand, on sick ones.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "replay/parallel/traffic.hpp"
#include "replay/testing.hpp"
#include "support/habits.hpp"
#include "support/micro_parse.hpp"
#include "support/process_group.hpp"
#include "support/random_program.hpp"

using namespace polter;

namespace {

constexpr int process_counts[] = {2, 3, 5};

// With which of them a trace is replayed: each in turn, so that many traces see all; with POLTER_ALL_PROCESS_COUNTS each trace with all.
std::vector<int> counts_in_turn() {
    static size_t turn = 0;
    if (std::getenv("POLTER_ALL_PROCESS_COUNTS")) return {std::begin(process_counts), std::end(process_counts)};
    return {process_counts[turn++ % std::size(process_counts)]};
}

// What else is asked for.
struct Asked {
    std::string inject;
    bool attribution = false;  // the first process alone has it
    std::string write_approximated;
};

std::string answer(const std::string& trace, replay::Group* group, const replay::Hooks& hooks = {}, const Asked& asked = {}) {
    replay::Options options;
    options.trace = trace;
    options.group = group;
    options.inject = asked.inject;
    options.attribution = asked.attribution;
    options.write_approximated = asked.write_approximated;
    replay::Result result = replay::replay_with(options, hooks);
    if (group && group->rank() > 0 && (asked.attribution || !asked.write_approximated.empty())) return "";
    if (result.costs) result.costs->spilled_bytes = 0;  // each has its own copies of collectives
    return replay::to_json(result).dump(1) + replay::model_to_json(result.model).dump(1) +
           (result.injected ? replay::injected_to_json(*result.injected).dump(1) : "");
}

// How many of the runs with several processes do not give what one gives.
int differences(const test::TraceSpec& trace, uint64_t mood, const replay::Hooks& hooks = {}, const std::string& noise = "",
                bool attribution = false) {
    const test::TemporaryDirectory directory;
    test::write_trace(trace, directory.path("t"));
    const Asked asked{noise.empty() ? "" : directory.path("noise.json"), attribution, ""};
    if (!noise.empty()) std::ofstream(asked.inject) << noise;
    const std::string alone = answer(directory.path("t"), nullptr, {}, asked);
    int count = 0;
    for (const int processes : counts_in_turn())
        for (const std::string& one :
             test::together(processes, mood, [&](replay::Group& group) { return answer(directory.path("t"), &group, hooks, asked); })) {
            if (one == alone || one.empty()) continue;
            if (count++ > 0) continue;
            size_t at = 0;
            while (at < std::min(one.size(), alone.size()) && one[at] == alone[at]) ++at;
            MESSAGE(processes << " processes: " << one.substr(at < 200 ? 0 : at - 200, 400)
                              << "\n---- one: " << alone.substr(at < 200 ? 0 : at - 200, 400));
        }
    return count;
}

}  // namespace

TEST_CASE("random programs") {
    for (uint64_t seed = 1; seed <= test::programs_of(40); ++seed) {
        CAPTURE(seed);
        CHECK(differences(test::mixed_program(seed).trace, seed) == 0);
    }
}

TEST_CASE("the same question finds what is not told to the others") {
    replay::Hooks hooks;
    int unmerged = 0, untold = 0;
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        hooks.faults = {.merge_first_alone = true};
        unmerged += differences(test::mixed_program(seed).trace, seed, hooks);
        hooks.faults = {.keep_posting = true};
        untold += differences(test::mixed_program(seed).trace, seed, hooks);
    }
    CHECK(unmerged > 0);
    CHECK(untold > 0);
}

TEST_CASE("injected noise") {
    const std::string noise = R"({"schema":"polter.inject/1","sources":[
        {"name":"tick","period_ns":20000,"duration_ns":900,"seed":5},
        {"name":"daemon","arrival":"random","period_ns":70000,"duration_ns":6000,"ranks":[0,1],"seed":3}]})";
    int untold = 0;
    for (uint64_t seed = 1; seed <= 24; ++seed) {
        CAPTURE(seed);
        const test::TraceSpec trace = test::mixed_program(seed).trace;
        CHECK(differences(trace, seed, {}, noise) == 0);
        replay::Hooks hooks;
        hooks.faults = {.mirrors_without_noise = true};
        if (seed <= 8) untold += differences(trace, seed, hooks, noise);
    }
    CHECK(untold > 0);
}

TEST_CASE("attribution: one event graph of all processes") {
    int nowhere = 0, out_of_order = 0;
    for (uint64_t seed = 1; seed <= test::programs_of(24); ++seed) {
        CAPTURE(seed);
        const test::TraceSpec trace = test::mixed_program(seed).trace;
        CHECK(differences(trace, seed, {}, "", true) == 0);
        if (seed > 3) continue;
        replay::Hooks hooks;
        hooks.faults = {.mirrors_nowhere = true};
        nowhere += differences(trace, seed, hooks, "", true);
        hooks.faults = {.local_numbers = true};
        out_of_order += differences(trace, seed, hooks, "", true);
    }
    CHECK(nowhere > 0);
    CHECK(out_of_order > 0);
}

TEST_CASE("messages whose requests are not recorded") {
    const auto plain = std::find_if(test::habits().begin(), test::habits().end(), [](const auto& h) { return h.name == "plain_messages"; });
    REQUIRE(plain != test::habits().end());
    for (uint64_t seed = 1; seed <= test::programs_of(12); ++seed) {
        CAPTURE(seed);
        test::TraceSpec trace = test::mixed_program(seed).trace;
        plain->rewrite(trace);
        CHECK(differences(trace, seed, {}, "", true) == 0);
    }
}

TEST_CASE("attribution: a posting that is known late, and events at one time") {
    for (uint64_t seed = 1; seed <= test::programs_of(12); ++seed) {
        CAPTURE(seed);
        test::TraceSpec trace = test::mixed_program(seed).trace;
        for (auto& records : trace.records)
            for (test::Record& record : records) {
                if (record.kind == test::Record::Kind::irecv_request) record.posted = false;
                if (seed % 2 == 0) record.time -= record.time % 1000;
            }
        CHECK(differences(trace, seed, {}, "", true) == 0);
    }
    replay::Hooks hooks;
    hooks.faults = {.forget_postings = true, .posted_at_wait = true};
    CHECK(differences(test::parse_micro(POLTER_MICRO_TRACES "/posting_node.txt").trace, 1, hooks, "", true) > 0);
}

// Noise begins at multiples of 10 us where nothing was recorded since: as that of ranks that take turns on one CPU.
void begin_together(test::TraceSpec& trace) {
    constexpr int64_t grid_ns = 10'000;
    for (auto& records : trace.records) {
        int64_t before = INT64_MIN;
        for (test::Record& record : records) {
            if (record.kind == test::Record::Kind::noise) {
                const int64_t begin = static_cast<int64_t>(record.time) - record.ns, earlier = begin - begin % grid_ns;
                if (earlier >= before) record.ns += begin - earlier;
            }
            before = static_cast<int64_t>(record.time);
        }
    }
}

TEST_CASE("noise of several members begins at one time") {
    int in_turn = 0;
    for (uint64_t seed = 1; seed <= test::programs_of(12); ++seed) {
        CAPTURE(seed);
        test::TraceSpec trace = test::mixed_program(seed).trace;
        begin_together(trace);
        CHECK(differences(trace, seed) == 0);
        replay::Hooks hooks;
        hooks.faults = {.order_of_coming = true};
        in_turn += differences(trace, seed, hooks);
    }
    CHECK(in_turn > 0);
}

// Everything but the anchor file, which has a name that OTF2 draws.
std::map<std::string, std::string> files_of(const std::string& archive) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(archive)) {
        if (!entry.is_regular_file() || entry.path().extension() == ".otf2") continue;
        std::ifstream file(entry.path(), std::ios::binary);
        files[std::filesystem::relative(entry.path(), archive).string()] = {std::istreambuf_iterator<char>(file), {}};
    }
    return files;
}

TEST_CASE("the approximated timeline: one archive of all processes") {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        CAPTURE(seed);
        const test::TemporaryDirectory directory;
        test::write_trace(test::mixed_program(seed).trace, directory.path("t"));
        answer(directory.path("t"), nullptr, {}, {"", false, directory.path("alone")});
        const auto alone = files_of(directory.path("alone"));
        CHECK(alone.size() > 2);
        for (const int processes : process_counts) {
            const std::string to = directory.path(("a" + std::to_string(processes)).c_str());
            const auto write = [&](const std::string& where, replay::Faults faults) {
                replay::Hooks hooks;
                hooks.faults = faults;
                return test::together(processes, seed, [&](replay::Group& group) {
                    return answer(directory.path("t"), &group, hooks, {"", true, where});
                });
            };
            CHECK(write(to, {})[0].starts_with("{"));
            CHECK(files_of(to) == alone);
            if (seed != 1) continue;
            CHECK(write(to + "-wrong", {.wrong_end = true})[0].starts_with("{"));
            CHECK(files_of(to + "-wrong") != alone);
            for (const std::string& one : write(to, {})) CHECK(one.find("exists already") != std::string::npos);
        }
        for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(directory.path("t")).parent_path()))
            CHECK(entry.path().filename().string().find("partial") == std::string::npos);
    }
}

TEST_CASE("the traces computed by hand") {
    for (const auto& entry : std::filesystem::directory_iterator(POLTER_MICRO_TRACES)) {
        if (entry.path().extension() != ".txt") continue;
        CAPTURE(entry.path().filename().string());
        CHECK(differences(test::parse_micro(entry.path().string()).trace, 1) == 0);
        CHECK(differences(test::parse_micro(entry.path().string()).trace, 1, {}, "", true) == 0);
    }
}

TEST_CASE("sick traces: a rank that breaks off, a message that vanishes, a receive that nobody answers") {
    for (uint64_t seed = 1; seed <= 24; ++seed) {
        CAPTURE(seed);
        test::TraceSpec trace = test::mixed_program(seed).trace;
        auto& records = trace.records[seed % trace.ranks()];
        if (seed % 3 == 0) {
            records.resize(records.size() * (seed % 5 + 1) / 7);
        } else {
            const auto kind = seed % 3 == 1 ? test::Record::Kind::send : test::Record::Kind::recv;
            size_t number = 0;
            std::erase_if(records, [&](const test::Record& record) { return record.kind == kind && number++ % 5 == 2; });
        }
        CHECK(differences(trace, seed, {}, "", seed % 2 == 0) == 0);
    }
}

TEST_CASE("an error in one process ends all, and each knows it") {
    const test::TemporaryDirectory directory;
    test::write_trace(test::mixed_program(6).trace, directory.path("t"));
    const auto fail = [&](int process, bool die) {
        return test::together(
            3, 1,
            [&](replay::Group& group) {
                replay::Hooks hooks;
                hooks.observer = [&](const replay::Scenarios&, const replay::Thread&, int64_t time, const int64_t*) {
                    if (group.rank() != process || time < 20'000) return;
                    if (die) raise(SIGKILL);
                    throw std::runtime_error("the disk is full");
                };
                return answer(directory.path("t"), &group, hooks);
            },
            20);
    };
    for (int process = 0; process < 3; ++process) {
        const std::vector<std::string> said = fail(process, false);
        for (int i = 0; i < 3; ++i)
            CHECK(said[static_cast<size_t>(i)] == (i == process ? "failed: the disk is full" : "failed: peer: the disk is full"));
    }
    const std::vector<std::string> said = fail(1, true);
    CHECK(said[1] == "died");
    for (const int i : {0, 2}) CHECK(said[static_cast<size_t>(i)].find("has died") != std::string::npos);
}

TEST_CASE("memory: no process runs ahead of another") {
    // A producer that never waits, in one process, and in the other its consumer, which begins a second later. How far the first was ahead
    // of the second, in ns of measured time: what lies between is held by somebody.
    const auto most_ahead = [](int64_t messages, replay::Faults faults) {
        test::TraceSpec spec(2);
        spec.accounts = {"os:timer"};
        for (int64_t i = 0; i < messages; ++i) {
            spec.add(0, i * 1000, test::Record::Kind::enter, "MPI_Send");
            spec.add(0, i * 1000, test::Record::Kind::send).peer = 1;
            spec.add(0, i * 1000 + 100, test::Record::Kind::leave, "MPI_Send");
            spec.add(1, i * 1000 + 300, test::Record::Kind::enter, "MPI_Recv");
            spec.add(1, i * 1000 + 400, test::Record::Kind::recv).peer = 0;
            spec.add(1, i * 1000 + 400, test::Record::Kind::leave, "MPI_Recv");
        }
        const test::TemporaryDirectory directory;
        test::write_trace(spec, directory.path("t"));
        struct Shared {
            std::atomic<int64_t> at[2], ahead;
        };
        void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(memory != MAP_FAILED);
        auto* shared = new (memory) Shared{};
        for (const std::string& one : test::together(2, 1, [&](replay::Group& group) {
                 replay::Hooks hooks;
                 hooks.faults = faults;
                 hooks.observer = [&, slept = false](const replay::Scenarios&, const replay::Thread& thread, int64_t time,
                                                     const int64_t*) mutable {
                     if (thread.rank == 1 && !std::exchange(slept, true)) sleep(1);
                     shared->at[thread.rank] = time;
                     shared->ahead = std::max<int64_t>(shared->ahead, shared->at[0] - shared->at[1]);
                 };
                 return answer(directory.path("t"), &group, hooks);
             }))
            CHECK(one.starts_with("{"));
        const int64_t ahead = shared->ahead;
        munmap(memory, sizeof(Shared));
        return ahead;
    };
    const int64_t ahead = most_ahead(50'000, {});
    MESSAGE(ahead << " ns of 50,000,000");
    CHECK(ahead < 5'000'000);
    CHECK(most_ahead(50'000, {.no_window = true}) > 25'000'000);
}

namespace {

// Four ranks: each sends a hundred messages to the one `distance` further on, or meets all others as often.
replay::Traffic crossing(uint64_t distance, int processes, bool collectives = false) {
    constexpr uint64_t ranks = 4;
    test::TraceSpec trace(ranks);
    for (uint64_t rank = 0; rank < ranks; ++rank)
        for (int64_t step = 0; step < 100; ++step) {
            const char* const call = collectives ? "MPI_Barrier" : "MPI_Send";
            trace.add(rank, 10 * step, test::Record::Kind::enter, call);
            if (collectives) {
                trace.add(rank, 10 * step, test::Record::Kind::collective_begin);
                trace.add(rank, 10 * step + 5, test::Record::Kind::collective_end).operation = OTF2_COLLECTIVE_OP_BARRIER;
            } else {
                test::Record& send = trace.add(rank, 10 * step, test::Record::Kind::send);
                send.peer = static_cast<int64_t>((rank + distance) % ranks);
                send.bytes = 8;
            }
            trace.add(rank, 10 * step + 5, test::Record::Kind::leave, call);
        }
    const test::TemporaryDirectory directory;
    test::write_trace(trace, directory.path("t"));
    replay::Archive archive(directory.path("t"));
    return replay::crossing_traffic(archive, processes);
}

}  // namespace

TEST_CASE("what crosses between processes is counted of all records") {
    CHECK(crossing(2, 1).messages == 0);                         // nobody else
    CHECK(crossing(2, 2).messages == doctest::Approx(1.0 / 3));  // each message, of three records
    CHECK(crossing(1, 2).messages == doctest::Approx(1.0 / 6));  // every second rank's
    CHECK(crossing(4, 2).messages == 0);                         // to themselves
    CHECK(crossing(2, 2).collectives == 0);
    CHECK(crossing(0, 2, true).collectives == doctest::Approx(0.25));  // all collectives
    CHECK(crossing(0, 2, true).messages == 0);
    CHECK(crossing(0, 1, true).crossing() == 0);
    CHECK(crossing(0, 1, true).ranks == 4);
    CHECK(crossing(0, 2, true).ranks == 2);
    CHECK(crossing(0, 8, true).ranks == 1);
}

// Measured with two processes on as many cores: where several took longer than one, they are not expected to be faster.
TEST_CASE("the estimate decides as what was measured") {
    const auto faster = [](const replay::Traffic& traffic, int processes, double at_once) {
        return replay::expected_part(traffic, processes, at_once) <= replay::most_expected_part;
    };
    CHECK(faster({0.014, 0, 32}, 2, 2));         // a stencil: 0.56 of the time of one
    CHECK(faster({0.011, 0, 32}, 2, 2));         // a wavefront: 0.63
    CHECK(faster({0, 0.17, 32}, 2, 2));          // Allreduce: 0.75
    CHECK(faster({0.09, 0, 512}, 2, 2));         // a task farm: 0.8
    CHECK_FALSE(faster({0.11, 0, 1}, 2, 2));     // LAMMPS: 1.6
    CHECK_FALSE(faster({0.06, 0.06, 1}, 2, 2));  // conjugate gradients: 1.4
    CHECK_FALSE(faster({0.05, 0, 2}, 2, 2));     // a wavefront of four ranks: 1.0
    CHECK_FALSE(faster({0, 0.19, 2}, 2, 2));     // Allreduce of four ranks: 1.0
    CHECK_FALSE(faster({0, 0, 32}, 2, 1));       // one core for both
    CHECK(faster({0, 0, 32}, 4, 2));             // two cores for four
}
