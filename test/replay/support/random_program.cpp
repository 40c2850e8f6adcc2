// SPDX-License-Identifier: BSD-3-Clause
#include "random_program.hpp"

#include <otf2/otf2.h>

#include <algorithm>

#include "random_windows.hpp"

namespace polter::test {

namespace {

constexpr int64_t hop_ns = 20'000, own_ns = 300;  // of messages inside collectives

class ProgramSimulator : RandomWindows {
  public:
    explicit ProgramSimulator(const ProgramOptions& options) : RandomWindows(options) {}

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
    return ProgramSimulator(options).run();
}

Program mixed_program(uint64_t seed) {
    ProgramOptions options = mixed_options(seed);
    options.locks = seed % 8 == 3;
    return random_program(options);
}

}  // namespace polter::test
