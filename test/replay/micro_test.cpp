// SPDX-License-Identifier: BSD-3-Clause
// Every rule on a trace small enough to compute by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "replay/testing.hpp"
#include "support/micro_parse.hpp"

namespace {

using namespace polter;

struct Seen {
    std::map<std::tuple<std::string, int64_t, int64_t>, int64_t>
        approximated;  // scenario, thread, measured → approximated (the last event)

    // Outlives what is returned.
    auto observer(const test::Micro& micro) {
        return [this, &micro](const replay::Scenarios& scenarios, const replay::Thread& thread, int64_t time, const int64_t* delay) {
            const auto keep = [&](const std::string& name, size_t lane) {
                approximated[{name, int64_t{thread.index}, time}] = time - delay[lane];
            };
            keep("none", 0);
            keep("all", scenarios.all());
            for (size_t i = 0; i < micro.trace.accounts.size(); ++i) keep(micro.trace.accounts[i], scenarios.alone_lane(i));
        };
    }
};

void check_costs(const test::Micro& micro, const replay::Result& result) {
    for (const auto& origin : micro.origins) {
        CAPTURE(origin.culprit);
        CAPTURE(origin.rank);
        int64_t sum = 0;
        for (const auto& row : result.attribution.rows)
            if ("os:" + row.source == origin.source && row.culprit == origin.culprit && row.rank == origin.rank) sum += row.ns;
        CHECK(sum == origin.ns);
    }
    for (const auto& cost : micro.costs) {
        CAPTURE(cost.rank);
        CAPTURE(cost.time);
        int64_t found = 0;
        for (const auto& noise : result.costs->costliest)
            if (noise.rank == cost.rank && noise.at_ns == cost.time) found = std::max(found, noise.cost_ns);
        CHECK(found == cost.ns);
    }
    for (const auto& path : micro.paths) {
        CAPTURE(path.when);
        const replay::PathResult& found = path.when == "before" ? result.costs->before : result.costs->after;
        CHECK(found.length_ns == path.length);
        CHECK(found.hops == path.hops);
    }
    if (micro.fate) {
        const replay::Propagation& found = result.costs->propagation;
        CHECK(found.waiting == micro.fate->waiting);
        CHECK(found.absorbed_downstream == micro.fate->absorbed_downstream);
        CHECK(found.reached == micro.fate->reached);
    }
}

void run(const std::string& path, bool one_class) {
    test::Micro micro = test::parse_micro(path);
    micro.trace.one_class = one_class;
    const test::TemporaryDirectory directory;
    test::write_trace(micro.trace, directory.path("t"));
    Seen seen;
    replay::Hooks hooks;
    hooks.observer = seen.observer(micro);
    replay::Options options;
    options.trace = directory.path("t");
    options.attribution = true;
    options.windows = micro.windows;
    const replay::Result result = replay::replay_with(options, hooks);
    for (const auto& event : micro.events) {
        CAPTURE(event.scenario);
        CAPTURE(event.rank);
        CAPTURE(event.time);
        const auto found = seen.approximated.find({event.scenario, event.rank, event.time});
        REQUIRE(found != seen.approximated.end());
        CHECK(found->second == event.approximated);
    }
    for (const auto& [scenario, total] : micro.totals) {
        CAPTURE(scenario);
        if (scenario == "all") {
            CHECK(result.accumulated_noise_ns == total);
            continue;
        }
        const auto source =
            std::find_if(result.sources.begin(), result.sources.end(), [&](const auto& s) { return "os:" + s.name == scenario; });
        REQUIRE(source != result.sources.end());
        CHECK(source->alone_ns == total);
    }
    for (const auto& payment : micro.paid) {
        CAPTURE(payment.source);
        CAPTURE(payment.where);
        int64_t sum = 0;
        for (const auto& row : result.attribution.rows)
            if ("os:" + row.source == payment.source && row.where == payment.where) sum += row.ns;
        CHECK(sum == payment.ns);
    }
    check_costs(micro, result);
    if (micro.bounds) {
        CHECK(result.bounds_low_ns == micro.bounds->first);
        CHECK(result.bounds_high_ns == micro.bounds->second);
    }
    for (const int64_t noise : micro.inside) {
        CAPTURE(noise);
        CHECK(result.measured_ns - result.bounds_high_ns <= noise);
        CHECK(result.measured_ns - result.bounds_low_ns >= noise);
    }
    CHECK(result.bounds_low_ns <= result.approximated_ns);
    CHECK(result.approximated_ns <= result.bounds_high_ns);
    if (micro.conditional) CHECK(result.conditional == *micro.conditional);
    for (const std::string& expected : micro.warnings) {
        CAPTURE(expected);
        CHECK(std::any_of(result.warnings.begin(), result.warnings.end(),
                          [&](const auto& w) { return w.text.find(expected) != std::string::npos; }));
    }
}

}  // namespace

