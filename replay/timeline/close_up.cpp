// SPDX-License-Identifier: BSD-3-Clause
#include "close_up.hpp"

#include <algorithm>
#include <tuple>

namespace polter::replay {

std::vector<Stretch> stretches_around(const std::vector<CostlyNoise>& costliest, const Ways& ways, int64_t span, int64_t events,
                                      size_t ranks) {
    if (events <= whole_run_events) return {{0, span}};
    constexpr size_t most_stretches = 24, most_of_noise = 12;
    const size_t count = std::min(costliest.size() + ways.list.size(), most_stretches);
    if (count == 0) return {};
    // In the mean, half of the budget: some parts of a run are denser. A call is two events at least.
    const double items = std::max<double>(400, std::min<double>(static_cast<double>(most_items) / 2 / static_cast<double>(count),
                                                                static_cast<double>(std::max<size_t>(1000, 4 * ranks))));
    const auto width = static_cast<int64_t>(static_cast<double>(span) * items / (static_cast<double>(events) / 2));
    std::vector<Stretch> list;
    const auto add = [&](int64_t begin, int64_t end, int64_t around) {
        list.emplace_back(std::max<int64_t>(0, begin - around), std::min(span, end + around));
    };
    for (size_t i = 0; i < costliest.size() && list.size() < (ways.list.empty() ? most_stretches : most_of_noise); ++i) {
        const CostlyNoise& noise = costliest[i];
        add(noise.at_ns, noise.at_ns + noise.duration_ns, std::max(width / 2, noise.duration_ns / 4));
    }
    // From the origin of a delay to the call in which it grew; many ranks' delays have one origin.
    for (size_t i = 0; i < ways.list.size() && list.size() < most_stretches; ++i) {
        const Way& way = ways.list[i];
        const int64_t origin = way.origin == SIZE_MAX ? way.enter : std::min(way.enter, ways.noise[way.origin].at);
        const int64_t begin = std::max(origin, way.leave - 4 * width);
        const bool shown =
            std::any_of(list.begin(), list.end(), [&](const Stretch& s) { return s.first <= begin && s.second >= way.leave; });
        if (!shown) add(begin, way.leave, std::max(width / 4, (way.leave - begin) / 8));
    }
    std::sort(list.begin(), list.end());
    std::vector<Stretch> joined;
    for (const Stretch& stretch : list) {
        if (!joined.empty() && stretch.first <= joined.back().second)
            joined.back().second = std::max(joined.back().second, stretch.second);
        else
            joined.push_back(stretch);
    }
    return joined;
}

CloseUps::CloseUps(const std::vector<Stretch>& stretches, size_t threads, int64_t first, size_t all)
    : first_(first),
      all_(all),
      most_(stretches.empty() ? 0 : most_items / stretches.size()),
      intervals_(threads),
      arriving_(threads),
      list_(stretches.size()) {
    for (size_t i = 0; i < list_.size(); ++i) std::tie(list_[i].begin, list_[i].end) = stretches[i];
}

Observers CloseUps::following(Observers others) {
    others.at_noise = [this](const Thread& thread, const PendingNoise& record, int64_t begin, int64_t end) {
        if (thread.carries_rank) note_noise(thread, record, begin, end);
    };
    others.at_message = [this](const Thread& thread, const Match& match) {
        if (thread.carries_rank && match.source >= 0) note_message(thread, match);
    };
    others.at_event = [this](const Thread& thread, int64_t, const int64_t* delay) {
        FollowedInterval interval;
        if (thread.carries_rank && intervals_.note(thread, delay[all_], interval) && interval.in_call) note_call(thread, interval);
    };
    return others;
}

template <class Add>
void CloseUps::in_each(int64_t begin, int64_t end, Add add) {
    const auto from = std::partition_point(list_.begin(), list_.end(), [&](const CloseUp& one) { return one.end < begin; });
    for (auto one = from; one != list_.end() && one->begin <= end; ++one) add(*one, static_cast<size_t>(one - list_.begin()));
}

void CloseUps::note_call(const Thread& thread, const FollowedInterval& interval) {
    const CloseUp::Call call{thread.rank,
                             interval.begin - first_,
                             interval.end - first_,
                             std::clamp(interval.call.waited_until, interval.begin, interval.end) - first_,
                             interval.begin_delay,
                             interval.end_delay,
                             std::clamp(interval.call.approximated_until, interval.begin - interval.begin_delay,
                                        std::max(interval.begin - interval.begin_delay, interval.end - interval.end_delay)) -
                                 first_,
                             thread.place()};
    for (const auto& [one, index] : arriving_[thread.index]) {
        CloseUp::Message& message = list_[one].messages[index];
        message.received = call.leave;
        message.received_delay = call.leave_delay;
    }
    arriving_[thread.index].clear();
    in_each(call.enter, call.leave, [&](CloseUp& one, size_t) {
        if (one.calls.size() < most_)
            one.calls.push_back(call);
        else
            one.cut = true;
    });
}

void CloseUps::note_noise(const Thread& thread, const PendingNoise& record, int64_t begin, int64_t end) {
    in_each(begin - first_, end - first_, [&](CloseUp& one, size_t) {
        if (one.noise.size() < most_)
            one.noise.push_back({thread.rank, begin - first_, end - first_, record.account, record.culprit});
        else
            one.cut = true;
    });
}

void CloseUps::note_message(const Thread& thread, const Match& match) {
    const int64_t sent = match.send_time - first_;
    in_each(sent, thread.leave - first_, [&](CloseUp& one, size_t index) {
        if (one.messages.size() >= most_) {
            one.cut = true;
            return;
        }
        arriving_[thread.index].emplace_back(index, one.messages.size());
        one.messages.push_back({match.source, thread.rank, sent, match.send_delay ? match.send_delay[all_] : 0, 0, 0, match.size});
    });
}

std::vector<CloseUp> CloseUps::finish() {
    // The order of reading does not matter.
    for (CloseUp& one : list_) {
        std::sort(one.calls.begin(), one.calls.end(),
                  [](const auto& a, const auto& b) { return std::tie(a.rank, a.enter, a.leave) < std::tie(b.rank, b.enter, b.leave); });
        std::sort(one.noise.begin(), one.noise.end(), [](const auto& a, const auto& b) {
            return std::tie(a.rank, a.begin, a.end, a.account) < std::tie(b.rank, b.begin, b.end, b.account);
        });
        std::sort(one.messages.begin(), one.messages.end(), [](const auto& a, const auto& b) {
            return std::tie(a.sent, a.from, a.to, a.received) < std::tie(b.sent, b.from, b.to, b.received);
        });
    }
    return std::move(list_);
}

}  // namespace polter::replay
