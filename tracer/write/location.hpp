// SPDX-License-Identifier: BSD-3-Clause
// One thread's event stream: the only OTF2 event-writing calls of the project's tracer. Used by its own thread only, but for close().
//
// Times are of clock.hpp. A time below the last one is raised to it and counted (OTF2 would refuse the record). The first failure
// to write ends the tracing of the whole process (Archive::stop); everything after it is a no-op.
#pragma once

#include <otf2/otf2.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "call_sites.hpp"
#include "counters.hpp"
#include "noise.hpp"
#include "own_part.hpp"
#include "tail.hpp"
#include "thread_clock.hpp"

namespace polter::write {

class Archive;

struct Message {
    uint32_t peer = 0;  // rank in the communicator; of the remote group in an intercommunicator
    uint32_t comm = 0;  // local communicator id
    uint32_t tag = 0;
    uint64_t bytes = 0;
};

struct Collective {
    OTF2_CollectiveOp op = OTF2_COLLECTIVE_OP_BARRIER;
    uint32_t comm = 0;
    uint32_t root = OTF2_COLLECTIVE_ROOT_NONE;
    uint64_t sent = 0, received = 0;  // bytes
};

class Location {
  public:
    // Stamps, and writes the noise that ended by then.
    uint64_t stamp() { return stamped(clock_.now()); }
    // The same where the processor may read the clock some instructions early: at the beginning of a call, and at regions.
    uint64_t early_stamp() { return stamped(clock_.unordered_now()); }
    // Without noise, for what is not recorded.
    uint64_t read_clock() { return clock_.now(); }

    bool counts() const { return event_counters_ != nullptr; }
    // With the counters: what reading them costs lies outside of what is between the two stamps.
    uint64_t stamp_before() {
        const bool moved = event_counters_->read();
        const uint64_t time = early_stamp();
        if (moved) write_counters(time);
        return time;
    }
    uint64_t stamp_after() {
        const uint64_t time = stamp();
        if (event_counters_->read()) write_counters(time);
        return time;
    }

    // `from`: the address to which the call returns.
    void enter(uint64_t time, uint32_t region, const void* from) {
        settle();
        put(OTF2_EvtWriter_Enter, call_sites_.expected(from) ? nullptr : call_site_attribute(from), time, region);
    }
    void leave(uint64_t time, uint32_t region) { put(OTF2_EvtWriter_Leave, nullptr, time, region); }

    // Polls that fail one after the other become one Enter and Leave (README.md). enter_poll() writes the Enter, or holds it back while the
    // poll may still become one more of them; any record that is written before poll_failed() makes it a call of its own.
    void enter_poll(uint64_t time, uint32_t region, const void* from) {
        if (run_.polls != 0 && run_.region == region && time - run_.last_leave <= most_poll_gap_ns && time - run_.begin <= longest_run_ns)
            held_ = {time, from};
        else
            enter(time, region, from);
    }
    bool held() const { return held_.time != 0; }
    void poll_failed(uint64_t entered, uint64_t time, uint32_t region) {
        if (held_.time != 0) {
            run_.longest_gap = std::max(run_.longest_gap, entered - run_.last_leave);
            held_.time = 0;
        } else {
            settle();
            run_ = {.region = region, .begin = entered};
        }
        run_.polls++;
        run_.last_enter = entered;
        run_.last_leave = time;
    }
    // Writes what is held back. put() does, but what gives a record attributes must do it before.
    void settle() {
        if (run_.polls != 0) [[unlikely]]
            end_run();
    }
    // A region of the program, by its local id. Regions are left in the order in which they were entered: an end closes what began after
    // its region; an end without a begin is a warning. `detailed`: details are recorded now. Returns the stamp, 0 where nothing was
    // written.
    uint64_t begin_region(uint32_t region, bool detailed, const void* from);
    uint64_t end_region(uint32_t region, const char* name, bool detailed);
    // What is still open, at the time of the last record. Whether any of it was OpenMP's.
    bool close_regions();

