// SPDX-License-Identifier: BSD-3-Clause
// The machine on which random programs run: ranks with clocks and noise, and blocking messages between them.
#pragma once

#include <random>
#include <string>

#include "noisy_ranks.hpp"

namespace polter::test {

class RandomMachine : protected NoisyRanks {
  protected:
    static constexpr int64_t latency_ns = 3'000, overhead_ns = 400, call_ns = 100, collective_ns = 5'000;

    explicit RandomMachine(const ProgramOptions& options)
        : NoisyRanks(options.ranks, options.accounts, options.seed, {options.noise_every_ns, options.noise_ns}),
          options_(options),
          random_(options.seed) {
        program_.trace.comms.resize(2);
        if (options.windows && !options.unrecorded) program_.trace.windows.push_back(0);
        for (size_t r = 0; r < options.ranks; r += 2) program_.trace.comms[1].push_back(r);
        for (size_t r = 0; r < options.ranks; ++r) {
            program_.trace.hosts[r] = r < options.ranks / 2 ? "a" : "b";
            start(r, 0);
            tick(r);
        }
    }

    int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
    size_t draw_rank() { return static_cast<size_t>(draw(0, static_cast<int64_t>(options_.ranks) - 1)); }

    void tick(size_t r) { work(r, 1); }  // so that no two events of a rank have one time
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

    ProgramOptions options_;
    std::mt19937_64 random_;
};

}  // namespace polter::test
