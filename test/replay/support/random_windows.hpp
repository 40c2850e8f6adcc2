// SPDX-License-Identifier: BSD-3-Clause
// What random programs do in one-sided communication: fences, post and start, locks.
#pragma once

#include <otf2/otf2.h>

#include <numeric>
#include <tuple>
#include <utility>

#include "random_machine.hpp"

namespace polter::test {

class RandomWindows : public RandomMachine {
  protected:
    using RandomMachine::RandomMachine;

    // One-sided communication on window 0, of all ranks.
    void in_window(size_t r, Kind kind, size_t peer = 0) {
        if (options_.unrecorded) return;
        Record& record = add(r, kind);
        record.peer = static_cast<int64_t>(peer);
        record.operation = OTF2_COLLECTIVE_OP_BARRIER;
        record.bytes = 64;
    }
    void put(size_t r, size_t to) {
        enter(r, "MPI_Put");
        in_window(r, Kind::put, to);
        work(r, call_ns);
        leave(r, "MPI_Put");
    }
    // Puts and waits until it is there, by a flush or by its own request.
    void put_and_wait(size_t r, size_t to, bool by_request) {
        const uint64_t id = ++ranks_[r].request;
        enter(r, by_request ? "MPI_Rput" : "MPI_Put");
        in_window(r, Kind::put, to);
        if (!options_.unrecorded) program_.trace.records[r].back().request = id;
        work(r, call_ns);
        const int64_t there = ranks_[r].now + latency_ns;
        leave(r, by_request ? "MPI_Rput" : "MPI_Put");
        enter(r, by_request ? "MPI_Wait" : "MPI_Win_flush");
        wait(r, there);
        work(r, overhead_ns);
        if (!options_.unrecorded) {
            in_window(r, by_request ? Kind::rma_request_complete : Kind::rma_complete);
            program_.trace.records[r].back().request = id;
        }
        leave(r, by_request ? "MPI_Wait" : "MPI_Win_flush");
    }
    void fence() {
        std::vector<int64_t> entered;
        for (size_t r = 0; r < options_.ranks; ++r) {
            put(r, (r + 1) % options_.ranks);
            entered.push_back(enter(r, "MPI_Win_fence"));
        }
        const int64_t last = *std::max_element(entered.begin(), entered.end());
        for (size_t r = 0; r < options_.ranks; ++r) {
            wait(r, last);
            work(r, collective_ns);
            in_window(r, Kind::window_collective);
            leave(r, "MPI_Win_fence");
            for (size_t i = 0; i < options_.ranks; ++i) order(i, entered[i], r);
        }
    }
    int64_t post(size_t r, const std::vector<size_t>& origins) {
        const int64_t posted = enter(r, "MPI_Win_post");
        for (const size_t origin : origins) in_window(r, Kind::notify_out, origin);
        work(r, call_ns);
        leave(r, "MPI_Win_post");
        return posted;
    }
    void start(size_t r, const std::vector<size_t>& targets, int64_t posted) {  // posted: 0 where it does not wait
        enter(r, "MPI_Win_start");
        if (posted > 0) wait(r, posted + latency_ns);
        work(r, posted > 0 ? overhead_ns : call_ns);
        for (const size_t target : targets) in_window(r, Kind::notify_in, target);
        leave(r, "MPI_Win_start");
    }
    // Gives the time of its Enter, and that at which its notices leave.
    std::pair<int64_t, int64_t> complete(size_t r, const std::vector<size_t>& targets, int64_t posted) {
        const int64_t entered = enter(r, "MPI_Win_complete");
        for (const size_t target : targets) in_window(r, Kind::notify_out, target);
        wait(r, posted + latency_ns);
        const int64_t notified = ranks_[r].now;
        work(r, overhead_ns);
        for (const size_t target : targets) in_window(r, Kind::notify_in, target);
        leave(r, "MPI_Win_complete");
        return {entered, notified};
    }
    void wait_window(size_t r, const std::vector<size_t>& origins, int64_t notified) {
        enter(r, "MPI_Win_wait");
        wait(r, notified + latency_ns);
        work(r, overhead_ns);
        for (const size_t origin : origins) in_window(r, Kind::notify_in, origin);
        leave(r, "MPI_Win_wait");
    }
    void post_start_complete_wait(bool start_waits) {
        const size_t n = options_.ranks;
        const auto partners = [&](size_t r) {
            std::vector<size_t> list{(r + n - 1) % n};
            if (n > 2) list.push_back((r + 1) % n);
            return list;
        };
        const auto latest = [&](size_t r, const std::vector<int64_t>& times) {
            int64_t last = 0;
            for (const size_t partner : partners(r)) last = std::max(last, times[partner]);
            return last;
        };
        std::vector<int64_t> posted(n), entered(n), notified(n);
        for (size_t r = 0; r < n; ++r) posted[r] = post(r, partners(r));
        for (size_t r = 0; r < n; ++r) {
            work(r, draw(0, 10'000));
            start(r, partners(r), start_waits ? latest(r, posted) : 0);
            put(r, partners(r).front());
            work(r, draw(0, 10'000));
            std::tie(entered[r], notified[r]) = complete(r, partners(r), latest(r, posted));
            for (const size_t partner : partners(r)) order(partner, posted[partner], r);
        }
        for (size_t r = 0; r < n; ++r) {
            wait_window(r, partners(r), latest(r, notified));
            for (const size_t partner : partners(r)) order(partner, entered[partner], r);
        }
    }
    void post_after_message() {  // the target posts only when it has had a message that the origin sent after its start
        const size_t origin = draw_rank(), target = (origin + 1) % options_.ranks;
        start(origin, {target}, 0);
        const int64_t sent = send(origin, target, 7, 8);
        receive(origin, target, 7, 8, sent, false);
        const int64_t posted = post(target, {origin});
        const auto [entered, notified] = complete(origin, {target}, posted);
        order(target, posted, origin);
        wait_window(target, {origin}, notified);
        order(origin, entered, target);
    }

    // All change something at one rank, first come, first served; some only look. `lazy`: the unlock waits in place of the lock.
    void locks(bool lazy) {
        const size_t target = draw_rank();
        struct Held {
            size_t rank;
            int64_t released;
        };
        std::vector<Held> before;  // the last exclusive one, or those who have looked since
        std::vector<Held> excluded;
        std::vector<size_t> turns(options_.ranks);
        std::iota(turns.begin(), turns.end(), 0);
        std::sort(turns.begin(), turns.end(), [&](size_t a, size_t b) { return std::tie(ranks_[a].now, a) < std::tie(ranks_[b].now, b); });
        for (const size_t r : turns) {
            const bool shared = draw(0, 3) == 0;
            const int64_t asked = enter(r, "MPI_Win_lock");
            lock(r, Kind::lock, target, shared);
            const std::vector<Held>& holders = shared ? excluded : before;
            const auto have = [&] {
                for (const Held& held : holders)
                    if (asked < held.released) wait(r, held.released + latency_ns);
            };
            if (!lazy) have();
            work(r, lazy ? call_ns : overhead_ns);
            lock(r, Kind::lock, target, shared);
            leave(r, "MPI_Win_lock");
            put(r, target);
            put_and_wait(r, target, draw(0, 1) == 0);
            work(r, draw(0, 20'000));
            enter(r, "MPI_Win_unlock");
            if (lazy) have();
            const int64_t released = ranks_[r].now;
            work(r, lazy ? overhead_ns : call_ns);
            lock(r, Kind::unlock, target, shared);
            leave(r, "MPI_Win_unlock");
            if (!shared) {
                before.clear();
                excluded = {{r, released}};
            } else if (before.size() == 1 && excluded.size() == 1 && before[0].rank == excluded[0].rank) {
                before.clear();
            }
            before.push_back({r, released});
        }
    }
    void lock(size_t r, Kind kind, size_t target, bool shared) {
        in_window(r, kind, target);
        if (!options_.unrecorded) program_.trace.records[r].back().mode = shared ? OTF2_LOCK_SHARED : OTF2_LOCK_EXCLUSIVE;
    }
};

}  // namespace polter::test
