// SPDX-License-Identifier: BSD-3-Clause
#include "engine.hpp"

#include <algorithm>
#include <stdexcept>

#include "replay/trace/metric_value.hpp"
#include "steps.hpp"

namespace polter::replay {

namespace {

constexpr uint64_t shortest_event = 2;  // bytes; no OTF2 event record is shorter

}  // namespace

Engine::Engine(Archive& archive, const Lanes& lanes, Model& model, bool learning, std::unique_ptr<Semantics> semantics, EngineFacts facts,
               Faults faults)
    : archive_(archive),
      lanes_(lanes),
      model_(model),
      learning_(learning),
      faults_(faults),
      lane_pool_(lanes.count),
      semantics_(std::move(semantics)),
      dependency_rules_(semantics_->dependency_rules()),
      facts_(std::move(facts)),
      flaws_(static_cast<size_t>(Flaw::counted_)) {
    const Definitions& definitions = archive.definitions();
    processes_.resize(static_cast<size_t>(std::max(definitions.ranks, 1)));
    ticks_per_second_ = definitions.ticks_per_second;
    offset_ticks_ = definitions.global_offset;
    for (const Location& location : definitions.locations) {
        auto thread = std::make_unique<Thread>();
        thread->engine = this;
        thread->index = static_cast<uint32_t>(threads_.size());
        thread->rank = location.rank;
        thread->host = location.host;
        thread->carries_rank = location.carries_rank;
        thread->counters.assign(definitions.accounts.size(), -1);
        thread->local.assign(facts_.split ? facts_.split->parts() : definitions.accounts.size(), 0);
        thread->culprits.assign(definitions.accounts.size(), {});
        thread->delay = lane_pool_.filled(0);
        thread->polling.delay = lane_pool_.take();
        thread->polling.whole.delay = lane_pool_.take();
        const uint64_t bytes = archive.event_file_bytes(threads_.size());
        thread->most_events = bytes > 0 ? bytes / shortest_event : OTF2_UNDEFINED_UINT64;
        if (location.carries_rank) processes_[static_cast<size_t>(location.rank)].thread = thread.get();
        declared_events_ += static_cast<int64_t>(location.declared_events);
        threads_.push_back(std::move(thread));
    }
    for (const auto& [comm, team] : definitions.teams)
        for (const int32_t member : team)
            if (member >= 0) {
                Thread& thread = *threads_[static_cast<size_t>(member)];
                thread.in_team = true;
                thread.created = thread.created || definitions.created.contains(comm);
            }
    for (size_t i = 0; i < std::min(facts_.late_noise.size(), threads_.size()); ++i) threads_[i]->late = facts_.late_noise[i];
    if (learning_ && !facts_.postings) learned_postings_ = std::make_shared<Postings>(threads_.size());
    semantics_->attach(*this);
}

Engine::~Engine() = default;

void Engine::join(std::unique_ptr<Peers> peers) {
    peers_ = std::move(peers);
    declared_events_ = 0;
    for (auto& thread : threads_) {
        thread->remote = !peers_->own(*thread);
        if (!thread->remote) declared_events_ += static_cast<int64_t>(archive_.definitions().locations[thread->index].declared_events);
    }
}

int32_t Engine::world_rank(const Thread& thread, uint32_t comm, uint32_t rank) {
    const Communicator* known = communicator(comm);
    if (!known) {
        count(Flaw::unknown_communicator);
        return rank < processes_.size() ? static_cast<int32_t>(rank) : no_rank;
    }
    if (known->self) return thread.rank;
    const auto* group = &known->ranks;
    // on an intercommunicator, ranks are those of the remote group
    if (!known->remote.empty() && std::find(group->begin(), group->end(), thread.rank) != group->end()) group = &known->remote;
    return rank < group->size() ? (*group)[rank] : no_rank;
}

const Communicator* Engine::communicator(uint32_t comm) const {
    if (communicator_asked_.second && communicator_asked_.first == comm) return communicator_asked_.second;
    const auto& all = archive_.definitions().communicators;
    const auto found = all.find(comm);
    communicator_asked_ = {comm, found == all.end() ? nullptr : &found->second};
    return communicator_asked_.second;
}

uint32_t Engine::window_communicator(uint32_t window) const {
    const auto& windows = archive_.definitions().windows;
    const auto found = windows.find(window);
    return found == windows.end() || !communicator(found->second) ? UINT32_MAX : found->second;
}

const std::vector<int32_t>& Engine::group(uint32_t group) const {
    static const std::vector<int32_t> nobody;
    const auto& groups = archive_.definitions().groups;
    const auto found = groups.find(group);
    return found == groups.end() ? nobody : found->second;
}

const Neighbours* Engine::neighbours(uint32_t comm, int32_t rank) const {
    const auto& all = archive_.definitions().neighbours;
    const auto found = all.find({comm, rank});
    return found == all.end() ? nullptr : &found->second;
}

void Engine::wake(Thread* thread) {
    if (thread->state != Thread::State::blocked) return;
    thread->state = Thread::State::ready;
    ready_.push_back(thread);
}

Request* Engine::new_request(Thread& thread, uint64_t id, Request::Kind kind) {
    Request* request = request_pool_.take_new();
    request->kind = kind;
    if (Request* before = process(thread).requests.exchange({id}, request)) give_back(before);  // the id is used again: that was freed
    return request;
}

Request* Engine::find_request(Thread& thread, uint64_t id) {
    Request** found = process(thread).requests.find({id});
    return found ? *found : nullptr;
}

Request* Engine::take_request(Thread& thread, uint64_t id) {
    return process(thread).requests.take({id});
}

void Engine::give_back(Request* request) {
    request->post_delay.reset();
    request_pool_.give(request);
}

void Engine::drop_request(Thread& thread, uint64_t id) {
    if (Request* request = take_request(thread, id)) give_back(request);
}

// ---- scheduling ----------------------------------------------------------------------------------------------------------------

void Engine::run() {
    for (auto& thread : threads_)
        if (!thread->remote) ready_.push_back(thread.get());
    if (facts_.reverse_order) std::reverse(ready_.begin(), ready_.end());
    schedule();
    int64_t unmatched = 0;
    channels_.each([&](const ChannelKey&, Channel* channel) {
        if (!channel->holds_messages) return;
        for (Match* match = channel->head; match; match = match->next) ++unmatched;
    });
    flaws_[static_cast<size_t>(Flaw::unmatched_message)].count += unmatched;
    for (const auto& [key, collective] : collectives_)
        if (collective->arrived < collective->members.size() && (!peers_ || peers_->first_is_own(collective->comm)))
            count(Flaw::unmatched_collective);
}

// Times before the offset, other units of time, and times that no run can have.
bool Engine::advance_otherwise(Thread& thread, uint64_t ticks) {
    const uint64_t distance = ticks > offset_ticks_ ? ticks - offset_ticks_ : offset_ticks_ - ticks;
    const int64_t since = ticks_in_ns(static_cast<int64_t>(std::min<uint64_t>(distance, INT64_MAX)), ticks_per_second_),
                  now = ticks > offset_ticks_ ? since : -since;
    if (since > most_ns) {
        thread.broken = true;
        return false;
    }
    thread.now = now;
    return true;
}

void Engine::observe(Observers observers) {
    observers_ = std::move(observers);
}

void Engine::count_call(CallCounts& all, const Thread& thread) {
    FlawCount& calls = all[thread.region];
    ++calls.count;
    calls.ns += thread.leave - thread.enter;
}

void Engine::leaves_open(Flaw flaw, int64_t begin, int64_t end, int64_t change) {
    if (learning_ || facts_.first >= facts_.last) return;
    OpenQuestion& question = open_questions_[flaw];
    ++question.limited;
    question.concerned.add(facts_.first, facts_.last, begin, end);
    change = std::min(change, facts_.most_delay);
    question.change.add(facts_.first, facts_.last, end - change, end);
}

void Engine::record(Recorder& recorder) {
    recorder_ = &recorder;
    follow_regions();
}

void Engine::follow_regions() {
    for (auto& thread : threads_) thread->follows_regions = true;
}

void Engine::pay(size_t thread, Payment& payment) {
    threads_[thread]->payment = &payment;
    threads_[thread]->follows_regions = true;
}

void Engine::add_operation(Thread& thread, const Operation& operation) {
    if (thread.rank < 0) return;
    if (thread.in_call && of_threads(thread.kind)) {
        come_to(thread);
        end_of_idleness(thread);
    }
    if (!thread.in_call) {  // an MPI record outside a call is a call of length 0
        come_to(thread);
        thread.last = thread.now;
        open_call(thread, CallKind::local, UINT32_MAX, no_call_site);
        thread.operations.push_back(operation);
        close_call(thread);
        return;
    }
    thread.operations.push_back(operation);
}

// All records of the call are read. First publish what it did, then wait for its dependencies: otherwise rings of calls would deadlock.
void Engine::close_call(Thread& thread) {
    thread.leave = thread.worked_until = thread.now;
    thread.in_call = false;
    begin_interval(thread);
    if (recorder_) thread.enter_node = thread.node = recorder_->begin_call(thread.recorded(), thread.enter);
    semantics_->publish(*this, thread);
    try_finish_call(thread);
}

bool Engine::try_finish_call(Thread& thread) {
    while (thread.next_dependency < thread.dependencies.size()) {
        const Dependency& dependency = thread.dependencies[thread.next_dependency];
        if (!rule(dependency).satisfied(*this, dependency)) {
            thread.state = Thread::State::blocked;
            rule(dependency).wait(*this, thread, dependency);
            return false;
        }
        ++thread.next_dependency;
    }
    if (observers_.at_message)
        for (const Dependency& dependency : thread.dependencies)
            if (dependency.kind == Dependency::Kind::message && dependency.match && dependency.match->sent)
                observers_.at_message(thread, *dependency.match);
    const int64_t delay_before = thread.call_site == no_call_site ? 0 : thread.delay[lanes_.all];
    concluded_ = semantics_->conclude(*this, thread);
    if (thread.call_site != no_call_site) account_call(thread, delay_before);
    if (recorder_) recorder_->end_call(thread.index, thread.node != thread.enter_node, thread.leave, thread.delay, thread.pieces);
    thread.operations.clear();
    thread.pieces.clear();
    thread.dependencies.clear();
    thread.next_dependency = 0;
    thread.completions = 0;
    check_identity(thread);
    note(thread, thread.leave, thread.region);
    return true;
}

void Engine::account_call(const Thread& thread, int64_t delay_before) {
    if (thread.call_site >= call_site_accounts_.size()) call_site_accounts_.resize(archive_.definitions().call_sites.size());
    CallSiteAccount& account = call_site_accounts_[thread.call_site];
    if (account.region == no_region) account.region = thread.region;
    CallSiteSums& sums = account.region == thread.region ? account.sums : other_call_sites_[{thread.region, thread.call_site}];
    sums.calls += thread.poll_run.polls;
    sums.ns += thread.leave - thread.enter;
    sums.delay += thread.delay[lanes_.all] - delay_before;
}

CallSiteCosts Engine::call_site_costs() const {
    CallSiteCosts costs = other_call_sites_;
    for (size_t site = 0; site < call_site_accounts_.size(); ++site) {
        const CallSiteAccount& account = call_site_accounts_[site];
        if (account.region == no_region) continue;
        CallSiteSums& sums = costs[{account.region, static_cast<uint32_t>(site)}];
        sums.calls += account.sums.calls;
        sums.ns += account.sums.ns;
        sums.delay += account.sums.delay;
    }
    return costs;
}

// Lane 0 removes nothing: whatever the rules do, its delay is 0.
void Engine::check_identity(const Thread& thread) const {
    if (lanes_.count > 0 && thread.delay[0] != 0 && !faults_.residual_of_binding && !faults_.unclamped_residual)
        throw std::logic_error(
            "replay: the timeline moves though nothing was removed; this is a defect of polter, please report the trace");
}

// ---- noise ---------------------------------------------------------------------------------------------------------------------

void Engine::on_metric(Thread& thread, uint32_t metric, uint8_t count_of, const OTF2_Type* types, const OTF2_MetricValue* values,
                       uint32_t culprit, uint64_t ago) {
    if (metric != metric_asked_.first) {
        const auto& metrics = archive_.definitions().metrics;
        const auto found = metrics.find(metric);
        metric_asked_ = {metric, found == metrics.end() ? nullptr : &found->second};
    }
    if (!metric_asked_.second) return;
    const std::vector<MetricSlot>& slots = *metric_asked_.second;
    for (size_t i = 0; i < std::min<size_t>(count_of, slots.size()); ++i) {
        const MetricSlot& slot = slots[i];
        if (slot.account < 0) continue;
        // Most records change one total.
        const bool total_ns = !slot.increment && slot.numerator == slot.denominator && types[i] == OTF2_TYPE_UINT64;
        if (total_ns && values[i].signed_int == thread.counters[static_cast<size_t>(slot.account)] && values[i].signed_int >= 0) continue;
        const int64_t value = metric_ns(slot, types[i], values[i]);
        if (value < 0) {
            count(Flaw::counter_decreased);
            continue;
        }
        int64_t increment = value;
        if (!slot.increment) {
            int64_t& before = thread.counters[static_cast<size_t>(slot.account)];
            increment = value - before;
            if (before < 0) {
                increment = 0;
                // The baseline belongs at the location's first event; noise before a later one is unknown.
                if (thread.started && thread.now > thread.first) count(Flaw::no_baseline);
            }
            before = value;
        }
        if (increment < 0) {
            count(Flaw::counter_decreased);
            continue;
        }
        if (increment == 0) continue;
        PendingNoise record{thread.now, increment, static_cast<uint16_t>(slot.account), culprit};
        if (ago == 0) {
            record.account = masked_account(thread, record.account, culprit);
            thread.pending.push_back(record);
        } else if (learning_) {  // the replay pass has it in its place already
            record.time = noise_ended(record.time, ago, ticks_per_second_);
            note_late_noise(thread, record);
        }
    }
}

void Engine::note_late_noise(Thread& thread, PendingNoise record) {
    count_noise(thread, record);
    const int64_t since_event = record.time > thread.claimed.floor() ? thread.claimed.room(record.time) : 0;
    if (record.ns >= RecentRoom::least_ns && since_event < record.ns / 2) record.time = thread.room.ended(record.time, record.ns);
    thread.late.push_back(record);
}

std::vector<std::vector<PendingNoise>> Engine::late_noise() const {
    std::vector<std::vector<PendingNoise>> all;
    for (const auto& thread : threads_) {
        std::vector<PendingNoise>& late = all.emplace_back(thread->late);
        std::stable_sort(late.begin(), late.end(), [](const PendingNoise& a, const PendingNoise& b) { return a.time < b.time; });
    }
    return all;
}

void Engine::join_late_noise(Thread& thread) {
    if (learning_) return;
    const size_t before = thread.pending.size();
    for (; thread.next_late < thread.late.size() && thread.late[thread.next_late].time <= thread.now; ++thread.next_late) {
        PendingNoise& record = thread.pending.emplace_back(thread.late[thread.next_late]);
        record.account = masked_account(thread, record.account, record.culprit);
        if (record.carried_from == 0) continue;
        thread.carried_ns += record.ns;
        thread.uncertainty.carried += record.ns;
        count(Flaw::noise_carried, record.ns);
    }
    if (thread.pending.size() > before)
        std::stable_sort(thread.pending.begin(), thread.pending.end(),
                         [](const PendingNoise& a, const PendingNoise& b) { return a.time < b.time; });
}

void Engine::count_noise(Thread& thread, const PendingNoise& record) {
    int64_t& local = thread.local[record.account];
    local = std::min(local + record.ns, most_ns);  // larger values are damage
    if (!learning_ || (!thread.carries_rank && !thread.in_team)) return;
    Thread::Culprit& latest = thread.culprits[record.account];
    if (!latest.sums || latest.name != record.culprit) latest = {record.culprit, &culprits_[{record.account, thread.rank, record.culprit}]};
    latest.sums->first = std::min(latest.sums->first + record.ns, most_ns);
    ++latest.sums->second;
}

// Where the open call completes something: some recorders read counters there.
static bool at_completion(const Thread& thread, int64_t time) {
    using Kind = Operation::Kind;
    if (thread.operations.empty() || thread.operations.back().time != time) return false;
    constexpr Kind begins[] = {Kind::send, Kind::isend, Kind::irecv_post, Kind::collective_request, Kind::rma_out, Kind::rma_data};
    return std::find(std::begin(begins), std::end(begins), thread.operations.back().kind) == std::end(begins);
}

void Engine::take_noise(Thread& thread, int64_t upto) {
    for (const PendingNoise& record : thread.pending) {
        if (record.carried_from == 0) count_noise(thread, record);
        if (learning_ && thread.in_call)
            ++(record.time == upto                  ? noise_placement_.at_leave
               : at_completion(thread, record.time) ? noise_placement_.at_completion
                                                    : noise_placement_.inside);
        ++thread.noise_records;
        const int64_t excess = thread.claimed.claim(record.time, record.ns, [&](int64_t begin, int64_t end) {
            const NoisePiece piece{begin, end, record.account, record.culprit, thread.noise_records};
            if (observers_.at_noise) observers_.at_noise(thread, record, begin, end);
            if (thread.in_call) {
                thread.pieces.push_back(piece);
                return;
            }
            if (recorder_) recorder_->hit(thread.index, piece, thread.regions.innermost());
            remove_noise(thread.delay, lanes_.masks[record.account].data(), end - begin, lanes_.count);
            if (thread.polling.active) {
                thread.polling.pieces.push_back(piece);
                if (thread.polling.whole.active) thread.polling.whole.pieces.push_back(piece);
                thread.polling.noise_since += end - begin;
            }
        });
        const int64_t dropped = excess > 0 ? carry_noise(thread, record, excess) : 0;
        if (dropped > 0) count(Flaw::noise_beyond_interval, dropped);
    }
    thread.pending.clear();
}

// Steal is detected at the next timer tick, possibly many events after it hit. What does not fit before the tick is moved to earlier
// intervals. All other noise ended when it was recorded. Returns the ns that fit nowhere.
int64_t Engine::carry_noise(Thread& thread, const PendingNoise& record, int64_t excess) {
    const uint16_t account = facts_.split ? facts_.split->account(record.account) : record.account;
    if (!archive_.definitions().accounts[account].found_late()) return excess;
    if (learning_)
        return thread.room.find(thread.claimed.floor(), excess, [&](int64_t end, int64_t ns) {
            thread.late.push_back({end, ns, record.account, record.culprit, record.time});
        });
    const int64_t carried = std::min(excess, thread.carried_ns);
    thread.carried_ns -= carried;
    return excess - carried;
}

}  // namespace polter::replay
