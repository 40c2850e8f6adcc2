// SPDX-License-Identifier: BSD-3-Clause
// The machine on which random programs run: ranks with clocks and noise, and blocking messages between them.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "random_program.hpp"

namespace polter::test {

class RandomMachine {
  protected:
    using Kind = Record::Kind;
    static constexpr int64_t latency_ns = 3'000, overhead_ns = 400, call_ns = 100, collective_ns = 5'000;

    explicit RandomMachine(const ProgramOptions& options) : options_(options), random_(options.seed) {
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

    ProgramOptions options_;
    std::mt19937_64 random_;
    std::vector<Rank> ranks_;
    Program program_;
};

}  // namespace polter::test
