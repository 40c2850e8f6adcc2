// SPDX-License-Identifier: BSD-3-Clause
#include "random_program.hpp"

#include <otf2/otf2.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>

namespace polter::test {

namespace {

using Kind = Record::Kind;

constexpr int64_t latency_ns = 3'000, overhead_ns = 400, call_ns = 100, collective_ns = 5'000;
constexpr int64_t hop_ns = 20'000, own_ns = 300;  // of messages inside collectives

class Simulator {
  public:
    explicit Simulator(const ProgramOptions& options) : options_(options), random_(options.seed) {
        program_.trace = TraceSpec(options.ranks);
        for (size_t i = 0; i < options.accounts; ++i) program_.trace.accounts.push_back("os:source" + std::to_string(i));
        program_.trace.comms.resize(2);
        if (options.windows && !options.unseen) program_.trace.windows.push_back(0);
        for (size_t r = 0; r < options.ranks; r += 2) program_.trace.comms[1].push_back(r);
        for (size_t r = 0; r < options.ranks; ++r) {
            program_.trace.hosts[r] = r < options.ranks / 2 ? "a" : "b";
            ranks_.push_back({0, 0, 1, std::mt19937_64(options.seed * 1000 + r)});
            schedule_noise(r);
            add(r, Kind::enter, "main");
            tick(r);
        }
    }

    Program run() {
        for (size_t step = 0; step < options_.steps; ++step) {
            for (size_t r = 0; r < options_.ranks; ++r) work(r, draw(2'000, 40'000));
            switch (options_.structured ? draw(4, 11) : options_.windows ? draw(7, options_.locks ? 19 : 15) : draw(0, 7)) {
                case 0:
                    send_and_receive();
                    break;
                case 1:
                    exchange();
                    break;
                case 2:
                    collective(0, OTF2_COLLECTIVE_OP_ALLREDUCE, "MPI_Allreduce");
                    break;
                case 3:
                    collective(1, OTF2_COLLECTIVE_OP_BARRIER, "MPI_Barrier");
                    break;
                case 4:
                    rooted();
                    break;
                case 5:
                    options_.wildcards ? any_source() : exchange();
                    break;
                case 6:
                    options_.synchronous ? synchronous() : send_and_receive();
                    break;
                case 7:
                    chain();
                    break;
                case 8:
                case 9:
                    options_.windows ? fence() : barrier_by_dissemination();
                    break;
                case 10:
                    options_.windows ? exchange() : allreduce_by_root();
                    break;
                case 11:
                    options_.windows ? send_and_receive() : reduce_by_tree();
                    break;
                case 12:
                case 13:
                    post_start_complete_wait(true);
                    break;
                case 14:
                    post_start_complete_wait(false);
                    break;
                case 15:
                    post_after_message();
                    break;
                case 16:
                case 17:
                    locks(false);
                    break;
                default:
                    locks(true);
                    break;
            }
        }
        for (size_t r = 0; r < options_.ranks; ++r) {
            tick(r);
            add(r, Kind::leave, "main");
            program_.end = std::max(program_.end, ranks_[r].now);
        }
        return std::move(program_);
    }

  private:
    struct Rank {
        int64_t now, next_noise, noise_length;
        std::mt19937_64 noise;
        uint64_t request = 0;
    };

    int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
    size_t draw_rank() { return static_cast<size_t>(draw(0, static_cast<int64_t>(options_.ranks) - 1)); }

    void schedule_noise(size_t r) {
        Rank& rank = ranks_[r];
        if (options_.noise_every_ns == 0) {
            rank.next_noise = INT64_MAX;
            return;
        }
        std::exponential_distribution<double> gap(1.0 / static_cast<double>(options_.noise_every_ns)),
            length(1.0 / static_cast<double>(options_.noise_ns));
        rank.next_noise = std::max(rank.next_noise + rank.noise_length, rank.now) + 1 + static_cast<int64_t>(gap(rank.noise));
        rank.noise_length = 1 + static_cast<int64_t>(length(rank.noise));
    }

    void strike(size_t r) {
        Rank& rank = ranks_[r];
        rank.now = rank.next_noise + rank.noise_length;
        Record record;
        record.kind = Kind::noise;
        record.time = rank.now;
        record.name = program_.trace.accounts[rank.noise() % options_.accounts];
        record.ns = rank.noise_length;
        record.culprit = "task" + std::to_string(rank.noise() % 3);
        program_.trace.records[r].push_back(record);
        schedule_noise(r);
    }