    // Threads of the process (../threads/); `team`: its local communicator id.
    void fork(uint64_t time, uint32_t requested) {
        open_.push_back({0, Open::fork, true});
        put(OTF2_EvtWriter_ThreadFork, nullptr, time, OTF2_Paradigm{OTF2_PARADIGM_OPENMP}, requested);
    }
    void join(uint64_t time) {
        if (closes(Open::fork, 0, time)) put(OTF2_EvtWriter_ThreadJoin, nullptr, time, OTF2_Paradigm{OTF2_PARADIGM_OPENMP});
    }
    void team_begin(uint64_t time, uint32_t team) {
        open_.push_back({team, Open::team, true});
        put(OTF2_EvtWriter_ThreadTeamBegin, nullptr, time, team);
    }
    void team_end(uint64_t time, uint32_t team) {
        if (closes(Open::team, team, time)) put(OTF2_EvtWriter_ThreadTeamEnd, nullptr, time, team);
    }
    // Regions of OpenMP, by their id in the trace.
    void enter_openmp(uint64_t time, uint32_t region, const void* from) {
        open_.push_back({region, Open::openmp, true});
        enter(time, region, from);
    }
    void leave_openmp(uint64_t time, uint32_t region) {
        if (closes(Open::openmp, region, time)) leave(time, region);
    }
    // A share is over that the thread may come back to, for a task in the team's last barrier: written once it is known.
    void team_ends(uint64_t time, uint32_t team) { ending_ = {time, team}; }
    bool team_ending() const { return ending_.has_value(); }
    void end_team() {
        if (const auto ending = std::exchange(ending_, std::nullopt)) team_end(ending->time, ending->team);
    }
    // A task, by its region's id; whether it is in a share that was over.
    void begin_task(uint64_t time, uint32_t region, const void* from) { enter_openmp(time, region, from); }
    void end_task(uint64_t time, uint32_t region) {
        leave_openmp(time, region);
        if (ending_) ending_->time = time;
    }
    // Locks of the process's threads: `order` of the acquisition, from 1.
    void acquired(uint64_t time, OTF2_Paradigm paradigm, uint32_t lock, uint32_t order) {
        put(OTF2_EvtWriter_ThreadAcquireLock, nullptr, time, paradigm, lock, order);
    }
    void released(uint64_t time, OTF2_Paradigm paradigm, uint32_t lock, uint32_t order) {
        put(OTF2_EvtWriter_ThreadReleaseLock, nullptr, time, paradigm, lock, order);
    }
    // Threads that the program starts itself; `sequence`: the thread's number in the process, `all`: the local id of all of them.
    void create(uint64_t time, uint32_t all, uint64_t sequence) { put(OTF2_EvtWriter_ThreadCreate, nullptr, time, all, sequence); }
    void begin_started(uint64_t time, uint32_t all, uint64_t sequence) {
        started_ = {all, sequence};
        put(OTF2_EvtWriter_ThreadBegin, nullptr, time, all, sequence);
    }
    // Nothing for a thread that has not begun so.
    void end_started(uint64_t time) {
        end_team();
        if (const auto started = std::exchange(started_, std::nullopt)) {
            close_regions();
            put(OTF2_EvtWriter_ThreadEnd, nullptr, time, started->all, started->sequence);
        }
    }
    void waited(uint64_t time, uint32_t all, uint64_t sequence) { put(OTF2_EvtWriter_ThreadWait, nullptr, time, all, sequence); }
    // Its thread has ended, and all that it had to write is written.
    void abandon() { abandoned_.store(true, std::memory_order_release); }
    // For a thread that takes its place: it continues with that one's page, or NULL. False: it is not abandoned, or another one has it.
    bool resume(std::unique_ptr<NoiseFeed> noise);
    bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