// Of the events, totals, bounds and `conditional` that were determined by hand: how many the replay misses with that fault.
static int mistakes(const std::string& name, replay::Faults faults) {
    const test::Micro micro = test::parse_micro(std::string(POLTER_MICRO_TRACES) + "/" + name + ".txt");
    const test::TemporaryDirectory directory;
    test::write_trace(micro.trace, directory.path("t"));
    Seen seen;
    replay::Hooks hooks;
    hooks.faults = faults;
    hooks.observer = seen.observer(micro);
    replay::Options options;
    options.trace = directory.path("t");
    const replay::Result result = replay::replay_with(options, hooks);
    int count = 0;
    for (const auto& event : micro.events) count += seen.approximated.at({event.scenario, event.rank, event.time}) != event.approximated;
    for (const auto& [scenario, total] : micro.totals)
        if (scenario == "all") count += result.accumulated_noise_ns != total;
    if (micro.bounds) count += result.bounds_low_ns != micro.bounds->first || result.bounds_high_ns != micro.bounds->second;
    for (const int64_t noise : micro.inside)
        count += result.measured_ns - result.bounds_high_ns > noise || result.measured_ns - result.bounds_low_ns < noise;
    if (micro.conditional) count += result.conditional != *micro.conditional;
    return count;
}

