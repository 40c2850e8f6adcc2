// SPDX-License-Identifier: BSD-3-Clause
// The engine: one pass over the event files, either learning (no lanes) or replaying. It owns the queues and the clocks; what a
// call waits for and what that costs is told by the rules.
//
// Order: each thread is read until it waits for a record of another that has not been read yet, or has come to the end of the
// current window of measured time. The window keeps whoever never waits from running ahead; so memory is bounded by ranks and
// messages in flight, not by events.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "open_questions.hpp"
#include "peers.hpp"
#include "postings.hpp"
#include "replay/base/flaws.hpp"
#include "replay/graph/end_delay.hpp"
#include "replay/graph/recorder.hpp"
#include "replay/scenario/account_split.hpp"
#include "replay/scenario/lanes.hpp"
#include "replay/trace/archive.hpp"
#include "semantics.hpp"
#include "state.hpp"

namespace polter::replay {

class Injection;
class KeptEvents;

// Flawed data and open questions, counted; each becomes one line of the result.
struct FlawCount {
    int64_t count = 0, ns = 0;
};

// A receive: thread, 1-based index of its posting.
using Posting = std::pair<uint32_t, uint64_t>;

// What earlier passes found, or the caller asks, for the engine itself; what the rules learn is theirs (rules/mpi_rules.hpp).
struct EngineFacts {
    // Receives that were cancelled. They take no message, which is known only behind their posting: with them given a cancelled receive
    // never enters a channel.
    std::set<Posting> cancelled_postings;
    std::shared_ptr<const AccountSplit> split;          // of accounts by culprit and rank, for the lanes' masks; none: not split
    std::shared_ptr<const Postings> postings;           // of the own threads; none: what postings do not tell is known at completion
    std::vector<std::vector<PendingNoise>> late_noise;  // by thread and time: recorded behind later events
    bool counter_only = false;                          // the trace places no noise inside calls
    int64_t most_delay = 0;                             // nobody can be late by more than all noise that is removed
    int64_t first = 0, last = 0;                        // measured, of all ranks; equal: not known yet
    bool reverse_order = false;                         // of the first turn
    std::shared_ptr<KeptEvents> kept;                   // what passes keep for those behind them; none: each reads the archive
    // Beyond this many messages in flight, whoever waits for a record that everybody has passed in measured time is released: it does
    // not exist, and what piles up behind the wait is no message in flight but unbounded.
    size_t most_in_flight = size_t{1} << 20;
};

// Who follows a pass: for writing the timeline, for progress, and for the tests. Each may be empty.
struct Observers {
    // At each Enter and Leave (of the thread's own time), with the delay there by lane.
    std::function<void(const Thread&, int64_t time, const int64_t* delay)> at_event;
    // At each stretch of time that a noise record claims, before the Enter or Leave behind it.
    std::function<void(const Thread&, const PendingNoise&, int64_t begin, int64_t end)> at_noise;
    std::function<void(double)> progress;  // part of the events that has been read
    // At each message that a call has waited for, before the Leave of the call; the thread is the receiver.
    std::function<void(const Thread&, const Match&)> at_message = {};
};

class Engine {
  public:
    ~Engine();
    Engine(Archive& archive, const Lanes& lanes, Model& model, bool learning, std::unique_ptr<Semantics> semantics, EngineFacts facts = {},
           Faults faults = {});

    void observe(Observers observers);
    void follow_regions();                      // so that Thread::place() has the caller
    void record(Recorder& recorder);            // the event graph
    void pay(size_t thread, Payment& payment);  // keeps account of where this thread's delay changes
    // Before run(): reads only the locations of its own ranks, as one of several processes. Others are `remote` from then on.
    void join(std::unique_ptr<Peers> peers);
    void write_results(Bytes&) const;  // of the own threads
    void merge_results(Input&);        // of another process's

    void inject(Injection& injection) { injection_ = &injection; }  // before run(): noise in lanes that remove nothing; outlives the engine
    const CallEnd& concluded() const { return concluded_; }         // the call that was concluded last

    void run();

