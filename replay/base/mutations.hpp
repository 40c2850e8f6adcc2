// SPDX-License-Identifier: BSD-3-Clause
// Mutations, one for each invariant. The tests switch them on to show that they would detect the error; nothing else uses them.
#pragma once

namespace polter::replay {

struct Faults {
    bool residual_of_binding = false;  // identity: the critical predecessor gets a residual
    bool unclamped_residual = false;   // identity: the model's costs are not clamped to the measured times
    bool drop_dependency = false;      // causality: calls do not wait for others
    bool negative_removal = false;     // monotonicity: where much noise is removed, noise in the completion overhead is added back
    bool trust_clocks = false;         // bounds: the error of the hosts' clocks is not included
    bool swap_bounds = false;          // bounds: costs of the low and the high lane exchanged
    bool round_shares = false;         // additivity: shares rounded one by one
    bool no_window = false;            // memory: a thread that never waits is read to its end at once
    bool first_sample = false;         // determinism: the model takes the first sample only
    bool wrong_end = false;            // approximated archive: each Enter and Leave has the delay of the one before
    bool ago_as_measured = false;      // approximated archive: noise recorded late keeps its measured distance from its record
    bool noise_stays_behind = false;   // approximated archive: noise that stays keeps its measured distance from what was before it
    bool keep_absorbed = false;  // approximated archive: noise that hit in a wait state stays even where the wait state has become shorter
    bool forget_cancelled = false;  // determinism: a cancelled receive stays in its queue until its cancellation is read
    bool forget_postings = false;   // accuracy: what a receive was posted for is known only where its posting says so
    bool no_notices = false;        // causality: no call waits for a notice, nor the second half of a collective of files for its members
    bool no_lock_grants = false;    // causality: the previous holders of a lock are unknown
    bool as_locked = false;         // accuracy: every scenario grants locks in the measured order
    bool turns_by_clocks = false;   // identity: lock requests are ordered by their recorded times, whoever had the lock first
    bool order_of_unlocks = false;  // causality: the lock grant order is always taken from the ends of the unlocks
    bool only_excluded = false;     // accuracy: an epoch that found its lock free gets no queue, so it cannot wait in another scenario
    bool later_requests_keep_time = false;  // accuracy: a lock request that others pass keeps its measured time
    bool turns_of_all = false;              // accuracy: the lock grant order is simulated in the scenario "all" only
    bool same_in_every_order = false;       // bounds: the length of an epoch does not depend on who held the lock before
    bool transfers_are_work = false;        // accuracy: all noise in a flush or an unlock counts, even while it waited for transfers
    bool eager_locks = false;               // causality: only the lock call itself waits for the lock, never a later call of its epoch
    bool usual_calls_tell = false;          // accuracy: how long messages are under way is looked for in what calls usually take, alone
    bool few_tell_nothing = false;          // accuracy: a protocol shows only where most calls tell it
    bool awaited_tell_alone = false;        // accuracy: one message that was awaited tells more than many that were under way
    bool usual_step_is_cost = false;        // accuracy: of a coarse clock's steps, the one that most calls took is what they cost
    bool sizes_tell_nothing = false;        // accuracy: what noise leaves open of a size is not looked for beside it
    bool links_apart = false;               // accuracy: each message has its hosts' links for itself
    bool links_only_shown = false;          // accuracy: messages that leave times do not show to share links have these for themselves
    bool exchange_of_equals = false;        // accuracy: in an Alltoallv all members send and get equally much
    bool calls_cost_nothing = false;        // accuracy: of a gather or reduction all that sending takes is the message's
    bool no_transfers = false;              // accuracy: a fence does not wait for what it completes
    bool fences_apart = false;              // accuracy: with counters, nothing is known of a fence but what fences take
    bool set_ups_stay = false;              // accuracy: what setting up takes is not followed by its messages
    bool counted_where_read = false;        // accuracy: a counter's noise in a collective hit just before the counter was read
    bool unexplained_is_certain = false;    // honesty: what no algorithm explains of collectives is not said to be uncertain
    bool hit_calls_as_fitted = false;       // accuracy: calls that were all hit are not compared with costs known from elsewhere
    bool first_barrier = false;             // accuracy: of barriers that fences may be made as, the first one is taken
    bool absorbed_noise_counts = false;     // accuracy: noise in all calls of a class is taken to have added to them
    bool set_ups_in_long_messages = false;  // accuracy: messages of a collective may take however long
    bool set_ups_count = false;             // accuracy: a first call that sets up counts among those that an algorithm must explain
    bool sizes_together = false;            // accuracy: where sizes differ between members one algorithm serves all of them
    bool no_access_waits = false;           // accuracy: a put never waits for what its target does meanwhile
    bool accesses_always_wait = false;      // accuracy: … or does so in every scenario
    bool hard_start = false;                // the dependency of a start on its post is not soft
    bool wait_for_late = false;             // a member that may leave before others arrive waits for them all the same
    bool trust_unrecorded = false;          // bounds: calls without a record are taken not to wait
    bool cells_alone = false;               // attribution: each cell of the table is rounded separately
    bool measured_slack = false;            // costs: slack is computed on the measured timeline
    bool dropped_edge = false;              // costs: further events that depend on an event are ignored
    bool keep_losses = false;               // origins: noise absorbed on the critical path still counts
    bool windows_apart = false;      // origins: each window of the table is paid by the earliest noise, regardless of the windows before it
    bool no_absorption = false;      // injected noise: costs the same in a wait state as in computation
    bool merge_first_alone = false;  // determinism: several processes keep only what the first of them learned
    bool mirrors_without_noise = false;  // determinism: injected noise hits the steps of a collective on the process's own ranks only
    bool mirrors_nowhere = false;        // attribution: members of a collective in other processes have no place in the event graph
    bool local_numbers = false;          // attribution: node numbers do not increase along edges between processes
    bool posted_at_wait = false;         // attribution: a receive whose channel is known at its Wait is posted there in the event graph
    bool keep_posting = false;           // determinism: senders do not learn of postings in other processes
    bool tasks_as_measured = false;      // accuracy: every scenario assigns tasks as measured
    bool as_asked = false;  // identity: workers are served in the order of their requests, even where the master took them in another order
    bool as_picked = false;              // accuracy: the request that a Waitany took counts as the earliest, though it found others as well
    bool keep_place = false;             // accuracy: of two workers that change places, one stays
    bool ordinary_parts = false;         // causality: partitioned messages match as ordinary ones
    bool noise_of_one = false;           // accuracy: of noise in a collective known by counters only, one member's counts
    bool collectives_were_done = false;  // accuracy: a Wait for a non-blocking collective to which all had come found it done
    bool counters_in_tails = false;      // accuracy: the noise of counters hit after the wait, in every call
    bool all_excess_is_noise = false;    // accuracy: with counters, all that calls take longer than usual is noise
    bool counters_at_one_time = false;   // bounds: the noise of counters hits in all members at once, at the end of their calls
    bool order_of_coming = false;  // accuracy: noise of several members that begins at one time is taken in the order in which they came
    bool messages_were_there = false;    // accuracy: calls that began behind the sends found their messages there
    bool each_message_alone = false;     // accuracy: what a call costs is told by calls for messages of the same size only
    bool extrapolate = false;            // accuracy: what other sizes cost is believed before the other side of the same transfers
    bool shortest_did_not_wait = false;  // accuracy: the shortest call of its kind found its messages there
    bool root_awaits_itself = false;     // accuracy: the root of a non-blocking gather waits for a message from itself, too
    bool posting_waits = false;          // accuracy: a call that posts and sends several messages waits after the first one
    bool accesses_as_measured = false;   // accuracy: of accesses that wait for each other's targets the first in measured time comes first
    bool accesses_ask_at_once =
        false;  // accuracy: … and of each access and its target's call the one that begins first, whatever they do first
    bool close_order_known = false;    // bounds: of an access and a completion that are close, the order is known
    bool looks_without_noise = false;  // accuracy: noise in a completion does not delay its looking for transfers
    bool received_at_once = false;     // accuracy: transfers and notices cost the call that receives them nothing
    bool completions_as_usual =
        false;  // accuracy: what a completion that waits for transfers does itself takes as long as they usually take
    bool first_access_as_measured = false;  // accuracy: … and one that comes first in a scenario takes as long as it was measured to
    bool first_access_unremoved = false;    // identity: … and is let pass also where nothing is removed
    bool noise_prolongs_waits = false;   // accuracy: of a wait for a notice or a root all noise in it counts, none hides in it
    bool noise_hides_postings = false;   // accuracy: noise anywhere in a call hides which posting it waited for
    bool posted_at_enter = false;        // accuracy: noise at the beginning of a call that posts a receive does not delay the posting
    bool flight_counts = false;          // bounds: in the lower bound noise counts while a message is certainly under way
    bool own_noise_whole = false;        // accuracy: a member's own noise prolonged its collective, however long that usually takes
    bool roots_exchange_equals = false;  // accuracy: in v-forms with a root all parts are equally long
    bool delays_nobody = false;          // accuracy: of a collective's end, noise inside it is taken for what it usually takes
    bool senders_never_wait = false;     // accuracy: members of a rooted collective that only send wait for nobody, however long they took
    bool freeing_waits = false;          // accuracy: freeing a communicator waits for the others even where it was seen not to
    bool no_structure = false;           // accuracy: collectives are replayed as barriers
    bool forget_arrivals = false;        // conditional: a wildcard receive is not compared with those before it
    bool keep_completion_order = false;  // conditional: a Waitany is taken to complete the same request in every scenario
    bool threads_apart = false;          // causality: threads of a process do not wait for each other
    bool locks_apart = false;            // causality: threads do not wait for each other's locks
    bool signals_apart = false;          // causality: threads do not wait for each other's signals
    bool lock_order_kept = false;        // conditional: a lock is taken to be asked for in the same order in every scenario
    bool tasks_in_barrier = false;       // accuracy: a thread that executes a task in a barrier has come to that before
    bool iterations_stay = false;        // accuracy: each thread does the iterations of a dynamic loop that it was measured to do
    bool own_start = false;              // accuracy: a thread begins its first region when it was measured to
    bool runs_are_polls = false;         // bounds: failing polls in a row that were recorded as one call are taken for one poll
    bool lose_at_limit = false;          // determinism: of a location that is not kept whole, the first record behind what is kept is lost
    bool lost_is_whole = false;          // robustness: what a process that died had decoded of a location is taken for all of it
    bool short_polls_alone = false;      // bounds: work between two polls ends the polling loop in each view
};

}  // namespace polter::replay
