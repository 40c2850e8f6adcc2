// SPDX-License-Identifier: BSD-3-Clause
// Ranks with clocks that noise hits while they work or wait, and what they write: what the simulated machines have in common.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "random_program.hpp"

namespace polter::test {

class NoisyRanks {
  protected:
    using Kind = Record::Kind;

    struct Noise {
        int64_t every_ns, ns;    // mean distance and length of its events; every_ns 0: none
        int64_t only_rank = -1;  // that it hits; −1: all
    };
    struct Rank {
        int64_t now = 0, next_noise = 0, noise_length = 1;
        std::mt19937_64 noise;
        uint64_t request = 0;
    };

    NoisyRanks(size_t ranks, size_t accounts, uint64_t seed, Noise noise) : noise_(noise) {
        program_.trace = TraceSpec(ranks);
        for (size_t i = 0; i < accounts; ++i) program_.trace.accounts.push_back("os:source" + std::to_string(i));
        for (size_t r = 0; r < ranks; ++r) ranks_.push_back({.noise = std::mt19937_64(seed * 1000 + r)});
    }

    void start(size_t r, int64_t now) {
        ranks_[r].now = now;
        schedule_noise(r);
        add(r, Kind::enter, "main");
    }

    void schedule_noise(size_t r) {
        Rank& rank = ranks_[r];
        if (noise_.every_ns == 0 || (noise_.only_rank >= 0 && noise_.only_rank != static_cast<int64_t>(r))) {
            rank.next_noise = INT64_MAX;
            return;
        }
        std::exponential_distribution<double> gap(1.0 / static_cast<double>(noise_.every_ns)), length(1.0 / static_cast<double>(noise_.ns));
        rank.next_noise = std::max(rank.next_noise + rank.noise_length, rank.now) + 1 + static_cast<int64_t>(gap(rank.noise));
        rank.noise_length = 1 + static_cast<int64_t>(length(rank.noise));
    }

    void add_noise(size_t r) {
        Rank& rank = ranks_[r];
        rank.now = rank.next_noise + rank.noise_length;
        Record& record = add(r, Kind::noise);
        record.name = program_.trace.accounts[rank.noise() % program_.trace.accounts.size()];
        record.ns = rank.noise_length;
        record.culprit = "task" + std::to_string(rank.noise() % 3);
        schedule_noise(r);
    }

    // Noise prolongs it.
    void work(size_t r, int64_t ns) {
        Rank& rank = ranks_[r];
        while (rank.next_noise < rank.now + ns) {
            ns -= std::max<int64_t>(0, rank.next_noise - rank.now);
            add_noise(r);
        }
        rank.now += ns;
    }

    // Elastic: only noise at its end prolongs it.
    void wait(size_t r, int64_t until) {
        Rank& rank = ranks_[r];
        while (rank.next_noise < until) add_noise(r);
        rank.now = std::max(rank.now, until);
    }

    // At the rank's time; valid until the next one of the rank.
    Record& add(size_t r, Kind kind, const std::string& name = "") {
        Record record;
        record.kind = kind;
        record.time = ranks_[r].now;
        record.name = name;
        return program_.trace.records[r].emplace_back(record);
    }

    Noise noise_;
    std::vector<Rank> ranks_;
    Program program_;
};

}  // namespace polter::test
