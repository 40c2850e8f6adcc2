// SPDX-License-Identifier: BSD-3-Clause
// The streaming engine against the plain evaluation of the whole event graph: equal to the nanosecond at each Enter and Leave, in
// each lane, whichever rank is read first.
#include "reference.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "reference_program.hpp"
#include "replay/testing.hpp"

namespace {

using namespace polter;

struct Difference {
    size_t traces = 0, not_covered = 0;
};

// Where two timelines part first, in words; empty where they are equal.
std::string first_difference(const test::Timelines& expected, const test::Timelines& found) {
    std::string first;
    int64_t earliest = INT64_MAX;
    for (size_t rank = 0; rank < expected.size(); ++rank) {
        const auto [e, f] = std::mismatch(expected[rank].begin(), expected[rank].end(), found[rank].begin(), found[rank].end());
        if (e == expected[rank].end() && f == found[rank].end()) continue;
        const bool both = e != expected[rank].end() && f != found[rank].end();
        const int64_t at = both ? e->first : 0;
        if (at >= earliest) continue;
        earliest = at;
        first = "rank " + std::to_string(rank) + " event " + std::to_string(e - expected[rank].begin());
        if (!both || e->first != f->first) {
            first += ": not the same event";
            continue;
        }
        const auto lane = std::mismatch(e->second.begin(), e->second.end(), f->second.begin(), f->second.end());
        first += " at " + std::to_string(at) + " ns, lane " + std::to_string(lane.first - e->second.begin()) + ": reference " +
                 std::to_string(*lane.first) + ", engine " + std::to_string(*lane.second);
    }
    return first;
}

std::optional<std::string> compare(uint64_t seed, const test::ReferenceFaults& reference_faults, replay::Faults faults) {
    const test::TraceSpec trace = test::reference_program(seed);
    const test::TemporaryDirectory directory;
    test::write_trace(trace, directory.path("t"));
    test::Timelines expected, found(trace.ranks());
    bool covered = true;
    replay::Hooks hooks;
    hooks.faults = faults;
    hooks.faults.no_structure = true;
    hooks.reverse_order = seed % 2 == 1;
    hooks.observer = [&](const replay::Scenarios& scenarios, const replay::Thread& thread, int64_t time, const int64_t* delay) {
        if (covered && expected.empty()) {
            try {
                expected = test::reference(trace, scenarios, thread.engine->model(), reference_faults);
            } catch (const test::NotCovered&) {
                covered = false;
            }
        }
        std::vector<int64_t> approximated;
        for (size_t lane = 0; lane < scenarios.lanes().count; ++lane) approximated.push_back(time - delay[lane]);
        found[static_cast<size_t>(thread.rank)].emplace_back(time, std::move(approximated));
    };
    replay::Options options;
    options.trace = directory.path("t");
    replay::replay_with(options, hooks);
    if (!covered) return std::nullopt;
    return first_difference(expected, found);
}

Difference differences(uint64_t first_seed, uint64_t count, const test::ReferenceFaults& reference_faults = {}, replay::Faults faults = {},
                       bool tell = false) {
    Difference difference;
    for (uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
        const auto found = compare(seed, reference_faults, faults);
        if (!found) {
            ++difference.not_covered;
        } else if (!found->empty()) {
            if (tell && difference.traces < 5) MESSAGE("seed " << seed << ": " << *found);
            ++difference.traces;
        }
    }
    return difference;
}

// How many Enters and Leaves of MPI calls have another slack than in the reference, and how many were compared.
struct Slacks {
    int64_t different = 0, compared = 0, late = 0;  // late: with a slack
};

Slacks compare_slacks(uint64_t first_seed, uint64_t count, const test::ReferenceFaults& reference_faults = {}, replay::Faults faults = {},
                      bool tell = false) {
    Slacks slacks;
    for (uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
        const test::TraceSpec trace = test::reference_program(seed);
        const test::TemporaryDirectory directory;
        test::write_trace(trace, directory.path("t"));
        std::vector<std::vector<int64_t>> expected;
        bool covered = true;
        std::vector<size_t> events(trace.ranks(), 0);
        std::vector<uint64_t> last_node(trace.ranks(), 0);
        std::map<uint64_t, std::pair<size_t, size_t>> place;  // of a node: rank, index of the Enter or Leave
        std::map<uint64_t, int64_t> found;
        replay::Hooks hooks;
        hooks.faults = faults;
        hooks.faults.no_structure = true;
        hooks.observer = [&](const replay::Scenarios& scenarios, const replay::Thread& thread, int64_t time, const int64_t*) {
            if (covered && expected.empty()) {
                try {
                    expected = test::reference_slacks(trace, scenarios, thread.engine->model(), reference_faults);
                } catch (const test::NotCovered&) {
                    covered = false;
                }
            }
            const auto rank = static_cast<size_t>(thread.rank);
            const size_t event = events[rank]++;
            if (thread.node == last_node[rank] || time != thread.leave) return;  // not at the end of an MPI call
            last_node[rank] = thread.node;
            place[thread.enter_node] = {rank, event - 1};
            place[thread.node] = {rank, event};
        };
        hooks.slack = [&](uint64_t node, int64_t slack) { found[node] = slack; };
        replay::Options options;
        options.trace = directory.path("t");
        options.attribution = true;
        replay::replay_with(options, hooks);
        if (!covered) continue;
        for (const auto& [node, where] : place) {
            const int64_t wanted = expected[where.first][where.second];
            ++slacks.compared;
            slacks.late += wanted > 0;
            if (found.at(node) == wanted) continue;
            if (tell && slacks.different < 5)
                MESSAGE("seed " << seed << ", rank " << where.first << ", event " << where.second << ": reference " << wanted << ", engine "
                                << found.at(node));
            ++slacks.different;
        }
    }
    return slacks;
}

}  // namespace

