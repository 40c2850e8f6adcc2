// SPDX-License-Identifier: BSD-3-Clause
// Results made by hand, for the tests of what is shown of them.
#pragma once

#include <string>
#include <utility>

#include "replay/replay.hpp"

namespace polter::test {

inline replay::SourceResult source(const char* name, double stolen, int64_t share) {
    replay::SourceResult out;
    out.name = name;
    out.local = {stolen, static_cast<int64_t>(stolen)};
    out.alone_ns = out.without_ns = out.share_ns = share;
    if (stolen > 0) out.amplification = static_cast<double>(share) / stolen;
    return out;
}

// 2 ranks, 5.72 s of which 1.88 s are noise; no attribution.
inline replay::Result ring() {
    replay::Result r;
    r.trace = "somewhere/polter-ring";
    r.ranks = 2;
    r.events = 4711;
    r.measured_ns = 5'720'000'000;
    r.approximated_ns = 3'840'000'000;
    r.bounds_low_ns = 3'838'000'000;
    r.bounds_high_ns = 3'861'000'000;
    r.accumulated_noise_ns = 1'880'000'000;
    r.local = r.removed_local = {1'060'000'000, 1'120'000'000};
    r.amplification = 1.77;
    r.sources = {source("timer", 13'000'000, 12'100'000),   source("irq", 20'000, 1'000), source("preempt", 1'030'000'000, 1'854'300'000),
                 source("runqueue", 9'800'000, 10'600'000), source("nmi", 0, 0),          source("gremlins", 7'777'777, 2'999'000)};
    r.culprits = {{"preempt", "rival", 0, 500'000'000, 50},     {"preempt", "apt-get", 1, 400'000'000, 4},
                  {"preempt", "apt-get", 0, 300'000'000, 3},    {"runqueue", "unknown", 0, 9'800'000, 9},
                  {"timer", "local_timer", 0, 13'000'000, 300}, {"irq", "virtio1", 1, 40'000, 1}};
    r.services.push_back({"fault", {}, 0});
    r.services.push_back({"net", {3'000'000, 4'000'000}, 2'000'000});
    r.per_rank.resize(2);
    for (size_t i = 0; i < 2; ++i) {
        replay::RankResult& rank = r.per_rank[i];
        rank.rank = static_cast<int64_t>(i);
        rank.measured_by = "bpf";
        rank.measured_ns = r.measured_ns - rank.rank;
        rank.accumulated_noise_ns = r.accumulated_noise_ns - rank.rank;
        rank.approximated_ns = rank.measured_ns - rank.accumulated_noise_ns;
        rank.local_noise_ns = 1'120'000'000 - rank.rank * 120'000'000;
        rank.sources["preempt"].local_ns = rank.local_noise_ns - 20'000'000;
        rank.sources["timer"].local_ns = 13'000'000;
    }
    r.provenance = {{"PROGRAM", "ring"}, {"MPI", "Open MPI 4.1.4"},
                    {"HOSTS", "vm"},     {"OWN_COST_NS", "240000000"},
                    {"EXPORTER", "bpf"}, {"ACCOUNTS_SEEN", "timer,irq,preempt,runqueue,gremlins,nmi,net"}};
    return r;
}

// The same with what --attribution finds, in 60 intervals.
inline replay::Result attributed_ring() {
    replay::Result r = ring();
    r.attribution = {1, 60, true, {}};
    const auto row = [&](const char* source, const char* culprit, int64_t rank, const char* where, const char* caller, int64_t window,
                         int64_t ns) {
        replay::AttributionRow made;
        made.source = source, made.culprit = culprit, made.rank = rank;
        made.where = where, made.caller = caller, made.window = window, made.ns = ns;
        r.attribution.rows.push_back(std::move(made));
    };
    for (int64_t window = 20; window < 30; ++window) {
        row("preempt", "apt-get", 1, "MPI_Allreduce", "step", window, 20'000'000 + window * 1'000'000);
        row("preempt", "rival", 0, "step", "", window, 118'930'000);
    }
    row("preempt", "apt-get", 1, "MPI_Send", "exchange_with_the_neighbours_of_all_six_sides", 40, 220'000'000);
    row("timer", "local_timer", 0, "step", "", 59, 12'100'000);
    row("runqueue", "unknown", 0, "MPI_Recv", "", 55, 10'600'000);
    row("gremlins", "unknown", 1, "step", "", 56, 2'999'000);
    row("irq", "virtio1", 1, "MPI_Recv", "", 57, 1'000);
    row("preempt", "rival", 1, "MPI_Wait", "step", 58, 0 - 2'000);
    return r;
}

}  // namespace polter::test
