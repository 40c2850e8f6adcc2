// SPDX-License-Identifier: BSD-3-Clause
// The order of reading: each location as far as its dependencies allow, within a window of measured time. Also what happens to threads that
// wait for records which do not exist.
#include <algorithm>

#include "engine.hpp"
#include "reading/kept_events.hpp"
#include "reading/otf2_events.hpp"

namespace polter::replay {

namespace {

constexpr int64_t first_window = 1'000'000;     // ns; adapts from there
constexpr uint64_t events_per_turn = 1u << 14;  // of one thread; then the window ends at the time it has reached

}  // namespace

void Engine::schedule() {
    int64_t width = first_window;
    window_end_ = INT64_MIN / 2;  // the first turn only finds where each thread begins
    for (;;) {
        const Turn turn = work();
        report_progress();
        if (turn.parked > 0) {
            // Wide enough that a turn is worth its overhead, narrow enough that few messages are in flight.
            const uint64_t processes = peers_ ? static_cast<uint64_t>(peers_->processes()) : 1;
            const uint64_t wanted = std::max<uint64_t>(turn.parked * 256 * processes, 1024);
            if (turn.events < wanted / 2 && width < INT64_MAX / 8) width *= 2;
            if (turn.events > wanted * 2 && width > 64) width /= 2;
            if (turn.in_use > facts_.most_in_flight && !semantics_->takes_turns() && release_stuck(turn.first, false)) continue;
            window_end_ = faults_.no_window ? INT64_MAX : std::max(turn.first, turn.first + width);
            for (size_t i = 0; i < parked_.size();) {
                Thread* thread = parked_[i];
                if (thread->now > window_end_) {
                    ++i;
                    continue;
                }
                thread->state = Thread::State::ready;
                ready_.push_back(thread);
                parked_[i] = parked_.back();
                parked_.pop_back();
            }
            continue;
        }
        if (turn.blocked == 0) return;
        if (Thread* next = semantics_->takes_turns() ? semantics_->grant() : nullptr) {
            wake(next);
            continue;
        }
        release_stuck(INT64_MAX, true);
    }
}

Engine::Turn Engine::turn() const {
    Turn turn{.parked = parked_.size(), .events = events_in_window_, .in_use = matches_.in_use()};
    for (const Thread* thread : parked_) turn.first = std::min(turn.first, thread->now);
    for (const auto& thread : threads_) turn.blocked += thread->state == Thread::State::blocked;
    return turn;
}

Engine::Turn Engine::work() {
    constexpr std::ptrdiff_t reads_between_messages = 16;
    // The fewer threads a process has to go on with, the sooner it waits for what those here have done.
    const auto own = std::count_if(threads_.begin(), threads_.end(), [](const auto& thread) { return !thread->remote; });
    const auto reads_between_awaited = std::clamp<std::ptrdiff_t>(own / 2, 1, reads_between_messages);
    events_in_window_ = 0;
    for (;;) {
        for (std::ptrdiff_t reads = 1; !ready_.empty(); ++reads) {
            read(*next_ready());
            if (!peers_) continue;
            if (reads % reads_between_messages == 0)
                peers_->exchange();
            else if (reads % reads_between_awaited == 0)
                peers_->send_awaited();
        }
        if (!peers_) return turn();
        if (peers_->exchange() || !ready_.empty()) continue;
        Bytes mine;
        mine.put(turn());
        const std::vector<Bytes> all = peers_->quiet(mine);
        if (all.empty()) continue;
        Turn sum;
        for (const Bytes& one : all) {
            const auto turn = Input(one).get<Turn>();
            sum = {sum.parked + turn.parked, sum.blocked + turn.blocked, sum.events + turn.events, sum.in_use + turn.in_use,
                   std::min(sum.first, turn.first)};
        }
        return sum;
    }
}

// One process: the thread woken last, as the data it waited for is still in the cache. Several processes: the one that has waited longest,
// so that all threads advance equally, also those on which other processes depend.
Thread* Engine::next_ready() {
    Thread* next = peers_ ? ready_.front() : ready_.back();
    peers_ ? ready_.pop_front() : ready_.pop_back();
    return next;
}

void Engine::read(Thread& thread) {
    if (thread.next_dependency < thread.dependencies.size() && !try_finish_call(thread)) return;
    const uint64_t before = thread.events;
    while (thread.state == Thread::State::ready) {
        // After the end of its file, OTF2 must not be asked again: it would read beyond the buffer.
        if (!thread.ended && read_events(archive_, thread) == Archive::Progress::ended) thread.ended = true;
        if (thread.events > thread.most_events) thread.broken = true;
        if (thread.state == Thread::State::blocked) break;
        if (thread.broken || thread.ended) {
            finish(thread);
            break;
        }
        if (thread.now > window_end_) {
            thread.state = Thread::State::parked;
            parked_.push_back(&thread);
            break;
        }
        if (thread.events - before >= events_per_turn && !faults_.no_window) {
            // A burst of events: no thread needs to read further than this for now.
            window_end_ = std::min(window_end_, thread.now);
            thread.state = Thread::State::parked;
            parked_.push_back(&thread);
            break;
        }
    }
    events_in_window_ += thread.events - before;
}

void Engine::finish(Thread& thread) {
    // OTF2 reports the same error at a good end after an interruption and in the middle of a damaged file. The number of events in the
    // definitions tells them apart.
    const uint64_t declared = archive_.definitions().locations[thread.index].declared_events;
    if (thread.broken || thread.events < declared) count(Flaw::truncated_location);
    if (thread.in_call) {  // the trace ends inside a call: its sends count
        if (!of_threads(thread.kind)) count(Flaw::call_not_left);
        thread.leave = thread.now;
        if (recorder_) thread.enter_node = thread.node = recorder_->begin_call(thread.recorded(), thread.enter);
        semantics_->publish_unfinished(*this, thread);
        for (const NoisePiece& piece : thread.pieces)
            if (recorder_) recorder_->hit(thread.index, piece, thread.regions.innermost());
        if (thread.payment) thread.payment->come_to(thread.now, thread.delay, thread.place());
        thread.in_call = false;
    }
    if (recorder_ && thread.started) recorder_->end(thread.recorded(), thread.last);
    if (thread.kept) thread.kept->close(thread.events);
    events_ += static_cast<int64_t>(thread.events);
    thread.state = Thread::State::finished;
    if (peers_) peers_->ship_finished(thread);
}

namespace {

// A thread that waits for what may never come.
struct Stuck {
    int64_t leave;
    int64_t approximated;  // where it waits for what came first, it or another call (an access): when it began in the scenario "all"
    uint32_t thread;
    bool hopeless, soft;
};

}  // namespace

// No thread can continue, so the awaited records do not exist. With `hopeless_first`, threads whose partner has no more records are
// released first; if there are none, the thread that is earliest in measured time, and ends before `passed`. A soft dependency is released
// before all later ones, as it did not wait for them. Of those that ask which call came first, the one that begins first in the scenario
// "all": whatever the others begin comes later there. All processes take the same decision for all threads.
bool Engine::release_stuck(int64_t passed, bool hopeless_first) {
    std::vector<Stuck> stuck;
    for (auto& thread : threads_) {
        if (thread->state != Thread::State::blocked || thread->leave >= passed) continue;
        const Dependency& dependency = thread->dependencies[thread->next_dependency];
        const bool soft = hopeless_first && dependency.soft;
        const bool asks_which_came_first = soft && dependency.access && lanes_.count > 0 && !faults_.accesses_as_measured;
        stuck.push_back({thread->leave, asks_which_came_first ? thread->enter - thread->delay[lanes_.all] : INT64_MAX, thread->index,
                         hopeless_first && !dependency.soft && rule(dependency).partner_finished(*this, dependency), soft});
    }
    if (peers_) {
        Bytes mine;
        mine.put(stuck);
        const std::vector<Bytes> all = peers_->gather(mine);
        stuck.clear();
        for (const Bytes& one : all) {
            std::vector<Stuck> theirs;
            Input(one).get(theirs);
            stuck.insert(stuck.end(), theirs.begin(), theirs.end());
        }
    }
    if (stuck.empty()) return false;
    std::sort(stuck.begin(), stuck.end(),
              [](const Stuck& a, const Stuck& b) { return std::tie(a.leave, a.thread) < std::tie(b.leave, b.thread); });
    auto soft = std::find_if(stuck.begin(), stuck.end(), [](const Stuck& s) { return s.soft; });
    const auto hopeless = std::find_if(stuck.begin(), stuck.end(), [](const Stuck& s) { return s.hopeless; });
    if (soft != stuck.end() && soft->approximated != INT64_MAX)
        soft = std::min_element(stuck.begin(), stuck.end(), [](const Stuck& a, const Stuck& b) { return a.approximated < b.approximated; });
    if (soft != stuck.end() && (hopeless == stuck.end() || hopeless->leave >= soft->leave))
        stuck = {Stuck(*soft)};
    else if (hopeless != stuck.end())
        std::erase_if(stuck, [](const Stuck& s) { return !s.hopeless; });
    else
        stuck.resize(1);
    for (const Stuck& one : stuck)
        if (!threads_[one.thread]->remote) force(*threads_[one.thread]);
    return true;
}

void Engine::force(Thread& thread) {
    Dependency& dependency = thread.dependencies[thread.next_dependency];
    rule(dependency).give_up(*this, thread, dependency);
    wake(&thread);
}

void Engine::report_progress() {
    if (!observers_.progress || declared_events_ <= 0) return;
    int64_t read = 0;
    for (const auto& thread : threads_) read += static_cast<int64_t>(thread->events);
    if (read < next_progress_) return;
    next_progress_ = read + declared_events_ / 100;
    observers_.progress(std::min(1.0, static_cast<double>(read) / static_cast<double>(declared_events_)));
}

}  // namespace polter::replay
