// SPDX-License-Identifier: BSD-3-Clause
// What limits a result: one table with a row for each kind. Text, JSON, `conditional`, the explanations of `polter replay -v` and the list
// in docs/reading-the-result.md come from it; nothing about a kind stands elsewhere.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace polter::replay {

enum class Flaw : uint8_t {
    // Counted by the engine (Engine::count); reported in this order.
    truncated_location,
    unmatched_message,
    unmatched_receive,
    unmatched_collective,
    noise_beyond_interval,
    noise_carried,
    no_baseline,
    counter_decreased,
    unknown_communicator,
    unknown_request,
    call_not_left,
    collective_without_record,
    uncertain_order,
    postings_forgotten,
    any_source,
    completion_order,
    tasks_reassigned,
    polling,
    locked_out,
    thread_missing,
    work_shared,
    created_threads,
    lock_order,
    counted_,  // number of kinds above; the kinds below are found outside the engine
    clock_disorder = counted_,
    unrecorded_waits,
    unrecorded_locks,
    contention,
    // From the archive's properties.
    run_incomplete,
    no_exporter,
    exporter_reason,
    source_not_seen,
    source_not_net,
    ranks_without_files,
    clock_error,
    clock_error_large,
    clocks_unknown,
    recorder,
    threads_not_recorded,
    events_dropped,
    exporter_ended,
    // From what was read.
    oversubscription,
    metric_mode,
    region_ids,
    damaged_definitions,
    unreadable_events,
    not_in_model,
    no_metrics,
    no_noise,
    counters_only,
    ranks_not_measured,
    ranks_without_events,
    other_locations,
    mpi_threads,
    sampled_shares,
    sampled_locks,
    shared_links,
    // Requested besides the result: the written timeline, injected noise.
    work_order_kept,
    left_out_of_timeline,
    cut_from_timeline,
    injected_misses,
    injected_work_order,
    likely_algorithms,
    count_
};

// How much of the result it affects; warnings are shown in this order.
enum class Severity : uint8_t { severe, caution, note };

// Conditional: without the noise the program may have behaved differently (Result::conditional). Prediction: the same under injected noise.
enum class Effect : uint8_t { none, conditional, prediction };

struct FlawKind {
    Flaw flaw;
    Severity severity;
    Effect effect;
    const char* name;     // the heading under which the help page explains it
    const char* message;  // of the JSON; fmt, its arguments are those of warning()
    const char* brief;    // follows "name: " in the text, on one line; the same arguments
    const char* help;     // what it means for the result, and what to do
};

const FlawKind& kind_of(Flaw);
std::span<const FlawKind> flaw_kinds();  // in the order of the enumeration

// Of an open question: the time of the run that it concerns, and by how much its answer can change the run time at most.
struct Extent {
    int64_t concerned_ns = 0, change_ns = 0;
};

// One occurrence in a result.
struct Warning {
    Flaw flaw;
    std::string text, brief;
    std::optional<Extent> extent = {};  // none: not known, or the flaw leaves nothing open
    bool negligible = false;            // what it can change is too little to make a result conditional

    Effect effect() const { return negligible ? Effect::none : kind_of(flaw).effect; }
    Severity severity() const { return negligible ? Severity::note : kind_of(flaw).severity; }
};

// Says how much it concerns; negligible where that can change less than 0.1 % of the run time.
void limit(Warning&, const Extent&, int64_t run_time_ns);

template <class... Arguments>
Warning warning(Flaw flaw, const Arguments&... arguments) {
    const FlawKind& kind = kind_of(flaw);
    return {flaw, fmt::format(fmt::runtime(kind.message), arguments...), fmt::format(fmt::runtime(kind.brief), arguments...)};
}

// Whether one of them has that effect.
bool any_with(Effect, const std::vector<Warning>&);

}  // namespace polter::replay
