// SPDX-License-Identifier: BSD-3-Clause
// Each event of the injector's log against what the trace has at that time.
#include "match.hpp"

#include <algorithm>
#include <cstdint>
#include <map>

#include "analyzers/export/timeline_reader.hpp"
#include "analyzers/samples/statistics.hpp"

namespace polter::validation {

namespace {

constexpr int64_t slack_ns = 20'000;  // by which the kernel's record may begin earlier or end later
constexpr const char* culprit_name = "polter-inject";

class Slices : public exports::Sink {
  public:
    explicit Slices(const replay::Definitions& definitions) : definitions_(definitions) {}
    void begin(const exports::Place& place) override { rank_ = place.thread == 0 ? place.rank : -1; }
    void enter(int64_t time, uint32_t, bool) override { stretch(time); }
    void leave(int64_t time) override { stretch(time); }
    void noise(const exports::NoiseSlice& slice) override {
        if (rank_ < 0) return;
        const replay::Account& account = definitions_.accounts[static_cast<size_t>(slice.account)];
        of[rank_].push_back({slice.begin, slice.end, account.name == "os:preempt" || account.name == "os:runqueue",
                             slice.culprit != UINT32_MAX && definitions_.culprit_name(slice.culprit) == culprit_name, account.service,
                             account.name == "os:timer"});
    }
    std::map<int32_t, std::vector<Slice>> of;
    std::map<int32_t, int64_t> ends;  // of each rank