TEST_CASE("slack is what it is in the reference's graph, read backward") {
    const Slacks slacks = compare_slacks(1, 400, {}, {}, true);
    MESSAGE(slacks.compared << " events compared, " << slacks.late << " with a slack");
    CHECK(slacks.different == 0);
    CHECK(slacks.late > 1000);
    CHECK(compare_slacks(1, 30, {}, {.dropped_edge = true}).different > 0);
    CHECK(compare_slacks(1, 30, {}, {.measured_slack = true}).different > 0);
    CHECK(compare_slacks(1, 30, {.no_messages = true}).different > 0);
}

TEST_CASE("the engine is equal to the reference on random traces") {
    constexpr uint64_t traces = test::programs_of(5'000);
    const char* given = std::getenv("POLTER_REFERENCE_SEED");  // others than those of every day
    const Difference difference = differences(given ? std::strtoull(given, nullptr, 10) : 1, traces, {}, {}, true);
    MESSAGE((traces - difference.not_covered) << " traces compared");
    CHECK(difference.traces == 0);
    CHECK(difference.not_covered < traces / 100);
}

TEST_CASE("an error in either of them is found") {
    constexpr uint64_t traces = 60;
    CHECK(differences(1, traces, {.no_messages = true}).traces > 0);
    CHECK(differences(1, traces, {.last_message = true}).traces > 0);
    CHECK(differences(1, traces, {.no_posting = true}).traces > 0);
    CHECK(differences(1, traces, {.forget_member = true}).traces > 0);
    CHECK(differences(1, traces, {.noise_anywhere = true}).traces > 0);
    CHECK(differences(1, 5 * traces, {.all_members_delay = true}).traces > 0);
    CHECK(differences(1, traces, {}, {.drop_dependency = true}).traces > 0);
    CHECK(differences(1, traces, {}, {.negative_removal = true}).traces > 0);
    CHECK(differences(1, traces, {}, {.swap_bounds = true}).traces > 0);
    CHECK(differences(1, traces, {}, {.senders_never_wait = true}).traces > 0);
    CHECK(differences(1, 10 * traces, {}, {.forget_cancelled = true}).traces > 0);
}