    // Results.
    const std::vector<std::unique_ptr<Thread>>& threads() const { return threads_; }
    std::vector<Process>& processes() { return processes_; }
    const std::vector<FlawCount>& flaws() const { return flaws_; }
    const OpenQuestions& open_questions() const { return open_questions_; }
    struct CulpritKey {
        uint16_t account;
        int32_t rank;
        uint32_t culprit;
        auto operator<=>(const CulpritKey&) const = default;
    };
    const std::map<CulpritKey, std::pair<int64_t, int64_t>>& culprits() const { return culprits_; }  // ns, events
    CallSiteCosts call_site_costs() const;
    int64_t events() const { return events_; }
    // Noise that was recorded inside of calls, at the records of what they complete, and at their ends: whether the trace places it in time
    // at all.
    struct NoisePlacement {
        int64_t inside = 0, at_completion = 0, at_leave = 0;
        // Counters alone: noise is found nowhere else. (That a few events end with a record may be chance.)
        bool counters_only() const {
            constexpr int64_t chance = 16, nearly_all = 20;
            return at_completion > chance ? at_leave + at_completion > nearly_all * inside
                                          : at_leave > nearly_all * (inside + at_completion);
        }
    };
    const NoisePlacement& noise_placement() const { return noise_placement_; }
    const std::vector<Warning>& warnings() const { return warnings_; }
    std::vector<Warning>& warnings() { return warnings_; }
    // By region: calls that may have waited in a way that no record tells; for others' unlocks.
    using CallCounts = std::map<uint32_t, FlawCount>;
    const CallCounts& unrecorded_calls() const { return unrecorded_calls_; }
    const CallCounts& lock_calls() const { return lock_calls_; }
    // Operations whose algorithm, for injected noise, is only the likeliest.
    const std::set<uint8_t>& likely_algorithms() const { return likely_algorithms_; }
    size_t most_matches() const { return matches_.allocated(); }

    // For the rules.
    Recorder* recorder() { return recorder_; }
    bool recording() const { return recorder_ != nullptr; }
    const Lanes& lanes() const { return lanes_; }
    Model& model() { return model_; }
    const Faults& faults() const { return faults_; }
    bool learning() const { return learning_; }
    LanePool& lane_pool() { return lane_pool_; }
    Semantics& semantics() { return *semantics_; }
    const Semantics& semantics() const { return *semantics_; }
    const EngineFacts& facts() const { return facts_; }
    const std::set<Posting>& cancelled_postings() const { return facts_.cancelled_postings; }
    void cancelled(Posting posting) { facts_.cancelled_postings.insert(posting); }
    // A posting that does not tell what it is for; its completion does.
    const PostedFor* posted_for(Posting posting) const {
        return facts_.postings ? facts_.postings->find(posting.first, posting.second) : nullptr;
    }
    void completed(Posting posting, const PostedFor& what);
    std::shared_ptr<const Postings> learned_postings() const { return learned_postings_; }
    bool has_learned_postings() const { return has_learned_postings_; }  // this process or another
    std::vector<std::vector<PendingNoise>> late_noise() const;           // learned
    const DependencyRule& rule(const Dependency& dependency) const { return dependency_rules_[static_cast<size_t>(dependency.kind)]; }
    void count(Flaw flaw, int64_t ns = 0) {
        FlawCount& counted = flaws_[static_cast<size_t>(flaw)];
        ++counted.count;
        counted.ns = std::min(counted.ns + ns, INT64_MAX / 4);
    }
    // One occurrence of a flaw concerns [begin, end), and can change the run time by `change` at most. Nothing in a learning pass.
    void leaves_open(Flaw flaw, int64_t begin, int64_t end, int64_t change);
    void count_unrecorded(const Thread& thread) { count_call(unrecorded_calls_, thread); }  // the call that has been read
    void count_lock_call(const Thread& thread) { count_call(lock_calls_, thread); }
    Injection* injection() const { return injection_; }  // none: nothing is injected
    Process& process(const Thread& thread) { return processes_[static_cast<size_t>(thread.rank)]; }
    // World rank of a communicator's rank, as this thread sees it; no_rank where unknown.
    int32_t world_rank(const Thread& thread, uint32_t comm, uint32_t rank);
    const Communicator* communicator(uint32_t comm) const;
    uint32_t window_communicator(uint32_t window) const;                                           // UINT32_MAX: not defined
    const std::vector<int32_t>& group(uint32_t group) const;                                       // world ranks
    const Neighbours* neighbours(uint32_t comm, int32_t rank) const;                               // none: not known
    bool follows_partitioned() const { return archive_.definitions().partitioned != UINT32_MAX; }  // the tracer, partitioned communication
    bool follows_requests() const { return archive_.definitions().operation != UINT32_MAX; }       // … all collectives' requests
    bool defines_windows() const { return !archive_.definitions().windows.empty(); }
    uint32_t world() const { return archive_.definitions().world; }
    void wake(Thread* thread);
    void copy(int64_t* to, const int64_t* from) const { copy_lanes(to, from, lanes_.count); }

