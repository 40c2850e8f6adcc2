// SPDX-License-Identifier: BSD-3-Clause
#include "flaws.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "layout.hpp"

namespace polter::replay {

namespace {

using enum Severity;
constexpr Effect none = Effect::none, conditional = Effect::conditional, prediction = Effect::prediction;

// Where nothing else is said: {0}: how many, {1}: nanoseconds, {2}: the same with its unit.
constexpr FlawKind kinds[] = {
    {Flaw::truncated_location, severe, conditional, "Truncated locations",
     "conditional: {0} locations break off (the file ends early, or its times repeat): read up to there", "{0}, read up to where they end",
     "The events of these threads end early, or the file repeats earlier times: the run was killed, or a disk was full. What came later is "
     "not in the result. Repeat the run."},
    {Flaw::unmatched_message, note, none, "Messages without a receive", "{0} messages were never received in the trace",
     "{0}, they delay nobody in the replay",
     "A program may end with messages that nobody receives. Where there are many, events of their receivers are missing, and delay that "
     "these messages passed on is not in the result."},
    {Flaw::unmatched_receive, severe, conditional, "Receives without a send",
     "conditional: {0} receives or probes have no send in the trace: taken as not waiting", "{0}, taken as not waiting",
     "The sends are missing from the trace, so the replay cannot tell whether these calls waited. Delay that they passed on is not in the "
     "result. Record all ranks, to their end."},
    {Flaw::unmatched_collective, severe, conditional, "Incomplete collectives",
     "conditional: {0} collective calls lack members in the trace: the replay waits for those that are there",
     "{0} call(s) lack members; wait for the others only",
     "Events of some members are missing. The replay lets the call wait only for the members that the trace has. Record all ranks, to "
     "their end."},
    {Flaw::noise_beyond_interval, caution, none, "Noise longer than its interval",
     "{0} noise records are longer than the time they lie in: {1} ns dropped (they stay in the local noise)",
     "{2} dropped from {0} record(s)",
     "More noise was recorded than there was time since the last record: two sources overlap, or their clock is coarse. The replay removes "
     "at most the time that passed; the stolen time still contains all of it."},
    {Flaw::noise_carried, note, none, "Steal found late",
     "{0} times the timer tick reported more steal than fits before it: {1} ns were moved to where earlier events leave time for them; the "
     "bounds allow for it",
     "{2} in {0} case(s) moved back to where it fits",
     "The kernel reports steal at timer ticks only. What does not fit between the last event and the tick is moved back, to where earlier "
     "events leave time for it. The bounds allow for it."},
    {Flaw::no_baseline, note, none, "Counters without a baseline",
     "{0} noise counters have no baseline at their location's first event: their first record was taken as one",
     "{0}, their first record was taken as one",
     "A counter began after the first event of its thread. Noise before its first record is not in the result."},
    {Flaw::counter_decreased, caution, none, "Counters that go backward",
     "{0} noise records decrease or are impossibly large: they were skipped", "{0} record(s) skipped",
     "A noise counter decreased or is impossibly large. These records were skipped; their noise is not in the result. The trace may be "
     "damaged."},
    {Flaw::unknown_communicator, caution, none, "Unknown communicators",
     "{0} records name a communicator that is not defined, or that their rank is not in", "{0} record(s) skipped",
     "These records were skipped, and so is any delay that they passed on. The trace may be damaged, or its recorder does not define all "
     "communicators."},
    {Flaw::unknown_request, note, none, "Requests without a beginning",
     "{0} completions name a request whose start is not in the trace: taken as started there", "{0}, taken as started where they complete",
     "The trace has the completion of a request, but not its start. The replay starts it at its completion, so a receive counts as posted "
     "only then."},
    {Flaw::call_not_left, note, none, "Unfinished MPI calls", "{0} MPI calls have no end in the trace",
     "{0}, their end is not in the trace",
     "The trace ends inside these calls. After an abort or a kill that is to be expected; what happened in them is not in the result."},
    {Flaw::collective_without_record, severe, conditional, "Collectives without a record",
     "conditional: {0} collective calls have no record of what they were: taken as waiting for nobody", "{0}, taken as waiting for nobody",
     "The trace has the call but not its communicator, so the replay cannot tell for whom it waited. Delay that these calls passed on is "
     "not in the result."},
    {Flaw::uncertain_order, severe, conditional, "Ambiguous matches", "conditional: the trace allows more than one match in {0} places",
     "{0}, more than one match is possible",
     "The trace does not tell which message a receive took, or in which order collectives were called. The replay assumes one of the "
     "possible matches."},
    {Flaw::postings_forgotten, severe, conditional, "Forgotten postings",
     "conditional: {0} non-blocking receives do not say what they were posted for, beyond those that the replay keeps in memory",
     "{0}, their senders are taken not to wait for them",
     "The trace tells only at the completion of these receives which message they took, and there are more of them than the replay keeps "
     "in memory. Sends that waited for one of them count as eager. The trace of a recorder that writes the source, tag and communicator "
     "of each posting does not need the memory."},
    {Flaw::any_source, severe, conditional, "Wildcard receives",
     "conditional: {0} wildcard receives took the first message that came: without noise another may have come first",
     "{0}, without noise another message may come first",
     "Receives from MPI_ANY_SOURCE or MPI_ANY_TAG take the first message that arrives. The replay keeps the measured order; without noise "
     "the program may receive in another order and do other work. Trust the result as far as the order does not matter to the program."},
    {Flaw::completion_order, severe, conditional, "Order of completion",
     "conditional: {0} Waitany or Waitsome calls would have found other messages first without noise",
     "{0}, other messages come first without noise",
     "MPI_Waitany, MPI_Waitsome and their Test forms complete whichever request is ready first. Without noise another message comes first "
     "here. The replay keeps the measured order; the lower bound of the run time includes that the program worked on the other message "
     "while it waited. Trust the result as far as the order does not matter to the program."},
    {Flaw::tasks_reassigned, note, none, "Requests for work",
     "{0} of the wildcard receives are requests for work: tasks are reassigned first come, first served in each scenario, and take as long "
     "as they did",
     "{0} receives; tasks are given first come, first served",
     "A manager assigns tasks as workers ask. In each scenario the replay reassigns the tasks first come, first served; each task takes as "
     "long as it did in the measured run."},
    {Flaw::polling, severe, conditional, "Polling loops",
     "conditional: {0} polling loops (Test, Iprobe): without noise the number of polls may change",
     "{0}, without noise they may poll fewer times",
     "The program calls MPI_Test or MPI_Iprobe until something has come. Without noise it may poll fewer times, and what it does between "
     "two polls may change."},
    {Flaw::locked_out, severe, conditional, "Contended locks",
     "conditional: {0} locks were waited for: without noise another rank may get them first",
     "{0}, without noise another rank may get them first",
     "Ranks waited for locks of one-sided communication. The replay determines the lock grant order of each scenario anew; the program may "
     "behave otherwise with another order."},
    {Flaw::thread_missing, severe, conditional, "Threads without records",
     "conditional: {0} times a thread waited for another thread of its process that has no record of it",
     "{0} waits for threads without records",
     "A parallel region or a barrier has fewer threads in the trace than belong to it. What they did there, and who waited for them, is "
     "not in the result."},
    {Flaw::work_shared, severe, conditional, "Shared work",
     "conditional: behind {0} dynamic loops threads would have shared the work otherwise without noise",
     "{0}, shared otherwise without noise",
     "Threads take the iterations of loops with a dynamic or guided schedule piece by piece. What noise took from one thread, all of the "
     "team have done. The replay lets such a loop end earlier by the mean of its threads' delays; the bounds reach from perfectly shared "
     "work to the measured distribution."},
    {Flaw::created_threads, severe, conditional, "Threads of the program",
     "conditional: {0} threads that the program started and joined had noise; not all of how they waited for each other is in the trace",
     "{0}, not all waits between them known",
     "The program starts threads itself (pthread_create). The replay follows their start and their join, and between them their waits for "
     "mutexes and conditions. Otherwise their noise counts as if they waited for nobody; the upper bound of the run time allows for "
     "threads that waited long enough to absorb it."},
    {Flaw::lock_order, severe, conditional, "Order of locks",
     "conditional: threads would have asked for a lock in another order without noise, {0} times",
     "{0} times another thread would have asked first",
     "Threads of a process get a critical section, a lock or a mutex in the order in which they ask for it. The replay keeps the measured "
     "order; the lower bound of the run time allows for a thread that gets the lock at once. Of a mutex that was free the trace does not "
     "say when it was taken, so whoever waits for that thread may have been earlier."},
    {Flaw::clock_disorder, caution, none, "Clock disorder",
     "messages end up to {0} ns before they begin: the clocks of the trace disagree by at least that",
     "clocks disagree by {1} or more, messages end before they begin",
     "The clocks of two hosts differ by at least this much after correction. Waiting times between these hosts are uncertain by it."},
    {Flaw::unrecorded_waits, severe, conditional, "Unrecorded waits",
     "conditional: {0} calls ({1:.3f} ms: {2}) may wait for ranks that the trace does not name: taken as own work",
     "{0} call(s), {3}, taken as own work: {2}",
     "These calls may wait for other ranks, and the trace has no record of whom. Delay that they passed on counts as the rank's own work; "
     "the bounds include both extremes."},
    {Flaw::unrecorded_locks, severe, conditional, "Unrecorded unlocks",
     "conditional: {0} calls ({1:.3f} ms: {2}) may have waited until another rank unlocked: taken as own work",
     "{0} call(s), {3}, taken as own work: {2}",
     "These calls may have waited until another rank released a lock, which the trace does not show. They count as the rank's own work; "
     "the bounds include both extremes."},
    {Flaw::contention, severe, conditional, "Varying message times",
     "conditional: transfer times of one message size, or of one collective, vary even without noise; without it, contention may differ",
     "even without noise (contention); bounds are widened",
     "Messages of the same size took very different times without noise, as they do when they compete for memory or the network, or no "
     "algorithm that is known explains when the members of a collective left it. Without "
     "the noise the program may meet different contention, which no trace shows. The bounds are widened. Compare several runs, or use "
     "fewer ranks than CPUs."},
    {Flaw::run_incomplete, severe, none, "Incomplete run", "the run did not end properly{0}", "the run did not end properly{0}",
     "Ranks were killed or aborted before MPI_Finalize. The result covers what they wrote until then."},
    {Flaw::no_exporter, severe, none, "No exporter", "recorded without an exporter: the operating system's noise was not measured",
     "noise was not measured",
     "Without an exporter the trace has MPI calls only. Noise is unknown, not zero. `polter doctor` names the exporters that work here."},
    {Flaw::exporter_reason, note, none, "Choice of the exporter", "exporter {0}: {1}", "{0}: {1}",
     "Why this exporter measured the run and not a better one. `polter doctor` tells what would enable the others."},
    {Flaw::source_not_seen, note, none, "Sources not measured", "not seen by the exporter {0}: {1}", "{1} (by {0})",
     "This exporter cannot see these sources. What they stole is unknown and part of the run without noise; README.md tells what each "
     "exporter sees."},
    {Flaw::source_not_net, caution, none, "Nested noise", "not net of what is nested in it, so possibly counted twice: {0}",
     "{0} may be counted twice",
     "Times of these sources contain interruptions that another source counts as well. Their sum may be too large by that."},
    {Flaw::ranks_without_files, severe, none, "Ranks without files", "ranks {0} wrote no event", "{0} wrote no event",
     "These ranks ended before they wrote any event. They are not in the result."},
    {Flaw::clock_error, note, none, "Clock error", "the hosts' clocks agree to within {0} ns", "the hosts' clocks agree to within {0} ns",
     "The clocks of the hosts were compared during the run and corrected to within this error. Waits between hosts that are shorter are "
     "uncertain; the bounds include it."},
    {Flaw::clock_error_large, severe, conditional, "Clock error above the latency",
     "conditional: the hosts' clocks agree to within {0} ns only, and a message between hosts takes {1} ns",
     "agree to within {2} only, a message between hosts takes {3}",
     "Which of two hosts waited for the other is uncertain where they differ by less than the clock error. The bounds are widened by twice "
     "that error. Hosts that exchange messages all through the run, in both directions, have a smaller error."},
    {Flaw::clocks_unknown, severe, conditional, "Clocks not compared",
     "conditional: the hosts' clocks were not compared, so times between hosts are meaningless", "times between hosts are meaningless",
     "The trace does not show how the clocks of its hosts differ, and no bounds include that. The clocks are compared where the ranks of "
     "all "
     "hosts are traced into one directory, or where they exchange messages in both directions."},
    {Flaw::recorder, caution, none, "Reported by the tracer", "{0}", "{0}",
     "The tracer met this during the run. Unless it says otherwise, the rest of the trace is not affected."},
    {Flaw::threads_not_recorded, severe, conditional, "Waits of threads without records",
     "conditional: the program has {0}, which the tracer does not record: where threads wait for each other there, noise is not passed on",
     "the trace lacks {0}",
     "The tracer does not record this part of what threads do. Threads of regions within regions have no noise in the trace. At ordered "
     "sections, and for the event of a detached task, threads wait for each other: the replay takes that time as the thread's own, so "
     "noise of one of them delays no other there, and noise that made such a wait longer is not in the result. Of mutexes and condition "
     "variables the trace has the waits. A thread that found a mutex free, or a condition fulfilled, may have to wait without the noise "
     "that delayed it; the replay lets it go on at once. The bounds do not include that."},
    {Flaw::events_dropped, caution, none, "Noise events lost",
     "{0} noise events ({1} ns) were lost to a full ring: their counters are right, their places in time are not",
     "{0} ({1} ns); counted, but their places in time are lost",
     "There were more noise events between two MPI calls than the shared page holds. The sums are right; the lost events are placed "
     "between the two calls, and their processes are unknown."},
    {Flaw::exporter_ended, severe, none, "Exporter ended early", "the exporter ended before the program did: later noise is missing",
     "later noise is missing", "The exporter was stopped during the run. Noise after that is not in the result. Repeat the run."},
    {Flaw::oversubscription, caution, none, "Oversubscription",
     "the job's own threads took {0:.3f} ms of each rank's CPU on average ({1:.1f} % of the run): there are more of them than CPUs. That "
     "is the service preempt_job, not noise; --remove os-service:preempt_job shows what it costs",
     "the job's threads took {2} of each rank's CPU ({1:.1f} %)",
     "The job has more running threads than CPUs, and they preempt each other. That is the service preempt_job, not noise of the system. "
     "--remove os-service:preempt_job shows its cost. Use fewer ranks or threads, or pin them."},
    {Flaw::metric_mode, caution, none, "Unusable metrics", "metric {0} is neither accumulated nor relative: not used", "{0} was not used",
     "The metric has the name of a noise source, but gives absolute values that cannot be attributed to an interval. Its noise is not in "
     "the result."},
    {Flaw::region_ids, caution, none, "Region numbers out of range", "{0} regions have ids above {1}: taken as outside MPI",
     "{0} above {1}, taken as outside MPI",
     "The trace uses region ids above the supported range. MPI calls among them count as computation."},
    {Flaw::damaged_definitions, severe, none, "Damaged definitions",
     "the local definitions of {0} locations are damaged ({1}): their ids and times may be wrong",
     "of {0} locations; ids and times may be wrong",
     "The ids and clock corrections of these threads could not be read. Copy the trace again, or repeat the run."},
    {Flaw::unreadable_events, severe, none, "Unreadable event files", "{0} event files cannot be read, the first of {1}: read as empty",
     "{0}, read as empty", "The events of these threads are missing. Copy the trace again, or repeat the run."},
    {Flaw::not_in_model, note, none, "Not in the model",
     "{0} kinds of communication in the trace, seen {1} times, are not in the model {2}: their costs are those of this trace",
     "{0} kinds of communication; costs are from this trace",
     "The file of --use-model has no costs for these operations or sizes. The replay uses those of this trace."},
    {Flaw::no_metrics, severe, none, "No noise metrics", "the trace has no noise metrics (os:…): the noise was not measured",
     "noise was not measured",
     "The trace was recorded by another tool, or without an exporter. Noise is unknown, not zero. --inject predicts such a run under noise "
     "that you describe; `polter run` records a new one."},
    {Flaw::no_noise, note, none, "No noise", "no noise was recorded: its counters never moved", "no counter moved during the run",
     "The trace has noise counters, and none of them moved between the first and the last event."},
    {Flaw::counters_only, caution, none, "Counters at MPI calls only",
     "the trace has noise counters at MPI events only: the effect of noise inside a call is estimated from how much longer than usual its "
     "completion overhead was",
     "noise inside calls is estimated",
     "The exporter gives sums, not events. What noise inside an MPI call cost is estimated from how much longer than usual the call's own "
     "work took. Exporters with events (bpf, module, perf) need no estimate."},
    {Flaw::ranks_not_measured, severe, conditional, "Ranks not measured",
     "conditional: {0} of {1} ranks were not measured ({2}): their noise is unknown, so without noise the run may be shorter than the "
     "bounds say",
     "{0} of {1} ({2}), their noise is unknown",
     "No exporter served these ranks. Means are over the measured ranks; without noise the run may be shorter than the bounds say. `polter "
     "doctor` on those hosts tells why."},
    {Flaw::ranks_without_events, severe, conditional, "Ranks without events", "conditional: {0} of {1} ranks have no events in the trace",
     "{0} of {1}",
     "These ranks are defined, and the trace has no event of them. What they waited for, and who waited for them, is not in the result."},
    {Flaw::other_locations, note, none, "Other locations", "{0} locations besides the ranks' MPI threads are not replayed",
     "{0} besides the ranks' MPI threads, not replayed",
     "Further threads, accelerators and metric sources are in the trace. The replay follows the thread of each rank that calls MPI."},
    {Flaw::mpi_threads, severe, conditional, "Several MPI threads",
     "conditional: {0} further threads call MPI; how threads of a process wait for each other is not in the trace",
     "{0} more; waits between threads are not in the trace",
     "Several threads of a rank call MPI. Each is replayed, but how they wait for each other (locks, barriers of OpenMP) is unknown."},
    {Flaw::sampled_shares, note, none, "Sampled shares",
     "more than {0} sources have noise: the shares are sampled, standard error at most {1:.0f} ns",
     "exact only up to {0} sources; error {2}",
     "An exact (Shapley) share needs all combinations of sources. With this many, combinations are sampled; the error is given. Total, "
     "\"alone\" and \"without\" are exact."},
    {Flaw::sampled_locks, note, none, "Approximate shares with locks",
     "the lock grant order was determined in {0} of the {1} scenarios that make up the shares: these are approximate, \"alone\" and "
     "\"without\" are not",
     "lock order known in {0} of {1} scenarios",
     "The lock grant order was determined for the most important scenarios only. Shares are approximate; \"alone\" and \"without\" are "
     "not."},
    {Flaw::shared_links, note, none, "Shared links",
     "{0} messages between hosts took longer for others that shared their hosts' links: each scenario shares these anew",
     "{0} message(s) shared anew in each scenario",
     "Messages that leave a host, or come to it, at the same time share its link. Without the noise other messages meet there, which the "
     "replay computes from when they begin."},
    {Flaw::work_order_kept, note, none, "Task order in the written timeline",
     "the written timeline keeps the measured order in which work was assigned; the figures here do not",
     "it keeps the measured order of tasks",
     "The figures reassign tasks in each scenario. The written timeline keeps them where they were, because each rank has one timeline."},
    {Flaw::left_out_of_timeline, note, none, "Not in the written timeline", "{0} {1}", "{0} {1}",
     "The approximated timeline has everything else of the trace."},
    {Flaw::cut_from_timeline, note, none, "Noise without a place",
     "{0} noise records hit a wait that is now shorter: {1} ns of them are not in the approximated timeline",
     "{2} of {0} record(s) are not in the written timeline",
     "This noise hit a wait that is shorter in the approximated timeline, so there is no place for it there."},
    {Flaw::injected_misses, caution, none, "Injected noise misses the run", "injected source {0}: {1}", "{0}: {1}",
     "Check the times in the file of --inject: \"time_ns\" counts from the trace's first event."},
    {Flaw::injected_work_order, note, none, "Task order under injected noise",
     "injected noise keeps the measured order in which work is assigned (MPI_ANY_SOURCE): a rank that it hits gets no fewer tasks",
     "the measured order of tasks is kept",
     "A rank that injected noise hits keeps all its tasks, although a manager may give it fewer. The prediction is therefore pessimistic."},
    {Flaw::likely_algorithms, severe, prediction, "Uncertain collective algorithms",
     "conditional: the trace does not determine the algorithm of these collectives: {0}; injected noise takes the likeliest, and the "
     "bounds include that it delays only its own rank",
     "{0}",
     "This trace does not determine by which algorithm these collectives work. Injected noise takes the likeliest one; the bounds include "
     "the case that it delays only its own rank."},
};

static_assert(std::size(kinds) == static_cast<size_t>(Flaw::count_));
constexpr bool in_order() {
    for (size_t i = 0; i < std::size(kinds); ++i)
        if (static_cast<size_t>(kinds[i].flaw) != i) return false;
    return true;
}
static_assert(in_order());

}  // namespace

const FlawKind& kind_of(Flaw flaw) {
    return kinds[static_cast<size_t>(flaw)];
}

std::span<const FlawKind> flaw_kinds() {
    return kinds;
}

bool any_with(Effect effect, const std::vector<Warning>& warnings) {
    return std::any_of(warnings.begin(), warnings.end(), [&](const Warning& warning) { return warning.effect() == effect; });
}

void limit(Warning& warning, const Extent& extent, int64_t run_time_ns) {
    constexpr int64_t thousandth = 1000;
    const std::string_view prefix = "conditional: ";
    warning.extent = extent;
    warning.negligible = extent.change_ns * thousandth < run_time_ns;
    if (warning.negligible && warning.text.starts_with(prefix)) warning.text.erase(0, prefix.size());
    warning.text += fmt::format("; this concerns {:.3f} ms of the run and can change its length by at most {:.3f} ms",
                                static_cast<double>(extent.concerned_ns) / 1e6, static_cast<double>(extent.change_ns) / 1e6);
    warning.brief += fmt::format("; at most {}", short_time(extent.change_ns));
}

}  // namespace polter::replay