    void work(size_t r, int64_t ns) {
        Rank& rank = ranks_[r];
        while (rank.next_noise < rank.now + ns) {
            ns -= std::max<int64_t>(0, rank.next_noise - rank.now);
            strike(r);
        }
        rank.now += ns;
    }
    void tick(size_t r) { work(r, 1); }  // so that no two events of a rank have one time
    void wait(size_t r, int64_t until) {
        Rank& rank = ranks_[r];
        while (rank.next_noise < until) strike(r);
        rank.now = std::max(rank.now, until);
    }

    Record& add(size_t r, Kind kind, const std::string& name = "") {
        Record record;
        record.kind = kind;
        record.time = ranks_[r].now;
        record.name = name;
        program_.trace.records[r].push_back(record);
        return program_.trace.records[r].back();
    }
    int64_t enter(size_t r, const std::string& name) {
        tick(r);
        add(r, Kind::enter, name);
        return ranks_[r].now;
    }
    void leave(size_t r, const std::string& name) { add(r, Kind::leave, name); }
    void order(size_t a, int64_t first, size_t b) { program_.orders.push_back({a, b, first, ranks_[b].now}); }

    void message(Record& record, size_t peer, int64_t tag, uint64_t bytes) {
        record.peer = static_cast<int64_t>(peer);
        record.tag = tag;
        record.bytes = bytes;
    }

