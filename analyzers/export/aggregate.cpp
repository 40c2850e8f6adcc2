// SPDX-License-Identifier: BSD-3-Clause
#include "aggregate.hpp"

#include <algorithm>
#include <limits>

namespace polter::exports {

std::vector<CounterName> Aggregate::names(const replay::Definitions& definitions) {
    std::vector<CounterName> list;
    for (const auto& counter : definitions.counters) list.push_back({counter.name, counter.unit});
    list.push_back({"time in MPI", "%"});
    for (const auto& account : definitions.accounts)
        list.push_back({(account.service ? "" : "noise: ") + replay::display_name(account), "%"});
    return list;
}

Aggregate::Aggregate(TimelineWriter& to, const replay::Definitions& definitions, int64_t begin_ns, int64_t length_ns, size_t intervals)
    : to_(to), definitions_(definitions), begin_ns_(begin_ns), length_ns_(std::max<int64_t>(1, length_ns)), intervals_(intervals) {}

int64_t Aggregate::begin_of(size_t interval) const {
    const auto offset = static_cast<__int128>(length_ns_) * static_cast<__int128>(interval) / static_cast<__int128>(intervals_);
    return begin_ns_ + static_cast<int64_t>(offset);
}

size_t Aggregate::interval(int64_t time) const {
    const auto at = static_cast<__int128>(std::clamp<int64_t>(time - begin_ns_, 0, length_ns_ - 1)) * static_cast<__int128>(intervals_);
    size_t found = static_cast<size_t>(at / length_ns_);
    while (found + 1 < intervals_ && begin_of(found + 1) <= time) ++found;  // begin_of() rounds down
    return found;
}

void Aggregate::begin(const Place& place) {
    to_.begin(place);
    values_.assign(names(definitions_).size(), {});
    open_.clear();
    in_mpi_ = 0;
}

void Aggregate::add(size_t series, int64_t begin, int64_t end) {
    auto& sums = values_[series];
    if (sums.empty()) sums.assign(intervals_, 0);
    for (size_t i = interval(begin); i < intervals_ && begin_of(i) < end; ++i) {
        const int64_t until = i + 1 == intervals_ ? end : std::min(end, begin_of(i + 1));
        sums[i] += static_cast<double>(until - std::max(begin, begin_of(i)));
    }
}

void Aggregate::enter(int64_t time, uint32_t, bool mpi) {
    if (mpi && in_mpi_++ == 0) mpi_since_ = time;
    open_.push_back(mpi);
}

void Aggregate::leave(int64_t time) {
    const bool mpi = open_.back();
    open_.pop_back();
    if (mpi && --in_mpi_ == 0) add(definitions_.counters.size(), mpi_since_, time);
}

void Aggregate::noise(const NoiseSlice& slice) {
    add(definitions_.counters.size() + 1 + static_cast<size_t>(slice.account), slice.begin, slice.end);
}

void Aggregate::counter(int64_t time, size_t counter, double value) {
    auto& values = values_[counter];
    if (values.empty()) values.assign(intervals_, std::numeric_limits<double>::quiet_NaN());
    values[interval(time)] = value;
}

// Where a value stays, nothing is written.
void Aggregate::end() {
    for (size_t series = 0; series < values_.size(); ++series) {
        const bool of_trace = series < definitions_.counters.size();
        double before = of_trace ? std::numeric_limits<double>::quiet_NaN() : -1;
        for (size_t i = 0; i < values_[series].size(); ++i) {
            const auto length = static_cast<double>(std::max<int64_t>(1, begin_of(i + 1) - begin_of(i)));
            const double value = of_trace ? values_[series][i] : 100 * values_[series][i] / length;
            if (value != value || value == before) continue;
            to_.counter(begin_of(i), series, value);
            before = value;
        }
    }
    to_.end();
}

}  // namespace polter::exports