TEST_CASE("a rule that is broken is found by its trace") {
    const std::pair<std::string, replay::Faults> broken[] = {
        {"any_source_order", {.forget_arrivals = true}},
        {"waitany_order", {.keep_completion_order = true}},
        {"under_way_at_enter", {.messages_were_there = true}},
        {"polling_long", {.short_polls_alone = true}},
        {"polling_run", {.runs_are_polls = true}},
        {"plain_irecv_send_wait", {.forget_postings = true}},
        {"rma_fence", {.drop_dependency = true}},  // a fence waits for nobody
        {"rma_fence", {.wait_for_late = true}},    // one that ends nothing waits for those who came after it had ended
        {"files", {.drop_dependency = true}},
        {"rma_lock_open", {.trust_unrecorded = true}},  // nobody waited for the lock
        {"rma_lock", {.no_lock_grants = true}},
        {"rma_lock_lazy", {.no_lock_grants = true}},
        {"rma_lock_lazy", {.eager_locks = true}},
        {"rma_flush", {.transfers_are_work = true}},
        {"rma_wait", {.transfers_are_work = true}},
        {"rma_lock_shared", {.no_notices = true}},
        {"rma_lock_shared", {.no_lock_grants = true}},
        {"rma_lock_first", {.as_locked = true}},
        {"rma_lock_eager", {.order_of_unlocks = true}},
        {"rma_lock_tie", {.turns_by_clocks = true}},
        {"rma_lock_queue", {.only_excluded = true}},
        {"rma_lock_twice", {.only_excluded = true}},
        {"rma_lock_twice", {.later_requests_keep_time = true}},
        {"rma_lock_alone", {.turns_of_all = true}},
        {"rma_lock_holds", {.same_in_every_order = true}},
        {"rma_pscw", {.no_notices = true}},
        {"rma_wait_noise", {.noise_prolongs_waits = true}},
        {"shared_links", {.links_apart = true}},
        {"reduce_scatter_sizes", {.sizes_together = true}},
        {"scatterv_sizes", {.sizes_together = true}},
        {"gatherv_sizes", {.roots_exchange_equals = true}},
        {"gatherv_sizes", {.links_apart = true}},
        {"gather_links", {.links_apart = true}},
        {"fence_transfers", {.no_transfers = true}},
        {"set_up", {.set_ups_count = true}},
        {"set_up_hit", {.set_ups_stay = true}},
        {"gather_call", {.calls_cost_nothing = true}},
        {"unexplained", {.unexplained_is_certain = true}},
        {"alltoallv_sizes", {.exchange_of_equals = true}},
        {"rma_access", {.no_access_waits = true}},
        {"rma_access_short", {.no_access_waits = true}},
        {"rma_access", {.accesses_always_wait = true}},
        {"rma_access_behind", {.no_access_waits = true}},
        {"rma_access_both", {.accesses_as_measured = true}},
        {"rma_access_first", {.first_access_as_measured = true}},
        {"rma_access_guard", {.accesses_ask_at_once = true}},
        {"rma_incoming_over", {.completions_as_usual = true}},
        {"rma_received", {.received_at_once = true}},
        {"rma_close_order", {.close_order_known = true}},
        {"rma_incoming_noise", {.looks_without_noise = true}},
        {"rma_received", {.no_access_waits = true}},
        {"rma_incoming", {.no_access_waits = true}},
        {"rma_incoming", {.accesses_always_wait = true}},
        {"neighbours", {.no_notices = true}},
        {"neighbour_requests", {.no_notices = true}},
        {"file_requests", {.no_notices = true}},
        {"file_halves", {.no_notices = true}},
        {"finalize", {.wait_for_late = true}},
        {"partitioned_order", {.ordinary_parts = true}},
        {"parrived", {.trust_unrecorded = true}},
        {"delayed_bounds", {.swap_bounds = true}},
        {"posting_noise", {.posted_at_enter = true}},
        {"posting_noise_short", {.posted_at_enter = true}},
        {"rendezvous_noise", {.noise_hides_postings = true}},
        {"startall_noise", {.posting_waits = true}},
        {"icollective_under_way", {.collectives_were_done = true}},
        {"counters_in_waits", {.counters_in_tails = true}},
        {"counters_varying", {.all_excess_is_noise = true}},
        {"counters_in_barriers", {.counters_at_one_time = true}},
        {"counters_one_after_the_other", {.counters_at_one_time = true}},
        {"igather_root", {.root_awaits_itself = true}},
        {"flight_noise", {.flight_counts = true}},
        {"waited_for_all", {.each_message_alone = true}},
        {"allreduce_once", {.delays_nobody = true}},
        {"allreduce_waits", {.own_noise_whole = true}},
        {"clock_error", {.trust_clocks = true}},
        {"gatherv_held", {.senders_never_wait = true}},
        {"free_apart", {.freeing_waits = true}},
        {"farm", {.tasks_as_measured = true}},
        {"farm", {.keep_place = true}},
        {"farm_probing", {.tasks_as_measured = true}},
        {"farm_probing", {.keep_place = true}},
        {"farm_waitany", {.tasks_as_measured = true}},
        {"farm_picks", {.as_picked = true}},
        {"farm_picks_late", {.as_picked = true}},
        {"parallel_region", {.threads_apart = true}},
        {"parallel_region", {.own_start = true}},
        {"team_barrier", {.threads_apart = true}},
        {"dynamic_loop", {.iterations_stay = true}},
        {"created_thread", {.threads_apart = true}},
        {"created_thread", {.own_start = true}},
        {"critical", {.locks_apart = true}},
        {"critical_order", {.lock_order_kept = true}},
        {"mutex", {.locks_apart = true}},
        {"mutex_order", {.lock_order_kept = true}},
        {"mutex_at_once", {.locks_apart = true}},
        {"condition", {.signals_apart = true}},
        {"task_in_barrier", {.tasks_in_barrier = true}},
        {"task_in_barrier", {.iterations_stay = true}},
    };
    for (const auto& [name, faults] : broken) {
        CAPTURE(name);
        CHECK(mistakes(name, {}) == 0);
        CHECK(mistakes(name, faults) > 0);
    }
    CHECK_THROWS(mistakes("rma_access_quiet", {.first_access_unremoved = true}));  // the replay notices that by itself
}

TEST_CASE("each micro trace gives what was computed by hand") {
    size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(POLTER_MICRO_TRACES)) {
        const std::string path = entry.path().string();
        if (!path.ends_with(".txt")) continue;
        ++files;
        SUBCASE(entry.path().filename().c_str()) {
            CAPTURE(path);
            run(path, false);
            run(path, true);  // however the writer arranged its metric classes
        }
    }
    CHECK(files >= 20);
}