    // Around records that a thread writes at any time, also while another one ends the trace. False: `on` is no longer true, nothing is to
    // be written. Whoever ends the trace makes `on` false and calls Archive::wait_for_users().
    bool begin_use(const std::atomic<bool>& on) {
        in_use_.store(true, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);  // membarrier(2) there does the rest
        if (on.load(std::memory_order_acquire)) [[likely]]
            return true;
        end_use();
        return false;
    }
    void end_use() { in_use_.store(false, std::memory_order_release); }
    // An event of the thread came after the trace had ended.
    void miss() { missed_.store(missed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
    uint64_t missed() const { return missed_.load(std::memory_order_relaxed); }

    // What MPI_Pcontrol was given.
    void level(uint64_t time, int level) { put(OTF2_EvtWriter_ParameterInt, nullptr, time, trace::parameter_level, int64_t{level}); }
    // What is in memory goes to the disk.
    void sync() {
        settle();
        tail_.sync();
    }

    // The Leave of a probe that found this message.
    // `any`: what it asked for; `partitioned`: of a part that has arrived; see conventions.hpp.
    void leave_probe(uint64_t time, uint32_t region, int source, int tag, uint32_t comm, uint8_t any, uint32_t partitioned);

    // `mode`: trace::SendMode.
    void send(uint64_t time, const Message& m, uint8_t mode) {
        put(OTF2_EvtWriter_MpiSend, mode_attribute(mode), time, m.peer, m.comm, m.tag, m.bytes);
    }
    void isend(uint64_t time, const Message& m, uint8_t mode, uint64_t request) {
        put(OTF2_EvtWriter_MpiIsend, mode_attribute(mode), time, m.peer, m.comm, m.tag, m.bytes, request);
    }
    void isend_partitioned(uint64_t time, const Message& m, uint32_t partitioned, uint64_t request) {
        OTF2_AttributeList_AddUint32(attributes_, trace::attribute_partitioned, partitioned);
        put(OTF2_EvtWriter_MpiIsend, attributes_, time, m.peer, m.comm, m.tag, m.bytes, request);
    }
    void isend_complete(uint64_t time, uint64_t request) { put(OTF2_EvtWriter_MpiIsendComplete, nullptr, time, request); }
    void recv(uint64_t time, const Message& m) { put(OTF2_EvtWriter_MpiRecv, nullptr, time, m.peer, m.comm, m.tag, m.bytes); }
    // Posted with a wildcard: source or tag -1.
    void recv_wildcard(uint64_t time, const Message& m, int source, int tag);
    void irecv_request(uint64_t time, uint64_t request, int source, int tag, uint32_t comm, uint32_t partitioned = 0);
    void irecv(uint64_t time, const Message& m, uint64_t request) {
        put(OTF2_EvtWriter_MpiIrecv, nullptr, time, m.peer, m.comm, m.tag, m.bytes, request);
    }
    void request_test(uint64_t time, uint64_t request) { put(OTF2_EvtWriter_MpiRequestTest, nullptr, time, request); }
    void request_cancelled(uint64_t time, uint64_t request) { put(OTF2_EvtWriter_MpiRequestCancelled, nullptr, time, request); }

    void collective_begin(uint64_t time) { put(OTF2_EvtWriter_MpiCollectiveBegin, nullptr, time); }
    void collective_end(uint64_t time, const Collective& c) {
        put(OTF2_EvtWriter_MpiCollectiveEnd, nullptr, time, c.op, c.comm, c.root, c.sent, c.received);
    }
    // `operation`: of those that OTF2 has none for, see conventions.hpp.
    void collective_request(uint64_t time, uint64_t request, uint32_t comm, uint8_t operation = 0);
    void collective_complete(uint64_t time, const Collective& c, uint64_t request) {
        put(OTF2_EvtWriter_NonBlockingCollectiveComplete, nullptr, time, c.op, c.comm, c.root, c.sent, c.received, request);
    }

    // One-sided communication; `window`: local window id, `remote`: rank in it.
    void window_collective_begin(uint64_t time) { put(OTF2_EvtWriter_RmaCollectiveBegin, nullptr, time); }
    void window_collective_end(uint64_t time, OTF2_CollectiveOp op, OTF2_RmaSyncLevel level, uint32_t window) {
        put(OTF2_EvtWriter_RmaCollectiveEnd, nullptr, time, op, level, window, uint32_t{OTF2_COLLECTIVE_ROOT_NONE}, uint64_t{0},
            uint64_t{0});
    }
    void window_create(uint64_t time, uint32_t window) { put(OTF2_EvtWriter_RmaWinCreate, nullptr, time, window); }
    void window_destroy(uint64_t time, uint32_t window) { put(OTF2_EvtWriter_RmaWinDestroy, nullptr, time, window); }
    void window_sync(uint64_t time, uint32_t window, uint32_t remote, OTF2_RmaSyncType type) {
        put(OTF2_EvtWriter_RmaSync, nullptr, time, window, remote, type);
    }
    void lock_request(uint64_t time, uint32_t window, uint32_t remote, OTF2_LockType type) {
        put(OTF2_EvtWriter_RmaRequestLock, nullptr, time, window, remote, uint64_t{0}, type);
    }
    void lock_acquired(uint64_t time, uint32_t window, uint32_t remote, OTF2_LockType type) {
        put(OTF2_EvtWriter_RmaAcquireLock, nullptr, time, window, remote, uint64_t{0}, type);
    }
    void lock_released(uint64_t time, uint32_t window, uint32_t remote) {
        put(OTF2_EvtWriter_RmaReleaseLock, nullptr, time, window, remote, uint64_t{0});
    }
    void rma_put(uint64_t time, uint32_t window, uint32_t remote, uint64_t bytes, uint64_t id) {
        put(OTF2_EvtWriter_RmaPut, nullptr, time, window, remote, bytes, id);
    }
    void rma_get(uint64_t time, uint32_t window, uint32_t remote, uint64_t bytes, uint64_t id) {
        put(OTF2_EvtWriter_RmaGet, nullptr, time, window, remote, bytes, id);
    }
    void rma_atomic(uint64_t time, uint32_t window, uint32_t remote, OTF2_RmaAtomicType type, uint64_t sent, uint64_t received,
                    uint64_t id) {
        put(OTF2_EvtWriter_RmaAtomic, nullptr, time, window, remote, type, sent, received, id);
    }
    void rma_complete(uint64_t time, uint32_t window, uint64_t id) { put(OTF2_EvtWriter_RmaOpCompleteRemote, nullptr, time, window, id); }
    // Of an operation that has a request: it completed; it was tested and had not.
    void rma_request_complete(uint64_t time, uint32_t window, uint64_t id) {
        put(OTF2_EvtWriter_RmaOpCompleteNonBlocking, nullptr, time, window, id);
    }
    void rma_request_test(uint64_t time, uint32_t window, uint64_t id) { put(OTF2_EvtWriter_RmaOpTest, nullptr, time, window, id); }

    // The Leave of a collective of files or of a neighbourhood.
    void leave_on(uint64_t time, uint32_t region, uint32_t comm) {
        OTF2_AttributeList_AddCommRef(attributes_, trace::attribute_comm, comm);
        put(OTF2_EvtWriter_Leave, attributes_, time, region);
    }

    uint64_t last() const { return last_; }  // time of the last record
    uint64_t id() const { return id_; }

    // The accumulated nanoseconds of one account; `culprit` may be NULL or empty.
    void metric(uint64_t time, unsigned account, uint64_t value, const char* culprit);

    // Before a thread's last event: nothing is left unread, as the tier proc may leave something between its readings.
    void take_rest() {
        if (noise_ && noise_->moved(UINT64_MAX)) noise_->take(now(), *this);
    }
    // The page goes with its thread.
    void close_noise();
    // At the end of MPI_Init, in which nothing was taken from the ring: takes what there is. What the ring held no more is in the account's
    // records without a place of its own (README.md), and does not count as dropped. Returns the stamp.
    uint64_t end_startup();

    // Own cost is sampled: of one call in `sample_period`, in turn, what the tracer does before the call itself or behind it takes two more
    // clock reads and a system call. After the first samples of a thread the period is longer. Primes: the calls of a loop come in turn.
    // Asked before the call's first stamp.
    static constexpr uint32_t sample_period = 61, long_sample_period = 1021, samples_in_short = 256;
    bool sampled() {
        if (--until_sample_ != 0) [[likely]]
            return false;
        next_sample();
        return true;
    }
    bool samples_end() const { return samples_ % 2 != 0; }
    void next_sample();
    void begin_sample();
    // Stands for both parts. Flushes are measured whole, so they are none of it. A part during which the thread was taken off the CPU would
    // stand for as many calls: it is left out.
    void sample(uint64_t part_ns);
    uint64_t own_cost_ns() const;  // of all calls, by the samples; and of flushes

    // What the metric records add up to: by account and culprit (local string id; no_culprit: unknown).
    struct Taken {
        uint64_t ns = 0, events = 0;
    };
    static constexpr uint32_t no_culprit = UINT32_MAX;
    const std::map<std::pair<unsigned, uint32_t>, Taken>& taken() const { return taken_; }

  private:
    friend class Archive;
    Location(Archive& archive, uint64_t id, std::unique_ptr<NoiseFeed> noise);

    uint64_t stamped(uint64_t time) {
        if (noise_ && noise_->moved(time)) [[unlikely]] {
            settle();
            noise_->take(time, *this);
        }
        return time;
    }
    template <typename Write, typename... Values>
    void put(Write write, OTF2_AttributeList* attributes, uint64_t time, Values... values) {
        settle();
        if (stopped_->load(std::memory_order_relaxed)) [[unlikely]]
            return;
        if (time < last_) [[unlikely]] {
            time = last_;
            clamped_++;
        }
        last_ = time;
        if (const OTF2_ErrorCode code = write(writer_, attributes, time, values...); code != OTF2_SUCCESS) [[unlikely]]
            failed(code);
    }
    OTF2_AttributeList* mode_attribute(uint8_t mode) {
        if (mode != trace::send_standard) [[unlikely]]
            OTF2_AttributeList_AddUint8(attributes_, trace::attribute_mode, mode);
        return mode != trace::send_standard ? attributes_ : nullptr;
    }
    OTF2_AttributeList* call_site_attribute(const void* from);
    void end_run();
    struct Open {
        uint32_t id;
        enum Kind : uint8_t { region, openmp, team, fork } kind;  // region: of the program, by its local id
        bool written;
        static bool nests(const Open& open) { return open.kind == region || open.kind == openmp; }
    };
    // Takes it off the list of what is open, after regions that began in it; false: it is not there, as the end of an outer one closed it.
    bool closes(Open::Kind kind, uint32_t id, uint64_t time) {
        if (open_.empty() || open_.back().kind != kind || open_.back().id != id) [[unlikely]]
            return closes_early(kind, id, time);
        open_.pop_back();
        return true;
    }
    bool closes_early(Open::Kind kind, uint32_t id, uint64_t time);
    size_t find_open(Open::Kind kind, uint32_t id) const;  // how many are open: it is none of them
    void close_from(size_t at, uint64_t time);
    void close(const Open&, uint64_t time);
    // Behind a system call as well (Counters::read): OTF2 takes the values where they are.
    void write_counters(uint64_t time) {
        static_assert(sizeof(OTF2_MetricValue) == sizeof(uint64_t));
        const auto* const values = reinterpret_cast<const OTF2_MetricValue*>(event_counters_->values());
        put(OTF2_EvtWriter_Metric, nullptr, time, trace::metric_class_of_counters, static_cast<uint8_t>(event_counters_->size()),
            counter_types.data(), values);
    }
    void failed(OTF2_ErrorCode code);

    static constexpr auto counter_types = [] {
        std::array<OTF2_Type, Counters::most> types{};
        types.fill(OTF2_TYPE_INT64);
        return types;
    }();

    Archive& archive_;
    const std::atomic<bool>* stopped_;
    ThreadClock clock_;
    OTF2_EvtWriter* writer_ = nullptr;
    OTF2_AttributeList* attributes_ = nullptr;  // emptied by each record that takes it
    std::unique_ptr<NoiseFeed> noise_;
    std::unique_ptr<Counters> event_counters_;
    CallSites call_sites_;
    // Longer gaps may be work, which the replay must see. A run ends in time for those who read the trace while it grows.
    static constexpr uint64_t most_poll_gap_ns = 10'000, longest_run_ns = 10'000'000;
    struct PollRun {
        uint32_t region = 0, polls = 0;  // polls 0: there is none
        uint64_t begin = 0, last_enter = 0, last_leave = 0, longest_gap = 0;
    } run_;  // its Enter is written, its Leave is not
    struct {
        uint64_t time = 0;  // 0: none
        const void* from = nullptr;
    } held_;                  // the Enter of a poll that may join it
    std::vector<Open> open_;  // the innermost last
    struct Started {
        uint32_t all;
        uint64_t sequence;
    };
    std::optional<Started> started_;  // the program's own thread, while it lives
    struct Ending {
        uint64_t time;
        uint32_t team;
    };
    std::optional<Ending> ending_;
    const uint64_t id_;
    uint64_t first_ = 0, last_ = 0;
    uint64_t clamped_ = 0;  // events whose time was below the last one
    uint32_t until_sample_ = sample_period, period_ = sample_period, calls_in_sample_ = sample_period;
    uint64_t samples_ = 0;
    uint64_t sampled_ns_ = 0, sampled_calls_ = 0, calls_left_out_ = 0;  // for how many calls the samples stand
    long switches_ = 0;                                                 // of the thread, involuntary, before the sample at hand
    uint64_t flush_in_sample_ns_ = 0, flush_ns_ = 0, flush_began_ = 0;
    std::optional<OwnPart> flushing_;                                // from OTF2's word that it flushes to its next buffer, or its failure
    uint64_t dropped_ = 0, dropped_ns_ = 0, exporter_ended_ns_ = 0;  // of the page, once closed
    std::array<std::optional<uint64_t>, POLTER_ACCOUNT_SLOTS> counters_;  // of the last record of each account
    std::array<uint64_t, POLTER_ACCOUNT_SLOTS> before_{};  // what threads before this one had in their pages, less what this one began with
    bool begins_again_ = false;                            // the next record of each account is a further thread's baseline
    std::atomic<bool> abandoned_ = false, in_use_ = false;
    std::atomic<uint64_t> missed_ = 0;
    std::map<std::pair<unsigned, uint32_t>, Taken> taken_;
    Tail tail_;
};

}  // namespace polter::write
