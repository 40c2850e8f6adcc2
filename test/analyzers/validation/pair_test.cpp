// SPDX-License-Identifier: BSD-3-Clause
// One pair of polter validate from traces whose answers are known, and what each step of it is good for.
#include <doctest/doctest.h>

#include <fstream>

#include "analyzers/inject/alongside.hpp"
#include "analyzers/validation/validate.hpp"
#include "test/replay/support/micro_parse.hpp"
#include "units.hpp"

using namespace polter;
using namespace polter::validation;

namespace {

// On this machine an event takes 54 us beyond its logged length: the timer interrupt before it is recorded with 5 of 40 us, and the
// preemption 4 us longer than logged while 10 us more are hidden. What the program does takes 962 us, with one tick of 5 us.
EventCost cost_here() {
    EventCost cost;
    cost.measured_by = "bpf";
    cost.cpus[0] = {54 * us, 45 * us, 35 * us, 100, 250};
    return cost;
}

// 100 us of MPI_Init, the program, and 40 us of another task's.
constexpr const char* quiet_trace = R"(
ranks 1
accounts os:timer os:preempt
0 0 enter main
0 1000 enter MPI_Init
0 101000 leave MPI_Init
0 300000 noise os:timer 5000 local_timer
0 500000 noise os:preempt 40000 bash
0 1101000 enter MPI_Finalize
0 1102000 leave MPI_Finalize
0 1102000 leave main
)";

// 150 us of MPI_Init, the program, 20 us of another task's, and two events of 100 and 20 us.
constexpr const char* injected_trace = R"(
ranks 1
accounts os:timer os:preempt
0 0 enter main
0 1000 enter MPI_Init
0 151000 leave MPI_Init
0 350000 noise os:timer 5000 local_timer
0 690000 noise os:timer 5000 local_timer
0 801000 noise os:preempt 104000 polter-inject
0 900000 noise os:preempt 20000 bash
0 1260000 noise os:timer 5000 local_timer
0 1291000 noise os:preempt 24000 polter-inject
0 1359000 enter MPI_Finalize
0 1360000 leave MPI_Finalize
0 1360000 leave main
)";

Pair judged(const PairFaults& faults = {}, const EventCost& cost = cost_here()) {
    const test::TemporaryDirectory directory;
    const auto write = [&](const std::string& name, const char* text) {
        std::ofstream(directory.path(name + ".txt")) << text;
        test::write_trace(test::parse_micro(directory.path(name + ".txt")).trace, directory.path(name));
    };
    write("quiet", quiet_trace);
    write("injected", injected_trace);
    inject::Log log;
    log.origin_ns = 7'000'000'000;
    log.sources.push_back({"periodic", "periodic,period=10ms,duration=100us", {}});
    for (const auto& [begin, length] : {std::pair{700 * us, 100 * us}, {1270 * us, 20 * us}})
        log.sources[0].events.push_back({0, 0, log.origin_ns + begin, length, length});
    inject::write_log(log, directory.path("injected") + "/" + inject::log_name);
    Found found;
    const Pair pair = judge_pair(directory.path("quiet"), directory.path("injected"), directory.path(""), cost, found, faults);
    CHECK(found.found == 2);
    CHECK(found.longer_ns == std::vector<int64_t>{4 * us, 4 * us});
    return pair;
}

}  // namespace

TEST_CASE("estimate and prediction of a pair are exact where everything is known") {
    const Pair pair = judged();
    CHECK(pair.measured_quiet == 1002 * us);
    CHECK(pair.measured_injected == 1210 * us);
    CHECK(pair.quiet == 962 * us);
    CHECK(pair.injected == 1190 * us);
    CHECK(pair.estimated == pair.quiet);
    CHECK(pair.predicted == pair.injected);
    CHECK(pair.machine_noise == 45 * us);
    CHECK(pair.predicted_by_log == pair.quiet + 100 * us);  // the second event is behind the end of that shorter run
    CHECK(pair.load == doctest::Approx(120.0 / 1210));
    // From the records alone, what is hidden stays in the run: 45 us of each event.
    CHECK(pair.estimated_as_recorded == pair.quiet + 90 * us);
    // With the machine's own noise in both: 40 us here, 20 us there.
    CHECK(pair.estimated_with_own == pair.measured_quiet - 20 * us);
}

TEST_CASE("where the loop measured nothing, the estimate is that from the records alone") {
    const Pair pair = judged({}, EventCost());
    CHECK(pair.quiet == 962 * us);
    CHECK(pair.estimated == pair.estimated_as_recorded);
    CHECK(pair.estimated == pair.quiet + 90 * us);
    CHECK(pair.predicted == pair.predicted_by_log);
}

TEST_CASE("each step that is left out shows") {
    const Pair right = judged();
    CHECK(judged({.timers_stay = true}).estimated == right.estimated + 10 * us);
    CHECK(judged({.own_noise_stays = true}).quiet == right.quiet + 40 * us);
    CHECK(judged({.own_noise_stays = true}).estimated != judged({.own_noise_stays = true}).quiet);
    CHECK(judged({.log_unmoved = true}).predicted == right.predicted - 74 * us);  // the second event misses the run
    CHECK(judged({.log_alone = true}).predicted == right.predicted_by_log);
    CHECK(judged({.records_alone = true}).estimated == right.estimated_as_recorded);
}
