// SPDX-License-Identifier: BSD-3-Clause
#include "assemble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "analyzers/samples/statistics.hpp"
#include "grouping.hpp"
#include "mutations.hpp"
#include "replay/base/error.hpp"

namespace polter::interference {

namespace {

// Bytes within 10 % of their neighbours become one: in codes that move their data about, each exchange has a few bytes more or less.
void join_similar_bytes(std::vector<Features>& calls) {
    for (const Feature feature : {bytes_sent, bytes_received}) {
        std::vector<double> values;
        for (const Features& one : calls) values.push_back(static_cast<double>(one[feature]));
        const std::vector<uint32_t> clusters = cluster(values);
        std::map<uint32_t, uint64_t> least;
        for (size_t i = 0; i < calls.size(); ++i) {
            const auto [place, is_new] = least.try_emplace(clusters[i], calls[i][feature]);
            if (!is_new) place->second = std::min(place->second, calls[i][feature]);
        }
        for (size_t i = 0; i < calls.size(); ++i) calls[i][feature] = least.at(clusters[i]);
    }
}

}  // namespace

void assemble(Run& run, const std::string& name, const std::vector<RankSegments>& ranks, std::vector<Features> calls) {
    size_t least = std::numeric_limits<size_t>::max(), most = 0;
    for (const RankSegments& rank : ranks) {
        least = std::min(least, rank.ends.size());
        most = std::max(most, rank.ends.size());
    }
    if (most == 0)
        throw replay::InputError(name +
                                 ": has fewer than two blocking collectives of all ranks that all of them wait for (Barrier, "
                                 "Allreduce, Allgather, Alltoall, Reduce_scatter); interference cannot be estimated between them");
    if (least < 2)
        throw replay::InputError(
            fmt::format("{}: {} of its ranks; segments between blocking collectives can only be compared where there "
                        "are several",
                        name, least == 0 ? "no whole segment is on one" : "only one segment is on one"));
    if (least < most)
        run.warnings.push_back(fmt::format("ranks have between {} and {} segments, as the trace ends early on some: the first {} are used",
                                           least, most, least));
    join_similar_bytes(calls);
    std::map<Features, uint32_t> ids;
    std::vector<uint32_t> id_of_raw;
    for (const Features& one : calls) id_of_raw.push_back(ids.try_emplace(one, static_cast<uint32_t>(ids.size())).first->second);
    run.calls.resize(ids.size());
    for (const auto& [features, id] : ids) run.calls[id] = features;
    std::map<std::vector<uint32_t>, uint32_t> kinds;
    int64_t end = 0, last = 0;
    for (const RankSegments& rank : ranks) {
        end = std::max(end, rank.first);
        last = std::max(last, rank.last);
    }
    run.before = end;
    bool counts = false;
    for (size_t s = 0; s < least; ++s) {
        Segment segment;
        std::vector<double> computing;
        std::vector<uint32_t> kind;
        for (const RankSegments& rank : ranks) {
            if (&rank == &ranks.front() || !mutated(Mutation::first_rank_alone)) segment.end = std::max(segment.end, rank.ends[s]);
            if (s < rank.entered.size() && (segment.slowest < 0 || rank.entered[s] > segment.entered)) {
                segment.entered = rank.entered[s];
                segment.slowest = static_cast<int32_t>(&rank - ranks.data());
            }
            computing.push_back(rank.computing[s]);
            kind.push_back(id_of_raw[rank.calls[s]]);
        }
        if (std::all_of(kind.begin(), kind.end(), [&](uint32_t id) { return id == kind.front(); })) kind.resize(1);
        segment.duration = segment.end - end;
        segment.computing = samples::median(std::move(computing));
        counts = counts || segment.computing > 0;
        segment.kind = kinds.try_emplace(std::move(kind), static_cast<uint32_t>(kinds.size())).first->second;
        end = segment.end;
        run.segments.push_back(segment);
    }
    run.after = std::max<int64_t>(0, last - end);
    run.kinds.resize(kinds.size());
    for (const auto& [kind, id] : kinds) run.kinds[id] = kind;
    if (!counts) run.counter.clear();
}

}  // namespace polter::interference
