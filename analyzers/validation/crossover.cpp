// SPDX-License-Identifier: BSD-3-Clause
// From two runs, each injected in the windows in which the other is quiet, to pairs of the experiment: one for every two or so windows.
// Pieces of the program that the first run did with noise and the second without are set against neighbouring ones of which the reverse is
// true. So neither how fast each run was nor a drift of the machine counts that lasts longer than a window.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "analyzers/inject/alongside.hpp"
#include "program_cost.hpp"
#include "removals.hpp"
#include "replay/replay.hpp"
#include "replay/what_if.hpp"
#include "validate.hpp"
#include "windows.hpp"

namespace polter::validation {

namespace fs = std::filesystem;

namespace {

// By how much a run were shorter up to a point without parts of its noise.
enum Removed : uint8_t { own, own_timers, timers, injector_timers, all, removals };

struct Run {
    std::string trace;
    inject::Log log;
    std::vector<Call> calls;  // of rank 0
    int64_t init_ns = 0, program_ns = 0, ranks = 0;
    // By call.
    std::vector<std::array<int64_t, removals>> saved;
    std::vector<int64_t> hidden, hidden_by_loop, added, added_by_log;  // hidden: by its own log; added: by the other's
};

// What the passes report of rank 0 at its calls.
class AtCalls {
  public:
    AtCalls(const std::vector<Call>& calls, const std::function<void(size_t call, const int64_t* earlier)>& then)
        : calls_(calls), then_(then) {}
    void operator()(int32_t rank, int64_t time, const int64_t* earlier) {
        if (rank != 0) return;
        for (; next_ < calls_.size() && calls_[next_].time <= time; ++next_) then_(next_, earlier);
    }

  private:
    const std::vector<Call>& calls_;
    std::function<void(size_t, const int64_t*)> then_;
    size_t next_ = 0;
};

// Moves times of one run to those of another, in which the points have other times; between points in proportion.
class Moved {
  public:
    Moved(std::vector<int64_t> from, std::vector<int64_t> to) : from_(std::move(from)), to_(std::move(to)) {}
    int64_t operator()(int64_t time) const {
        const auto behind = static_cast<size_t>(std::upper_bound(from_.begin(), from_.end(), time) - from_.begin());
        if (behind == 0) return time - from_.front() + to_.front();
        if (behind == from_.size()) return time - from_.back() + to_.back();
        const int64_t length = from_[behind] - from_[behind - 1];
        const double part = static_cast<double>(time - from_[behind - 1]) / static_cast<double>(std::max<int64_t>(1, length));
        return to_[behind - 1] + std::llround(part * static_cast<double>(to_[behind] - to_[behind - 1]));
    }

