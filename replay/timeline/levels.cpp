// SPDX-License-Identifier: BSD-3-Clause
#include "levels.hpp"

#include <algorithm>
#include <tuple>

namespace polter::replay {

namespace {

// Four buckets become one; of delays the last one counts.
Level coarser(const Level& fine, size_t rows) {
    constexpr size_t by = 4;
    Level level;
    level.bucket_ns = fine.bucket_ns * static_cast<int64_t>(by);
    level.buckets = (fine.buckets + by - 1) / by;
    const auto summed = [&](const std::vector<int64_t>& cells) {
        std::vector<int64_t> sums(rows * level.buckets, 0);
        for (size_t row = 0; row < rows; ++row)
            for (size_t i = 0; i < fine.buckets; ++i) sums[row * level.buckets + i / by] += cells[row * fine.buckets + i];
        return sums;
    };
    level.mpi = summed(fine.mpi);
    level.waiting = summed(fine.waiting);
    level.without_mpi = summed(fine.without_mpi);
    level.without_waiting = summed(fine.without_waiting);
    for (const auto& [account, cells] : fine.noise) level.noise[account] = summed(cells);
    level.delay.resize(rows * level.buckets);
    for (size_t row = 0; row < rows; ++row)
        for (size_t i = 0; i < level.buckets; ++i)
            level.delay[row * level.buckets + i] = fine.delay[row * fine.buckets + std::min(i * by + by, fine.buckets) - 1];
    return level;
}

bool grew_more(const Way& a, const Way& b) {
    return std::make_tuple(-a.growth, a.leave, a.rank) < std::make_tuple(-b.growth, b.leave, b.rank);
}

}  // namespace

bool Intervals::note(const Thread& thread, int64_t delay, FollowedInterval& interval) {
    if (thread.in_call && thread.now > thread.enter) return false;  // inside a call
    Open& open = open_[thread.index];
    const bool ended = open.begun;
    if (ended) interval = {open.since, thread.now, open.delay, delay, open.in_call, {}};
    if (ended && open.in_call) interval.call = thread.engine->concluded();
    open = {thread.now, delay, thread.in_call, true};
    return ended;
}

Levels::Levels(size_t ranks, size_t threads, size_t accounts, int64_t first, int64_t last, size_t all)
    : first_(first),
      span_(std::max<int64_t>(1, last - first)),
      all_(all),
      ranks_per_row_(std::max<size_t>(1, (ranks + most_drawn_rows - 1) / most_drawn_rows)),
      intervals_(threads),
      threads_(threads),
      seen_(threads, nullptr),
      growths_(growth_buckets) {
    timeline_.span_ns = span_;
    timeline_.ranks_per_row = static_cast<int64_t>(ranks_per_row_);
    timeline_.rows = (ranks + ranks_per_row_ - 1) / ranks_per_row_;
    const auto most = static_cast<int64_t>(std::clamp(most_cells / std::max<size_t>(1, timeline_.rows), least_buckets, most_buckets));
    while ((span_ >> shift_) >= most) ++shift_;
    finest_.bucket_ns = int64_t{1} << shift_;
    finest_.buckets = static_cast<size_t>((span_ >> shift_) + 1);
    for (auto* cells : {&finest_.mpi, &finest_.waiting, &finest_.without_mpi, &finest_.without_waiting, &finest_.delay})
        cells->assign(timeline_.rows * finest_.buckets, 0);
    for (size_t account = 0; account < accounts; ++account) finest_.noise[static_cast<uint16_t>(account)];
}

Observers Levels::following(Observers others) {
    others.at_noise = [this, further = std::move(others.at_noise)](const Thread& thread, const PendingNoise& record, int64_t begin,
                                                                   int64_t end) {
        note_noise(thread, record, begin, end);
        if (further) further(thread, record, begin, end);
    };
    others.at_event = [this, further = std::move(others.at_event)](const Thread& thread, int64_t time, const int64_t* delay) {
        note(thread, delay[all_]);
        if (further) further(thread, time, delay);
    };
    return others;
}

void Levels::add(std::vector<int64_t>& cells, const Thread& thread, int64_t begin, int64_t end) const {
    begin = std::clamp<int64_t>(begin - first_, 0, span_);
    end = std::clamp<int64_t>(end - first_, 0, span_);
    int64_t* const to = cells.data() + row(thread) * finest_.buckets;
    while (begin < end) {
        const int64_t bucket = begin >> shift_, upto = std::min(end, (bucket + 1) << shift_);
        to[bucket] += upto - begin;
        begin = upto;
    }
}

void Levels::stand(const Thread& thread, size_t bucket) {
    OfThread& own = threads_[thread.index];
    for (; own.bucket < bucket; ++own.bucket) {
        int64_t& cell = finest_.delay[row(thread) * finest_.buckets + own.bucket];
        cell = std::max(cell, own.delay);
    }
}

void Levels::note(const Thread& thread, int64_t delay) {
    if (!thread.carries_rank) return;
    seen_[thread.index] = &thread;
    FollowedInterval interval;
    if (!intervals_.note(thread, delay, interval)) return;
    stand(thread, static_cast<size_t>(std::clamp<int64_t>(interval.end - first_, 0, span_) >> shift_));
    threads_[thread.index].delay = delay;
    if (!interval.in_call) return;
    add(finest_.mpi, thread, interval.begin, interval.end);
    add(finest_.waiting, thread, interval.begin, std::min(interval.call.waited_until, interval.end));
    const int64_t begin = interval.begin - interval.begin_delay, end = interval.end - interval.end_delay;
    add(finest_.without_mpi, thread, begin, end);
    add(finest_.without_waiting, thread, begin, std::min(interval.call.approximated_until, end));
    if (interval.end_delay > interval.begin_delay) note_growth(thread, interval);
}

void Levels::note_growth(const Thread& thread, const FollowedInterval& interval) {
    Way way;
    way.rank = thread.rank;
    way.enter = interval.begin;
    way.leave = interval.end;
    way.before = interval.begin_delay;
    way.growth = interval.end_delay - interval.begin_delay;
    way.place = thread.place();
    way.node = thread.node;
    const double part = static_cast<double>(interval.end - first_) / static_cast<double>(span_);
    const auto bucket = static_cast<size_t>(part * growth_buckets);
    auto& list = growths_[std::min(bucket, growth_buckets - 1)];
    if (list.size() == growths_each && !grew_more(way, list.back())) return;
    list.insert(std::upper_bound(list.begin(), list.end(), way, grew_more), way);
    if (list.size() > growths_each) list.pop_back();
}

void Levels::note_noise(const Thread& thread, const PendingNoise& record, int64_t begin, int64_t end) {
    if (!thread.carries_rank) return;
    auto& cells = finest_.noise[record.account];
    if (cells.empty()) cells.assign(timeline_.rows * finest_.buckets, 0);
    add(cells, thread, begin, end);
    // The first piece of a record; what was moved to earlier intervals is counted with the record that it comes from.
    uint32_t& counted = threads_[thread.index].record;
    if (counted == thread.noise_records || record.carried_from != 0) return;
    counted = thread.noise_records;
    timeline_.durations[record.account].add(record.ns);
}

Timeline Levels::finish() {
    for (const Thread* thread : seen_)
        if (thread) stand(*thread, finest_.buckets);
    std::erase_if(finest_.noise, [](const auto& entry) { return entry.second.empty(); });
    timeline_.levels.push_back(std::move(finest_));
    while (timeline_.levels.back().buckets > 96) timeline_.levels.push_back(coarser(timeline_.levels.back(), timeline_.rows));
    for (auto& list : growths_) timeline_.ways.list.insert(timeline_.ways.list.end(), list.begin(), list.end());
    std::sort(timeline_.ways.list.begin(), timeline_.ways.list.end(), grew_more);
    return std::move(timeline_);
}

}  // namespace polter::replay