  private:
    void stretch(int64_t time) {
        if (rank_ >= 0) ends[rank_] = std::max(ends[rank_], time);
    }
    const replay::Definitions& definitions_;
    int32_t rank_ = -1;
};

int64_t overlap(const Slice& slice, int64_t begin, int64_t end) {
    return std::max<int64_t>(0, std::min(slice.end, end) - std::max(slice.begin, begin));
}

// The interrupt whose end was the begin of an interruption, as far as the trace has it; 0: none.
int64_t woken_by(const std::vector<Slice>& slices, size_t first, int64_t begin) {
    int64_t length = 0;
    for (size_t i = first; i < slices.size() && slices[i].begin < begin; ++i)
        if (slices[i].timer && slices[i].end >= begin - slack_ns) length = std::min(slices[i].end, begin) - slices[i].begin;
    return length;
}

}  // namespace

Found match_rank(const std::vector<inject::Injected>& events, std::vector<Slice> slices, int64_t origin, int64_t rank_end) {
    Found found;
    std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
    std::vector<bool> explained(slices.size(), false);
    size_t first = 0;
    // The threads of the injector also run when they start and when they are stopped.
    const int64_t from = events.empty() ? 0 : events.front().begin_ns - origin - slack_ns;
    const int64_t to = events.empty() ? 0 : events.back().begin_ns + events.back().duration_ns - origin + slack_ns;
    for (size_t number = 0; number < events.size(); ++number) {
        const inject::Injected& event = events[number];
        const int64_t begin = event.begin_ns - origin, end = begin + event.duration_ns;
        // Where the rank did not run between two events, one interruption is of both.
        int64_t from_there = INT64_MIN, until_there = INT64_MAX;
        if (number > 0) from_there = (events[number - 1].begin_ns + events[number - 1].duration_ns - origin + begin) / 2;
        if (number + 1 < events.size()) until_there = (end + events[number + 1].begin_ns - origin) / 2;
        if (begin < 0 || end > rank_end) continue;  // before MPI_Init or after MPI_Finalize nothing is recorded
        while (first < slices.size() && slices[first].end < begin - 1'000'000'000) ++first;
        int64_t ours = 0, preempted = 0, any = 0, named = 0, covered = 0, first_ours = INT64_MAX, last_ours = 0;
        for (size_t i = first; i < slices.size() && slices[i].begin < end + slack_ns; ++i) {
            const int64_t inside = overlap(slices[i], begin - slack_ns, end + slack_ns);
            if (inside <= 0) continue;
            if (overlap(slices[i], begin, end) > 0) any += slices[i].service ? 0 : overlap(slices[i], begin, end);
            if (slices[i].preempt) preempted += overlap(slices[i], begin, end);
            if (!slices[i].ours) continue;
            explained[i] = true;
            if (!slices[i].preempt) continue;
            named += overlap(slices[i], begin, end);
            const int64_t its_begin = std::max(slices[i].begin, from_there), its_end = std::min(slices[i].end, until_there);
            if (its_begin >= its_end) continue;
            ours += its_end - its_begin;
            covered += overlap({its_begin, its_end, true, true, false, false}, begin, end);
            first_ours = std::min(first_ours, its_begin);
            last_ours = std::max(last_ours, its_end);
        }
        // Another task had the CPU already: the event preempted that one, and the rank's record is split by what ran, in any order.
        if (preempted - named > event.duration_ns / 2) {
            ++found.others;
            continue;
        }
        found.named_ns += named;
        found.any_ns += any;
        found.preempt_ns += preempted;
        if (any == 0 && ours == 0) {
            // Nothing took the CPU from the rank: it was blocked, so this was no noise, or the record is missing.
            ++found.blocked;
            continue;
        }
        ++found.logged;
        if (ours * 2 < event.duration_ns) continue;
        ++found.found;
        found.logged_ns += event.duration_ns;
        found.recorded_ns += ours;
        found.covered_ns += covered;
        found.longer_ns.push_back(ours - event.duration_ns);
        found.before_ns.push_back(begin - first_ours);
        found.after_ns.push_back(last_ours - end);
        found.woken_ns.push_back(woken_by(slices, first, first_ours));
    }
    if (!found.longer_ns.empty())
        found.rest_ns = found.recorded_ns - found.logged_ns - samples::median(found.longer_ns) * static_cast<int64_t>(found.found);
    for (size_t i = 0; i < slices.size(); ++i) {
        if (!slices[i].ours || !slices[i].preempt) continue;
        if (slices[i].end < from || slices[i].begin > to) {
            found.outside_ns += slices[i].end - slices[i].begin;
            continue;
        }
        const auto beside = [&](size_t k) {
            return !slices[k].ours && slices[k].preempt && overlap(slices[k], slices[i].begin - slack_ns, slices[i].end + slack_ns) > 0;
        };
        const bool split = (i > 0 && beside(i - 1)) || (i + 1 < slices.size() && beside(i + 1));
        if (!explained[i] && split) continue;  // part of an interruption in which other tasks ran too
        ++found.recorded;
        found.invented += !explained[i];
    }
    return found;
}

void Found::add(const Found& other) {
    logged += other.logged;
    found += other.found;
    recorded += other.recorded;
    invented += other.invented;
    blocked += other.blocked;
    others += other.others;
    logged_ns += other.logged_ns;
    recorded_ns += other.recorded_ns;
    covered_ns += other.covered_ns;
    rest_ns += other.rest_ns;
    preempt_ns += other.preempt_ns;
    named_ns += other.named_ns;
    any_ns += other.any_ns;
    outside_ns += other.outside_ns;
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(longer_ns, other.longer_ns);
    append(before_ns, other.before_ns);
    append(after_ns, other.after_ns);
    append(woken_ns, other.woken_ns);
}

Found match_log(const std::string& log_file, const std::string& trace) {
    const inject::Log log = inject::read_log(log_file);
    const int64_t first = exports::first_event(trace);
    replay::Archive archive(trace);
    Slices slices(archive.definitions());
    exports::read_timeline(archive, first, {}, slices);
    std::map<int32_t, std::vector<inject::Injected>> events;
    for (const auto& source : log.sources)
        for (const auto& event : source.events) events[event.rank].push_back(event);
    Found found;
    for (auto& [rank, list] : events) {
        std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
        found.add(match_rank(list, slices.of[rank], log.origin_ns, slices.ends[rank]));
    }
    return found;
}

}  // namespace polter::validation