  private:
    std::vector<int64_t> from_, to_;
};

// Noise that is added to a run where it hit the program: `from` has times of the log at points of the program, `points` the run's calls at
// these points.
struct Stream {
    inject::Log log;
    std::vector<int64_t> from;
    std::vector<size_t> points;
    std::vector<int64_t>* added;  // by call of the run; what is found
};

inject::LoggedSource moved_to(const Run& run, const Stream& stream, const std::string& name) {
    std::vector<int64_t> to;
    for (const size_t point : stream.points) to.push_back(run.calls[point].time + (*stream.added)[point]);
    const Moved moved(stream.from, to);
    inject::LoggedSource there{name, name, {}};
    for (const auto& source : stream.log.sources)
        for (inject::Injected event : source.events) {
            event.begin_ns = moved(event.begin_ns - stream.log.origin_ns);
            there.events.push_back(event);
        }
    std::stable_sort(there.events.begin(), there.events.end(), [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
    return there;
}

// Each stream alone. What is added moves the events behind it, and so what these add. So this is repeated until a round changes nothing
// that counts. False: the last one still did, as where long events of two ranks take turns within the same step of the program.
bool add_streams(const Run& run, replay::WhatIfs& what_ifs, const std::vector<Stream>& streams, const std::string& file, int most_rounds) {
    const int64_t allowed = run.program_ns / 100;  // what an answer may be off
    for (const Stream& stream : streams) stream.added->assign(run.calls.size(), 0);
    int64_t changed = INT64_MAX;  // by the last round, at any call
    for (int round = 0; round < most_rounds && changed > allowed / 10; ++round) {
        inject::Log all;
        for (const Stream& stream : streams) all.sources.push_back(moved_to(run, stream, "stream-" + std::to_string(all.sources.size())));
        inject::write_log(all, file);
        changed = 0;
        AtCalls at_calls(run.calls, [&](size_t call, const int64_t* earlier) {
            for (size_t i = 0; i < streams.size(); ++i) {
                int64_t& added = (*streams[i].added)[call];
                changed = std::max<int64_t>(changed, std::llabs(-earlier[i] - added));
                added = -earlier[i];
            }
        });
        what_ifs.added_by(file, std::ref(at_calls));
    }
    fs::remove(file);
    return changed <= allowed;
}

bool replay_run(Run& run, const Run& other, const std::vector<Point>& points, bool is_first, const EventCost& cost, const EventCost& loop,
                const fs::path& folder, const WindowFaults& faults) {
    const std::string file = folder / ("polter-windows-" + std::to_string(getpid()) + ".json");
    std::vector<size_t> here, all_calls;
    std::vector<int64_t> there, times;
    for (const Point& point : points) {
        here.push_back(is_first ? point.first : point.second);
        there.push_back(other.calls[is_first ? point.second : point.first].time);
    }
    for (size_t i = 0; i < run.calls.size(); ++i) {
        all_calls.push_back(i);
        times.push_back(run.calls[i].time);
    }
    replay::Options options;
    options.trace = run.trace;
    bool settled = true;
    replay::replay(options, [&](const replay::Result& result, replay::WhatIfs& what_ifs) {
        run.init_ns = result.init_ns;
        run.program_ns = result.measured_ns - result.init_ns;
        run.ranks = result.ranks;
        run.saved.resize(run.calls.size());
        AtCalls at_calls(run.calls, [&](size_t call, const int64_t* earlier) { std::copy_n(earlier, removals, run.saved[call].begin()); });
        const auto mine = own_noise(result);
        what_ifs.savings(
            {mine, mine + timer_interrupts, timer_interrupts, the_injector + timer_interrupts, the_injector + mine + timer_interrupts},
            std::ref(at_calls));
        run.hidden.assign(run.calls.size(), 0);
        run.hidden_by_loop = run.hidden;
        std::vector<Stream> streams = {{with_cost(other.log, cost), there, here, &run.added}, {other.log, there, here, &run.added_by_log}};
        for (const auto& [each, added] : {std::pair(&cost, &run.hidden), {&loop, &run.hidden_by_loop}})
            if (inject::Log hidden = run.log; only_hidden(hidden, *each)) streams.push_back({std::move(hidden), times, all_calls, added});
        settled = add_streams(run, what_ifs, streams, file, faults.rounds);
    });
    return settled;
}

// Sums over pieces of one kind, in nanoseconds: the members of Pair.
using Sums = std::array<double, 11>;
constexpr std::array<int64_t Pair::*, 11> members = {&Pair::quiet,
                                                     &Pair::injected,
                                                     &Pair::estimated,
                                                     &Pair::predicted,
                                                     &Pair::machine_noise,
                                                     &Pair::measured_quiet,
                                                     &Pair::measured_injected,
                                                     &Pair::estimated_with_own,
                                                     &Pair::estimated_as_recorded,
                                                     &Pair::predicted_by_log,
                                                     &Pair::estimated_by_loop};

// One piece: `noisy` did it with noise from its call i on, `quiet` without from its call j on, up to their calls behind.
Sums piece(const Run& noisy, size_t i, size_t i_end, const Run& quiet, size_t j, size_t j_end) {
    const auto saved = [&](const Run& run, size_t from, size_t to, Removed what) { return run.saved[to][what] - run.saved[from][what]; };
    const int64_t measured_quiet = quiet.calls[j_end].time - quiet.calls[j].time, measured = noisy.calls[i_end].time - noisy.calls[i].time;
    const int64_t without_own = measured_quiet - saved(quiet, j, j_end, own);
    const int64_t as_recorded = measured - saved(noisy, i, i_end, all) + saved(quiet, j, j_end, own_timers) - saved(quiet, j, j_end, own);
    const int64_t hidden = noisy.hidden[i_end] - noisy.hidden[i];
    const std::array<int64_t, 11> values = {without_own,
                                            measured - saved(noisy, i, i_end, own),
                                            as_recorded - hidden,
                                            without_own + quiet.added[j_end] - quiet.added[j],
                                            saved(quiet, j, j_end, all),
                                            measured_quiet,
                                            measured,
                                            measured - saved(noisy, i, i_end, injector_timers) + saved(quiet, j, j_end, timers) - hidden,
                                            as_recorded,
                                            without_own + quiet.added_by_log[j_end] - quiet.added_by_log[j],
                                            as_recorded - (noisy.hidden_by_loop[i_end] - noisy.hidden_by_loop[i])};
    Sums sums;
    std::copy(values.begin(), values.end(), sums.begin());
    return sums;
}

std::map<int32_t, std::vector<int64_t>> hidden_by_cpu(const inject::Log& log, const std::vector<std::vector<Call>>& first,
                                                      const std::vector<std::vector<Call>>& second) {
    std::map<int32_t, int32_t> cpus;  // by rank
    for (const auto& source : log.sources)
        for (const auto& event : source.events) cpus[event.rank] = event.cpu;
    std::map<int32_t, std::vector<int64_t>> hidden;
    for (const auto& [rank, cpu] : cpus) {
        const auto number = static_cast<size_t>(rank);
        if (number >= first.size() || number >= second.size()) continue;
        const auto of_rank = hidden_in_work(first[number], second[number]);
        hidden[cpu].insert(hidden[cpu].end(), of_rank.begin(), of_rank.end());
    }
    return hidden;
}

}  // namespace

Crossover judge_windows(const std::string& first_trace, const std::string& second_trace, const std::string& folder, const EventCost& loop,
                        Found& found, const WindowFaults& faults) {
    Run first, second;
    std::vector<std::vector<Call>> calls[2];
    for (auto& [run, trace] : {std::pair<Run&, const std::string&>{first, first_trace}, {second, second_trace}}) {
        run.trace = trace;
        run.log = inject::read_log(fs::path(trace) / inject::log_name);
        auto& all = calls[&run == &second];
        all = calls_of(trace);
        if (all.empty() || run.log.events() == 0) return {};
        run.calls = all.front();
        found.add(match_log(fs::path(trace) / inject::log_name, trace));
    }
    const auto points = common_points(first.calls, second.calls);
    const Windows in_first(first.log), in_second(second.log);
    const auto pieces = pieces_of(points, first.calls, in_first, second.calls, in_second);
    Crossover out;
    if (pieces.empty()) return out;
    const EventCost cost = with_program(loop, hidden_by_cpu(first.log, calls[0], calls[1]));
    const bool settled = replay_run(first, second, points, true, cost, loop, folder, faults);
    out.settled = replay_run(second, first, points, false, cost, loop, folder, faults) && settled;

    double compared = 0;
    std::array<Sums, 2> sums{};  // by which run had the noise
    const double enough = static_cast<double>(in_first.length()) / 2;
    std::vector<Sums> blocks;
    for (const Piece& one : pieces) {
        const Point& from = points[one.index];
        const Point& to = points[one.index + 1];
        const Sums values = one.first_noisy ? piece(first, from.first, to.first, second, from.second, to.second)
                                            : piece(second, from.second, to.second, first, from.first, to.first);
        for (size_t k = 0; k < values.size(); ++k) sums[one.first_noisy][k] += values[k];
        compared += values[5] + values[6];
        if (sums[0][0] < enough || sums[1][0] < enough) continue;
        // As much of the one kind as of the other, so that the runs' speeds cancel.
        Sums block{};
        const std::array<double, 2> work = {sums[0][0] + sums[0][1], sums[1][0] + sums[1][1]};
        for (size_t k = 0; k < block.size(); ++k) block[k] = (faults.one_way ? 0 : sums[1][k] / work[1]) + sums[0][k] / work[0];
        blocks.push_back(block);
        sums = {};
    }
    const double ranks_time = static_cast<double>(first.ranks) * (static_cast<double>(first.program_ns) * in_first.part() +
                                                                  static_cast<double>(second.program_ns) * in_second.part());
    double injected = 0;
    for (const Run* run : {&first, &second})
        for (const auto& source : run->log.sources)
            for (const auto& event : source.events) injected += static_cast<double>(event.duration_ns);
    out.compared = compared / static_cast<double>(first.program_ns + second.program_ns);
    const auto quiet_ns = static_cast<double>(in_first.length());
    for (const Sums& block : blocks) {
        Pair pair;
        for (size_t k = 0; k < block.size(); ++k) pair.*members[k] = std::llround(block[k] / block[0] * quiet_ns);
        pair.cost = cost;
        pair.cost_by_loop = loop;
        pair.load = injected / ranks_time;
        out.pairs.push_back(std::move(pair));
    }
    return out;
}

}  // namespace polter::validation
