// SPDX-License-Identifier: BSD-3-Clause
#include "windows.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "analyzers/export/timeline_reader.hpp"
#include "analyzers/inject/spec.hpp"
#include "removals.hpp"

namespace polter::validation {

namespace {

constexpr int64_t settling = 10;  // the part of a window at its beginning that is left out: one in so many

bool polls(replay::CallKind kind) {
    using enum replay::CallKind;
    return kind == poll || kind == poll_matched || kind == poll_any || kind == part_arrived;
}

class Calls : public exports::Sink {
  public:
    explicit Calls(const replay::Definitions& definitions)
        : found(static_cast<size_t>(std::max(0, definitions.ranks))), definitions_(definitions) {}
    void begin(const exports::Place& place) override {
        const bool known = place.thread == 0 && place.rank >= 0 && static_cast<size_t>(place.rank) < found.size();
        calls_ = known ? &found[static_cast<size_t>(place.rank)] : nullptr;
        inside_.clear();
        in_mpi_ = 0;
        polling_ = false;
    }
    void enter(int64_t time, uint32_t region, bool mpi) override {
        inside_.push_back(mpi);
        if (!mpi || !calls_ || in_mpi_++ > 0) return;
        const replay::CallKind kind = definitions_.kind(region);
        polling_ = polls(kind) || kind == replay::CallKind::init || replay::of_threads(kind);
        if (polling_) {
            if (!calls_->empty()) calls_->back().polled = true;
            return;
        }
        calls_->push_back({.time = time, .name = definitions_.region_name(region), .collective = kind == replay::CallKind::collective});
    }
    void leave(int64_t time) override {
        if (inside_.empty()) return;
        const bool mpi = inside_.back();
        inside_.pop_back();
        if (mpi && calls_ && --in_mpi_ == 0 && !calls_->empty() && !calls_->back().polled) calls_->back().left = time;
    }
    void record(const exports::Record& record) override {
        if (!calls_ || calls_->empty() || in_mpi_ == 0 || polling_) return;
        if (record.kind == exports::Record::Kind::send || record.kind == exports::Record::Kind::isend) calls_->back().sent += record.bytes;
    }
    void noise(const exports::NoiseSlice& slice) override {
        if (!calls_ || in_mpi_ > 0 || calls_->empty()) return;
        const replay::Account& account = definitions_.accounts[static_cast<size_t>(slice.account)];
        if (account.service) return;
        Call& call = calls_->back();
        call.noise_ns += std::max<int64_t>(0, slice.end - std::max(slice.begin, call.left));
        call.timers += account.name == "os:timer";
        call.events +=
            account.name == "os:preempt" && slice.culprit != UINT32_MAX && injector.contains(definitions_.culprit_name(slice.culprit));
    }
    std::vector<std::vector<Call>> found;