    // Matching (engine/matching.cpp).
    Channel* channel(uint32_t comm, int32_t source, int32_t destination, uint32_t tag, uint32_t partitioned = 0);
    Match* add_send(Thread& sender, const Thread& receiver, const Operation&);  // the send half; attaches to a waiting receive
    void send_is_complete(Match* match);                                        // the send half is complete
    // The receive half, as of its posting; attaches to a waiting send.
    void keep_posting_noise(Match&, const Thread& receiver);
    Match* add_receive(Channel* channel, Thread& receiver, int64_t post_time, const int64_t* post_delay, uint64_t post_node);
    void withdraw_receive(Match* match);  // it was another's
    void release(Match* match);           // one user less
    void settle(Match& match);            // learning: the posting is known
    CompletionSample* new_sample();
    void finish_sample(CompletionSample* sample);
    void learn_from(const CompletionSample&);  // all of it is known
    void learn_wait(const CompletionSample&);

    // Collectives (engine/collective_matching.cpp).
    // The instance and the thread's place in it; none where nobody else takes part or the communicator is unknown.
    Collective* arrive(Thread& thread, const Arrival&, uint32_t* member);
    LaneVector approximated_time(int64_t time, const int64_t* delay);  // in lanes
    void wake_waiting(Collective* collective);
    void watch_arrival(Collective&, uint32_t member, const Arrival&);
    // A call that completes a non-blocking one, which its beginning did not tell what it is.
    // `alone`: the call completes nothing else.
    void resume(Collective&, uint32_t member, const Thread&, uint8_t operation, uint32_t root, uint64_t size, bool alone);
    void learn_structure(Collective&);
    const LearnedStructure* learned_structure(const Collective&, uint32_t member, uint64_t size) const;  // none: nothing is known
    void begin_structure(Collective&, uint32_t member, uint64_t size);                                   // if it is known
    void follow_structure(Collective&, uint32_t member, const Arrival&);
    void follow_those_who_came(Collective&);
    void wake_members(Collective&, const std::vector<uint32_t>& ended);
    void member_done(Collective* collective);
    void end_collective(Collective* collective);  // if nobody needs it any more

    // Threads of one process (engine/teams.cpp).
    ThreadEvent* team_fork(Thread& thread);  // of the region that the thread has just come to; none: it began that itself, or it is unknown
    void come_to_barrier(Thread& thread, std::vector<ThreadEvent*>& others);  // the call that has been read
    void leave_barrier(Thread& thread);                                       // its end is known
    void members_ends(Thread& thread, std::vector<ThreadEvent*>& others);     // of the region that the thread began, as it joins
    void joined(Thread& thread);
    void lock_releases(Thread& thread, std::vector<ThreadEvent*>& others);  // of whoever had the lock before
    // Whether tasks were executed by a member since the barrier before.
    bool at_barrier_of_tasks(const Thread& thread) const;
    // `asked`: when the thread asked for it in the scenario "all". False: whoever had it before asked later in that scenario, or may have.
    bool acquired(Thread& thread, int64_t asked);
    void conditions_met(Thread& thread);  // the end of the wait is known

    // Requests.
    Request* new_request(Thread& thread, uint64_t id, Request::Kind kind);
    Request* find_request(Thread& thread, uint64_t id);
    void drop_request(Thread& thread, uint64_t id);
    Request* take_request(Thread& thread, uint64_t id);  // the caller gives it back
    void give_back(Request* request);

