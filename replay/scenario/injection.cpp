// SPDX-License-Identifier: BSD-3-Clause
#include "injection.hpp"

#include <algorithm>
#include <cmath>

namespace polter::replay {

namespace {

// A random number in (0, 1] from three numbers alone, without a generator's state: any event can be computed without those before it.
double draw(uint64_t seed, uint64_t rank, uint64_t number) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + (rank + 1) * 0xbf58476d1ce4e5b9u + number * 0x94d049bb133111ebu;
    for (int round = 0; round < 2; ++round) {
        x ^= x >> 30;
        x *= 0xbf58476d1ce4e5b9u;
        x ^= x >> 27;
        x *= 0x94d049bb133111ebu;
        x ^= x >> 31;
    }
    return (static_cast<double>(x >> 11) + 1) / 9007199254740992.0;
}

int64_t exponential(double uniform, int64_t mean) {
    return std::max<int64_t>(1, std::llround(-std::log(uniform) * static_cast<double>(mean)));
}

}  // namespace

bool InjectedSource::hits(int32_t rank) const {
    if (arrival == Arrival::events) return events.contains(rank);
    return ranks.empty() || std::binary_search(ranks.begin(), ranks.end(), rank);
}

InjectedClock::InjectedClock(const std::vector<InjectedSource>& sources, uint64_t which, int32_t rank, int64_t begin)
    : rank_(rank), origin_(begin), noise_ns_(which == 0 ? 0 : sources.size(), 0) {
    for (size_t i = 0; i < sources.size(); ++i) {
        if (!(which >> i & 1) || !sources[i].hits(rank)) continue;
        Stream stream{&sources[i], i};
        stream.begin = begin;
        advance(stream);
        streams_.push_back(stream);
    }
}

void InjectedClock::advance(Stream& stream) const {
    const InjectedSource& source = *stream.source;
    const uint64_t k = stream.number++;
    const auto rank = static_cast<uint64_t>(rank_);
    switch (source.arrival) {
        case InjectedSource::Arrival::events: {
            const auto& list = source.events.at(rank_);
            const bool over = k >= list.size();
            stream.begin = over ? INT64_MAX : origin_ + list[k].begin;
            stream.duration = over ? 0 : list[k].duration;
            return;
        }
        case InjectedSource::Arrival::periodic:
            if (k == 0)
                stream.begin =
                    origin_ + (source.phase >= 0 ? source.phase
                                                 : static_cast<int64_t>(draw(source.seed, rank, 0) * static_cast<double>(source.period)));
            else
                stream.begin += source.period;
            stream.duration = source.duration;
            return;
        case InjectedSource::Arrival::random:
            stream.begin += exponential(draw(source.seed, rank, 2 * k), source.period);
            stream.duration = exponential(draw(source.seed, rank, 2 * k + 1), source.duration);
            return;
    }
}

bool InjectedClock::have_upcoming() {
    if (known_) return true;
    Stream* next = nullptr;
    for (Stream& stream : streams_)
        if (stream.begin != INT64_MAX && (!next || stream.begin < next->begin)) next = &stream;
    if (!next) return false;
    upcoming_ = {std::max(next->begin, last_end_), next->duration};
    upcoming_source_ = next->index;
    advance(*next);
    return known_ = true;
}

int64_t InjectedClock::finish(int64_t now, int64_t work) {
    while (have_upcoming()) {
        const int64_t end = upcoming_.begin + upcoming_.duration;
        if (upcoming_.begin <= now) {  // earlier events hit while the rank waited and cost nothing
            now = std::max(now, end);
        } else if (upcoming_.begin < now + work) {
            work -= upcoming_.begin - now;
            now = end;
        } else {
            break;
        }
        serve();
    }
    return now + work;
}

void InjectedClock::serve() {
    last_end_ = upcoming_.begin + upcoming_.duration;
    noise_ns_[upcoming_source_] += upcoming_.duration;
    known_ = false;
}

void InjectedClock::skip(int64_t now) {
    while (have_upcoming() && upcoming_.begin + upcoming_.duration <= now) serve();
}

Injection::Injection(const std::vector<InjectedSource>& sources, const std::vector<uint64_t>& sets, int32_t ranks, int64_t begin)
    : sets_(sets) {
    clocks_.reserve(static_cast<size_t>(ranks) * sets.size());
    for (int32_t rank = 0; rank < ranks; ++rank)
        for (const uint64_t set : sets) clocks_.emplace_back(sources, set, rank, begin);
}

std::vector<InjectedClock> Injection::copies(int32_t rank, int64_t time, const int64_t* delay, bool mirror) {
    std::vector<InjectedClock> clocks;
    clocks.reserve(sets_.size());
    for (size_t lane = 0; lane < sets_.size(); ++lane) {
        InjectedClock& own = clock(rank, lane);
        if (mirror) own.skip(time - delay[lane]);
        clocks.push_back(own);
        clocks.back().skip(time - delay[lane]);
    }
    return clocks;
}

void Injection::work(int32_t rank, int64_t from, int64_t to, int64_t* delay) {
    for (size_t lane = 0; lane < sets_.size(); ++lane)
        if (hits(lane)) delay[lane] = to - clock(rank, lane).finish(from - delay[lane], to - from);
}

void Injection::look_ahead(int32_t rank, int64_t from, int64_t to, int64_t* delay) const {
    for (size_t lane = 0; lane < sets_.size(); ++lane) {
        if (!hits(lane)) continue;
        InjectedClock copy = clock(rank, lane);
        delay[lane] = to - copy.finish(from - delay[lane], to - from);
    }
}

}  // namespace polter::replay