    int64_t send(size_t from, size_t to, int64_t tag, uint64_t bytes) {
        const int64_t begin = enter(from, "MPI_Send");
        message(add(from, Kind::send), to, tag, bytes);
        work(from, call_ns);
        leave(from, "MPI_Send");
        return begin;
    }
    void receive(size_t from, size_t to, int64_t tag, uint64_t bytes, int64_t sent, bool any) {
        enter(to, "MPI_Recv");
        wait(to, sent + latency_ns);
        work(to, overhead_ns);
        Record& record = add(to, Kind::recv);
        message(record, from, tag, bytes);
        record.wildcard = any;
        leave(to, "MPI_Recv");
        order(from, sent, to);
    }
    void send_and_receive() {
        const size_t from = draw_rank(),
                     to = (from + 1 + static_cast<size_t>(draw(0, static_cast<int64_t>(options_.ranks) - 2))) % options_.ranks;
        const int64_t sent = send(from, to, 5, 64);
        work(to, draw(0, 20'000));
        receive(from, to, 5, 64, sent, false);
    }
    void chain() {
        for (size_t r = 0; r + 1 < options_.ranks; ++r) {
            const int64_t sent = send(r, r + 1, 6, 512);
            receive(r, r + 1, 6, 512, sent, false);
        }
    }
    void any_source() {
        std::vector<std::pair<int64_t, size_t>> sent;
        for (size_t r = 1; r < options_.ranks; ++r) sent.emplace_back(send(r, 0, 9, 64), r);
        std::sort(sent.begin(), sent.end());
        for (const auto& [time, r] : sent) receive(r, 0, 9, 64, time, true);
    }
    void synchronous() {
        const size_t from = draw_rank(), to = (from + 1) % options_.ranks;
        const int64_t begin = enter(from, "MPI_Ssend");
        Record& record = add(from, Kind::send);
        message(record, to, 11, 64);
        record.mode = 1;
        const int64_t posted = enter(to, "MPI_Recv");
        wait(from, posted + latency_ns);
        work(from, call_ns);
        leave(from, "MPI_Ssend");
        order(to, posted, from);
        wait(to, begin + latency_ns);
        work(to, overhead_ns);
        message(add(to, Kind::recv), from, 11, 64);
        leave(to, "MPI_Recv");
        order(from, begin, to);
    }
    void exchange() {  // with both neighbours, receives posted first
        const size_t n = options_.ranks;
        std::vector<int64_t> sent_right(n), sent_left(n);
        std::vector<std::vector<uint64_t>> receives(n), sends(n);
        for (size_t r = 0; r < n; ++r) {
            for (const size_t from : {(r + n - 1) % n, (r + 1) % n}) {
                enter(r, "MPI_Irecv");
                Record& record = add(r, Kind::irecv_request);
                message(record, from, receives[r].empty() ? 20 : 21, 4000);
                record.posted = true;
                record.request = ++ranks_[r].request;
                receives[r].push_back(record.request);
                work(r, call_ns);
                leave(r, "MPI_Irecv");
            }
            for (const size_t to : {(r + 1) % n, (r + n - 1) % n}) {
                const bool right = sends[r].empty();
                (right ? sent_right : sent_left)[r] = enter(r, "MPI_Isend");
                Record& record = add(r, Kind::isend);
                message(record, to, right ? 20 : 21, 4000);
                record.request = ++ranks_[r].request;
                sends[r].push_back(record.request);
                work(r, call_ns);
                leave(r, "MPI_Isend");
            }
            work(r, draw(0, 10'000));
        }
        for (size_t r = 0; r < n; ++r) {
            const size_t left = (r + n - 1) % n, right = (r + 1) % n;
            enter(r, "MPI_Waitall");
            wait(r, std::max(sent_right[left], sent_left[right]) + latency_ns);
            work(r, overhead_ns);
            for (size_t i = 0; i < 2; ++i) {
                Record& record = add(r, Kind::irecv);
                message(record, i == 0 ? left : right, i == 0 ? 20 : 21, 4000);
                record.request = receives[r][i];
            }
            for (const uint64_t request : sends[r]) add(r, Kind::isend_complete).request = request;
            leave(r, "MPI_Waitall");
            order(left, sent_right[left], r);
            order(right, sent_left[right], r);
        }
    }
    std::vector<size_t> members(uint32_t comm) const {
        std::vector<size_t> list;
        for (size_t r = 0; r < options_.ranks; r += comm == 0 ? 1 : 2) list.push_back(r);
        return list;
    }
    void finish_collective(size_t r, uint32_t comm, int operation, int64_t root, const std::string& name) {
        Record& record = add(r, Kind::collective_end);
        record.operation = operation;
        record.comm = comm;
        record.peer = root;
        record.bytes = 8;
        leave(r, name);
    }
    void collective(uint32_t comm, int operation, const std::string& name) {
        std::vector<int64_t> entered;
        for (const size_t r : members(comm)) {
            entered.push_back(enter(r, name));
            add(r, Kind::collective_begin);
        }
        const int64_t last = *std::max_element(entered.begin(), entered.end());
        for (const size_t r : members(comm)) {
            wait(r, last);
            work(r, collective_ns);
            finish_collective(r, comm, operation, 0, name);
            const auto all = members(comm);
            for (size_t i = 0; i < all.size(); ++i) order(all[i], entered[i], r);
        }
    }
    void rooted() {  // a broadcast from a random root
        const size_t root = draw_rank();
        const int64_t came = enter(root, "MPI_Bcast");
        add(root, Kind::collective_begin);
        work(root, call_ns);
        finish_collective(root, 0, OTF2_COLLECTIVE_OP_BCAST, static_cast<int64_t>(root), "MPI_Bcast");
        for (size_t r = 0; r < options_.ranks; ++r) {
            if (r == root) continue;
            enter(r, "MPI_Bcast");
            add(r, Kind::collective_begin);
            wait(r, came + latency_ns);
            work(r, overhead_ns);
            finish_collective(r, 0, OTF2_COLLECTIVE_OP_BCAST, static_cast<int64_t>(root), "MPI_Bcast");
            order(root, came, r);
        }
    }

    // One-sided communication on window 0, of all ranks.
    void in_window(size_t r, Kind kind, size_t peer = 0) {
        if (options_.unseen) return;
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
        std::vector<Held> before;  // the last that shut others out, or those who have looked since
        std::vector<Held> shut_out;
        std::vector<size_t> turns(options_.ranks);
        std::iota(turns.begin(), turns.end(), 0);
        std::sort(turns.begin(), turns.end(), [&](size_t a, size_t b) { return std::tie(ranks_[a].now, a) < std::tie(ranks_[b].now, b); });
        for (const size_t r : turns) {
            const bool shared = draw(0, 3) == 0;
            const int64_t asked = enter(r, "MPI_Win_lock");
            lock(r, Kind::lock, target, shared);
            const std::vector<Held>& holders = shared ? shut_out : before;
            const auto have = [&] {
                for (const Held& held : holders)
                    if (asked < held.released) wait(r, held.released + latency_ns);
            };
            if (!lazy) have();
            work(r, lazy ? call_ns : overhead_ns);
            lock(r, Kind::lock, target, shared);
            leave(r, "MPI_Win_lock");
            put(r, target);
            work(r, draw(0, 20'000));
            enter(r, "MPI_Win_unlock");
            if (lazy) have();
            const int64_t released = ranks_[r].now;
            work(r, lazy ? overhead_ns : call_ns);
            lock(r, Kind::unlock, target, shared);
            leave(r, "MPI_Win_unlock");
            if (!shared) {
                before.clear();
                shut_out = {{r, released}};
            } else if (before.size() == 1 && shut_out.size() == 1 && before[0].rank == shut_out[0].rank) {
                before.clear();
            }
            before.push_back({r, released});
        }
    }
    void lock(size_t r, Kind kind, size_t target, bool shared) {
        in_window(r, kind, target);
        if (!options_.unseen) program_.trace.records[r].back().mode = shared ? OTF2_LOCK_SHARED : OTF2_LOCK_EXCLUSIVE;
    }

    std::vector<int64_t> enter_all(const std::string& name) {
        std::vector<int64_t> entered;
        for (size_t r = 0; r < options_.ranks; ++r) {
            entered.push_back(enter(r, name));
            add(r, Kind::collective_begin);
        }
        return entered;
    }
    int64_t pass_on(size_t from) {
        work(from, own_ns);
        return ranks_[from].now + hop_ns;
    }
    void take(size_t r, int64_t arrival) {
        wait(r, arrival);
        work(r, own_ns);
    }
    void finish_all(const std::vector<int64_t>& entered, int operation, const std::string& name) {
        for (size_t r = 0; r < options_.ranks; ++r) {
            finish_collective(r, 0, operation, 0, name);
            for (size_t i = 0; i < options_.ranks; ++i) order(i, entered[i], r);
        }
    }
    void barrier_by_dissemination() {
        const size_t n = options_.ranks;
        const auto entered = enter_all("MPI_Barrier");
        std::vector<int64_t> arrival(n);
        for (size_t distance = 1; distance < n; distance *= 2) {
            for (size_t r = 0; r < n; ++r) arrival[(r + distance) % n] = pass_on(r);
            for (size_t r = 0; r < n; ++r) take(r, arrival[r]);
        }
        finish_all(entered, OTF2_COLLECTIVE_OP_BARRIER, "MPI_Barrier");
    }
    void allreduce_by_root() {  // everybody to rank 0, which takes them as they come; a binomial tree back
        const size_t n = options_.ranks;
        const auto entered = enter_all("MPI_Allreduce");
        std::vector<int64_t> arrivals;
        for (size_t r = 1; r < n; ++r) arrivals.push_back(pass_on(r));
        std::sort(arrivals.begin(), arrivals.end());
        for (const int64_t arrival : arrivals) take(0, arrival);
        size_t span = 1;
        while (span < n) span *= 2;
        for (; span > 1; span /= 2)  // who has it gives it half the span further
            for (size_t r = 0; r + span / 2 < n; r += span) take(r + span / 2, pass_on(r));
        finish_all(entered, OTF2_COLLECTIVE_OP_ALLREDUCE, "MPI_Allreduce");
    }
    void reduce_by_tree() {  // binomial, small subtrees first
        const size_t n = options_.ranks;
        const auto entered = enter_all("MPI_Reduce");
        for (size_t span = 1; span < n; span *= 2)
            for (size_t r = 0; r + span < n; r += 2 * span) take(r, pass_on(r + span));
        for (size_t r = 0; r < n; ++r) finish_collective(r, 0, OTF2_COLLECTIVE_OP_REDUCE, 0, "MPI_Reduce");
        for (size_t i = 1; i < n; ++i) order(i, entered[i], 0);
    }

    ProgramOptions options_;
    std::mt19937_64 random_;
    std::vector<Rank> ranks_;
    Program program_;
};

}  // namespace

ProgramOptions mixed_options(uint64_t seed) {
    ProgramOptions options;
    options.seed = seed;
    options.ranks = 2 + seed % 7;
    options.steps = 20 + seed % 40;
    options.accounts = 1 + seed % 4;
    options.noise_every_ns = seed % 5 == 0 ? 5'000 : 40'000;
    options.noise_ns = seed % 3 == 0 ? 10'000 : 1'500;
    options.structured = seed % 4 == 1;
    if (options.structured) options.steps *= 4;  // often enough for the structure to be found
    options.windows = seed % 4 == 3;
    return options;
}

Program random_program(const ProgramOptions& options) {
    return Simulator(options).run();
}

}  // namespace polter::test
