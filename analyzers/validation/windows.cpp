// SPDX-License-Identifier: BSD-3-Clause
#include "windows.hpp"

#include <algorithm>

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
    }
    void enter(int64_t time, uint32_t region, bool mpi) override {
        inside_.push_back(mpi);
        if (!mpi || !calls_ || in_mpi_++ > 0) return;
        const replay::CallKind kind = definitions_.kind(region);
        if (polls(kind) || kind == replay::CallKind::init || replay::of_threads(kind)) {
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
};

std::vector<size_t> collectives_of(const std::vector<Call>& calls) {
    std::vector<size_t> found;
    for (size_t i = 0; i < calls.size(); ++i)
        if (calls[i].collective) found.push_back(i);
    return found;
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
    for (size_t i = 0, j = 0; i < in_first.size() && j < in_second.size(); ++i, ++j) {
        const bool missed = first[in_first[i]].name != second[in_second[j]].name;
        if (missed && !meet_again(first, in_first, i, second, in_second, j)) break;
        const Point here{in_first[i], in_second[j], true};
        if (!points.empty()) {
            const Point before = points.back();
            const size_t between = here.first - before.first;
            bool same = !missed && between == here.second - before.second;
            for (size_t k = 1; same && k < between; ++k) same = first[before.first + k].name == second[before.second + k].name;
            points.back().same = same;
            for (size_t k = 1; same && k < between; ++k) points.push_back({before.first + k, before.second + k, true});
        }
        points.push_back(here);
    }
    if (!points.empty()) points.back().same = false;  // nothing follows
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