  private:
    friend struct EventApplication;
    friend class Exchange;
    // How far all have come where nobody can go on.
    struct Turn {
        uint64_t parked = 0, blocked = 0, events = 0, in_use = 0;
        int64_t first = INT64_MAX;  // of the parked
    };
    Turn turn() const;
    Turn work();  // until nobody can go on
    bool release_stuck(int64_t passed, bool hopeless_first);
    void schedule();
    Thread* next_ready();
    void read(Thread& thread);
    void finish(Thread& thread);
    void force(Thread& thread);
    // At each record: engine/steps.hpp.
    inline bool advance(Thread& thread, uint64_t ticks);
    bool advance_otherwise(Thread& thread, uint64_t ticks);
    inline void on_enter(Thread& thread, uint32_t region, uint32_t call_site);
    inline void on_leave(Thread& thread, uint32_t region);
    void on_metric(Thread& thread, uint32_t metric, uint8_t count, const OTF2_Type* types, const OTF2_MetricValue* values, uint32_t culprit,
                   uint64_t ago);
    uint16_t masked_account(const Thread& thread, uint16_t account, uint32_t culprit) const {
        return facts_.split ? facts_.split->part(account, thread.rank, culprit) : account;
    }
    inline void come_to(Thread& thread);
    void on_fork(Thread& thread);
    void on_team_begin(Thread& thread, uint32_t comm);
    void on_team_end(Thread& thread, uint32_t comm);
    void on_join(Thread& thread);
    void on_create(Thread& thread, uint32_t comm, uint64_t number);
    void on_thread_begin(Thread& thread, uint32_t comm, uint64_t number);
    void on_thread_end(Thread& thread, uint32_t comm, uint64_t number);
    void on_thread_wait(Thread& thread, uint32_t comm, uint64_t number);
    void on_acquire(Thread& thread, uint32_t lock, uint32_t order);
    void on_release(Thread& thread, uint32_t lock, uint32_t order);
    static void meets(Thread& thread, ThreadLock& lock, uint32_t order);
    void leave_barrier_for_task(Thread& thread);
    void return_to_barrier(Thread& thread);
    inline void end_of_idleness(Thread& thread);
    void happens(ThreadEvent& event, Thread& thread, int64_t time, const int64_t* delay, uint64_t node);
    std::shared_ptr<Team> team_of(uint32_t comm, uint64_t ordinal, const std::vector<int32_t>& members);
    void ends_share(Thread& thread, Team& team, size_t member);
    Barrier& barrier_of(Team& team, uint64_t number);
    inline void begin_interval(Thread& thread);
    void count_noise(Thread& thread, const PendingNoise&);
    void note_late_noise(Thread& thread, PendingNoise);
    void join_late_noise(Thread& thread);
    int64_t carry_noise(Thread& thread, const PendingNoise&, int64_t excess);
    void take_noise(Thread& thread, int64_t upto);
    inline void open_call(Thread& thread, CallKind kind, uint32_t region, uint32_t call_site);
    void account_call(const Thread& thread, int64_t delay_before);
    void close_call(Thread& thread);
    bool try_finish_call(Thread& thread);  // false: blocked
    void add_operation(Thread& thread, const Operation& operation);
    void note(const Thread& thread, int64_t time, uint32_t operation) {
        const uint32_t call_site = operation == no_region ? no_call_site : thread.call_site;
        if (thread.payment) thread.payment->come_to(time, thread.delay, {operation, thread.regions.innermost(), call_site});
        if (observers_.at_event) observers_.at_event(thread, time, thread.delay);
    }
    static void count_call(CallCounts& all, const Thread& thread);
    void check_identity(const Thread& thread) const;
    void report_progress();

    Archive& archive_;
    const Lanes& lanes_;
    Model& model_;
    const bool learning_;
    const Faults faults_;
    Observers observers_;
    Recorder* recorder_ = nullptr;
    Injection* injection_ = nullptr;
    LanePool lane_pool_;
    Pool<Match> matches_;
    Pool<Channel> channel_pool_;
    Pool<Collective> collective_pool_;
    Pool<Request> request_pool_;
    Pool<CompletionSample> sample_pool_;
    std::vector<std::unique_ptr<Thread>> threads_;
    std::vector<Process> processes_;
    FlatMap<ChannelKey, Channel*> channels_;
    size_t channels_after_sweep_ = 0;
    mutable std::pair<uint32_t, const Communicator*> communicator_asked_{UINT32_MAX, nullptr};
    std::pair<uint32_t, const std::vector<MetricSlot>*> metric_asked_{UINT32_MAX, nullptr};
    std::unordered_map<uint32_t, std::vector<int32_t>> members_;               // of a communicator: world rank → place
    std::map<std::tuple<uint64_t, uint64_t, bool>, Collective*> collectives_;  // communicator, ordinal, non-blocking
    std::map<std::pair<uint32_t, uint64_t>, std::shared_ptr<Team>> teams_;     // by communicator, ordinal: the regions under way
    std::map<std::pair<uint32_t, uint64_t>, CreatedThread> created_;           // by communicator and number
    std::map<std::pair<int32_t, uint32_t>, ThreadLock> locks_;                 // by rank and number
    std::deque<Thread*> ready_;
    std::vector<Thread*> parked_;
    std::unique_ptr<Semantics> semantics_;
    const DependencyRules& dependency_rules_;
    EngineFacts facts_;
    std::shared_ptr<Postings> learned_postings_;  // of a learning pass that is not given them
    bool has_learned_postings_ = false;
    CallEnd concluded_;
    std::unique_ptr<Peers> peers_;  // none: the only process
    int64_t window_end_ = 0;
    uint64_t events_in_window_ = 0;
    std::vector<FlawCount> flaws_;
    OpenQuestions open_questions_;
    std::vector<Warning> warnings_;
    NoisePlacement noise_placement_;
    CallCounts unrecorded_calls_, lock_calls_;
    std::set<uint8_t> likely_algorithms_;
    std::map<CulpritKey, std::pair<int64_t, int64_t>> culprits_;
    struct CallSiteAccount {  // of one call site; nearly all call one function
        uint32_t region = no_region;
        CallSiteSums sums;
    };
    std::vector<CallSiteAccount> call_site_accounts_;
    CallSiteCosts other_call_sites_;  // further functions that they call, and what other processes found
    int64_t events_ = 0, declared_events_ = 0, next_progress_ = 0;
    uint64_t offset_ticks_ = 0;  // of the trace's global offset
    uint64_t ticks_per_second_ = 1'000'000'000;
};

}  // namespace polter::replay