  private:
    const replay::Definitions& definitions_;
    std::vector<Call>* calls_ = nullptr;  // of the rank; none: of no rank's MPI thread
    std::vector<bool> inside_;            // by region that was entered: an MPI call
    int in_mpi_ = 0;
    bool polling_ = false;  // the MPI call that it is in is no point of the program
};

std::vector<size_t> collectives_of(const std::vector<Call>& calls) {
    std::vector<size_t> found;
    for (size_t i = 0; i < calls.size(); ++i)
        if (calls[i].collective) found.push_back(i);
    return found;
}

using Made = std::pair<std::string_view, uint64_t>;  // a call and the bytes that it sent

Made made(const Call& call) {
    return {call.name, call.sent};
}

// Adds the points between two aligned collectives: calls [begin, end) of each run. Whether both made the same calls up to the end.
bool add_points_between(const std::vector<Call>& a, size_t begin_a, size_t end_a, const std::vector<Call>& b, size_t begin_b, size_t end_b,
                        std::vector<Point>& points) {
    std::map<Made, int64_t> more;  // what the first run has made more often than the second so far; never 0
    const auto count = [&](const Call& call, int64_t change) {
        if ((more[made(call)] += change) == 0) more.erase(made(call));
    };
    for (size_t k = 0; k < std::min(end_a - begin_a, end_b - begin_b); ++k) {
        const Call &in_a = a[begin_a + k], &in_b = b[begin_b + k];
        if (more.empty() && made(in_a) == made(in_b)) points.push_back({begin_a + k, begin_b + k, true});
        count(in_a, 1);
        count(in_b, -1);
    }
    return more.empty() && end_a - begin_a == end_b - begin_b;
}

// Whether so many collectives from here on are the same in both, or all that are left.
bool go_on_alike(const std::vector<Call>& a, const std::vector<size_t>& in_a, size_t i, const std::vector<Call>& b,
                 const std::vector<size_t>& in_b, size_t j) {
    constexpr size_t enough = 8;
    size_t alike = 0;
    for (; alike < enough && i + alike < in_a.size() && j + alike < in_b.size(); ++alike)
        if (a[in_a[i + alike]].name != b[in_b[j + alike]].name) return false;
    return alike == enough || (i + alike == in_a.size() && j + alike == in_b.size());
}

// The fewest collectives that one of the runs, or both, have to leave out so that both go on alike.
bool meet_again(const std::vector<Call>& a, const std::vector<size_t>& in_a, size_t& i, const std::vector<Call>& b,
                const std::vector<size_t>& in_b, size_t& j) {
    constexpr size_t most = 2000;
    for (size_t left_out = 1; left_out <= most; ++left_out)
        for (size_t k = 0; k <= left_out; ++k)
            if (i + k < in_a.size() && j + left_out - k < in_b.size() && go_on_alike(a, in_a, i + k, b, in_b, j + left_out - k)) {
                i += k;
                j += left_out - k;
                return true;
            }
    return false;
}

}  // namespace

std::vector<std::vector<Call>> calls_of(const std::string& trace) {
    const int64_t first = exports::first_event(trace);
    replay::Archive archive(trace);
    Calls calls(archive.definitions());
    exports::read_timeline(archive, first, {}, calls);
    return std::move(calls.found);
}

std::vector<Point> common_points(const std::vector<Call>& first, const std::vector<Call>& second) {
    const auto in_first = collectives_of(first), in_second = collectives_of(second);
    std::vector<Point> points;
    size_t i = 0, j = 0;
    for (; i < in_first.size() && j < in_second.size(); ++i, ++j) {
        const bool missed = first[in_first[i]].name != second[in_second[j]].name;
        if (missed && !meet_again(first, in_first, i, second, in_second, j)) break;
        const Point here{in_first[i], in_second[j], true};
        if (!points.empty() && !missed) {
            const Point before = points.back();
            const bool same = add_points_between(first, before.first + 1, here.first, second, before.second + 1, here.second, points);
            points.back().same = same;
        } else if (!points.empty()) {
            points.back().same = false;
        }
        points.push_back(here);
    }
    if (points.empty()) return points;
    // Behind the last one: a program's second half may have none, as HPCC's with HPL.
    const Point last = points.back();
    const auto end_of = [](const std::vector<Call>& calls, const std::vector<size_t>& collectives, size_t next) {
        return next < collectives.size() ? collectives[next] : calls.size();
    };
    add_points_between(first, last.first + 1, end_of(first, in_first, i), second, last.second + 1, end_of(second, in_second, j), points);
    points.back().same = false;  // nothing follows
    return points;
}

Windows::Windows(const inject::Log& log) {
    if (log.sources.empty()) throw inject::Error("the log of the injected noise has no specification");
    const inject::Spec spec = inject::parse_spec(log.sources.front().spec);
    if (spec.on_ns <= 0 || spec.off_ns <= 0)
        throw inject::Error("the noise \"" + spec.text + "\" was not injected in windows: it has no on= and off=");
    begin_ = log.begin_ns - log.origin_ns + spec.after_ns;
    on_ = spec.on_ns;
    off_ = spec.off_ns;
}

Windows::Place Windows::at(int64_t time) const {
    if (time < begin_) return {-1, INT64_MIN / 4};
    const int64_t cycle = (time - begin_) / (on_ + off_), begin = begin_ + cycle * (on_ + off_);
    return time < begin + on_ ? Place{2 * cycle, begin} : Place{2 * cycle + 1, begin + on_};
}

std::vector<Piece> pieces_of(const std::vector<Point>& points, const std::vector<Call>& first, const Windows& first_windows,
                             const std::vector<Call>& second, const Windows& second_windows) {
    const auto settled = [](const Windows& windows, const Windows::Place& place, int64_t time) {
        return time - place.since >= windows.length() / settling;
    };
    std::vector<Piece> pieces;
    for (size_t i = 0; i + 1 < points.size(); ++i) {
        const int64_t in_first = first[points[i].first].time, in_second = second[points[i].second].time;
        const auto a = first_windows.at(in_first), b = second_windows.at(in_second);
        const bool stays = first_windows.at(first[points[i + 1].first].time).number == a.number &&
                           second_windows.at(second[points[i + 1].second].time).number == b.number;
        if (points[i].same && stays && a.noise() != b.noise() && settled(first_windows, a, in_first) &&
            settled(second_windows, b, in_second))
            pieces.push_back({i, a.noise()});
    }
    return pieces;
}

}  // namespace polter::validation
