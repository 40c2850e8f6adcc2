// SPDX-License-Identifier: BSD-3-Clause
// Mutations, one for each invariant. The tests switch them on to show that they would catch them; nothing else does.
#pragma once

namespace polter::replay {

struct Faults {
    bool residual_of_binding = false;       // identity: the critical predecessor gets a residual
    bool unclamped_residual = false;        // identity: what the model says is not clamped to what was measured
    bool drop_dependency = false;           // causality: whoever waited no longer does
    bool negative_removal = false;          // monotonicity: noise in a tail is added back where much is removed
    bool swap_bounds = false;               // bounds: costs of the low and the high lane exchanged
    bool round_shares = false;              // additivity: shares rounded one by one
    bool no_window = false;                 // memory: whoever never waits is read to the end at once
    bool first_sample = false;              // determinism: the model believes whoever came first
    bool wrong_end = false;                 // approximated archive: each Enter and Leave has the delay of the one before
    bool ago_as_measured = false;           // approximated archive: noise recorded late is as long ago as it was
    bool noise_stays_behind = false;        // approximated archive: noise that stays is as long after what was before it as it was
    bool keep_absorbed = false;             // approximated archive: noise that hit while a call waited stays where nothing is waited for
    bool forget_cancelled = false;          // determinism: a cancelled receive holds its place until its cancellation is read
    bool no_notices = false;                // causality: who waits for a notice, or completes a collective of files begun before, does not
    bool no_lock_grants = false;            // causality: who held a lock before is not known
    bool as_locked = false;                 // accuracy: who had a lock first in the measured run has it first in every scenario
    bool turns_by_clocks = false;           // identity: of two that asked for a lock at once any may have it first
    bool order_of_unlocks = false;          // causality: locks went from one to the next as their unlocks ended, whatever the locks show
    bool only_excluded = false;             // accuracy: who found a lock free hears of nobody who may want it in another scenario
    bool later_requests_keep_time = false;  // accuracy: a lock request that others pass keeps its measured time
    bool turns_of_all = false;              // accuracy: who has a lock first is found in the scenario "all" alone
    bool same_in_every_order = false;       // bounds: what an epoch does takes as long as it did, whoever has the lock before it
    bool transfers_are_work = false;        // accuracy: noise in a flush or an unlock counts whole, though it waited for transfers
    bool eager_locks = false;               // causality: what follows a lock does not wait in its place
    bool hard_start = false;                // a start insists on its post
    bool wait_for_late = false;             // whoever may leave before others have come is taken to have waited for them
    bool trust_unrecorded = false;          // bounds: what the trace does not tell did not happen
    bool cells_alone = false;               // attribution: each cell of the table is rounded on its own
    bool measured_slack = false;            // costs: slack is how much later an event could be in the measured run
    bool dropped_edge = false;              // costs: what else waits for an event does not count
    bool keep_losses = false;               // origins: what was absorbed on the critical path still counts
    bool windows_apart = false;             // origins: each window of the table is paid by what hit first, whatever paid the ones before it
    bool no_absorption = false;             // injected noise: it costs as much while a call waits
    bool merge_first_alone = false;         // determinism: several processes keep what the first of them learned
    bool mirrors_without_noise = false;     // determinism: injected noise hits the steps of a collective only on the process's own ranks
    bool mirrors_nowhere = false;           // attribution: who comes to a collective in another process has no place in the event graph
    bool local_numbers = false;             // attribution: the event graph's numbers do not rise along edges between processes
    bool posted_at_wait = false;     // attribution: a receive of which its Wait tells whose it is has its place in the event graph there
    bool keep_posting = false;       // determinism: a sender is not told of a posting in another process
    bool tasks_as_measured = false;  // accuracy: who was handed work in the measured run is handed it in every scenario
    bool as_asked = false;           // identity: the first to ask is served first, whom the master took first or not
    bool as_picked = false;          // accuracy: whom a wait for any took first asked first, though it found others as well
    bool keep_place = false;         // accuracy: of two workers that are exchanged one stays where it is
    bool ordinary_parts = false;     // causality: partitioned messages match as others do
    bool noise_of_one = false;       // accuracy: of counted noise inside a collective that of one member alone counts
    bool no_structure = false;       // accuracy: collectives are barriers
};

}  // namespace polter::replay
