// SPDX-License-Identifier: BSD-3-Clause
#include "host_clocks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "../conventions.hpp"

namespace polter::seal {
namespace {

constexpr size_t most_pairs = 1024;                   // of clocks, whose messages are kept
constexpr int64_t least_unknown = 1'000'000'000'000;  // an error of so many ns says nothing

// The same bounds as seen from the other clock.
std::vector<clocks::Point> turned(const std::vector<clocks::Point>& points) {
    std::vector<clocks::Point> out;
    for (const auto& point : points) out.push_back({point.time + point.offset, -point.offset, !point.upper});
    return out;
}

}  // namespace

HostClocks::HostClocks(const std::vector<Sidecar>& ranks, const Definitions& definitions) {
    std::map<std::string, uint32_t> numbers;
    for (const auto& rank : ranks) {  // by rank
        const auto [at, added] =
            numbers.try_emplace(rank.clock.empty() ? fmt::format("host {}", rank.host) : rank.clock, static_cast<uint32_t>(hosts_.size()));
        if (added) hosts_.push_back(rank.host);
        by_rank_[rank.rank] = at->second;
    }
    span_.assign(hosts_.size(), {INT64_MAX, INT64_MIN});
    const auto extend = [&](uint32_t clock, int64_t time) {
        span_[clock] = {std::min(span_[clock].first, time), std::max(span_[clock].second, time)};
    };
    for (const auto& process : definitions.processes) {
        if (!process.sidecar) continue;
        for (const auto& location : process.locations) {
            if (!location.events) continue;
            extend(of(process.rank), static_cast<int64_t>(location.first_ns));
            extend(of(process.rank), static_cast<int64_t>(location.last_ns));
        }
    }
    for (const auto& rank : ranks)
        for (const auto& exchange : rank.exchanges)
            for (const auto& [sent, there, back] : exchange.stamps) extend(of(rank.rank), sent), extend(of(rank.rank), back);
    for (const auto& rank : ranks) {
        for (const auto& exchange : rank.exchanges) {
            if (!knows(exchange.peer) || of(exchange.peer) == of(rank.rank)) continue;
            auto& constraints = pair(exchanges_, of(rank.rank), of(exchange.peer));
            for (const auto& [sent, there, back] : exchange.stamps) {
                constraints.to_reference(sent, there);
                constraints.from_reference(there, back);
            }
        }
    }
}

clocks::Constraints& HostClocks::pair(Pairs& pairs, uint32_t own, uint32_t reference) {
    return pairs.try_emplace({own, reference}, span_[own].first, span_[own].second).first->second;
}

void HostClocks::message(uint32_t from, int64_t sent, uint32_t to, int64_t received) {
    const uint32_t own = std::max(from, to), reference = std::min(from, to);
    if (messages_.size() >= most_pairs && !messages_.contains({own, reference})) return;
    auto& constraints = pair(messages_, own, reference);
    own == from ? constraints.to_reference(sent, received) : constraints.from_reference(sent, received);
}

uint64_t HostClocks::messages() const {
    uint64_t count = 0;
    for (const auto& [clocks, constraints] : messages_) count += constraints.count();
    return count;
}

void HostClocks::add_points(uint32_t own, uint32_t reference, const std::vector<clocks::Point>& points) {
    auto& constraints = pair(messages_, own, reference);
    for (const auto& point : points) constraints.add(point);
}

// From the first clock outwards: along exchanges as far as they go, then along messages.
void HostClocks::correct() {
    corrections_.assign(count(), std::nullopt);
    corrections_.front() = clocks::Correction{{{span_.front().first, 0, 0}}, {}, 0, 0};
    const auto points_of = [&](uint32_t own, uint32_t reference) {
        std::vector<clocks::Point> points;
        for (const Pairs* pairs : {&exchanges_, &messages_}) {
            if (const auto at = pairs->find({own, reference}); at != pairs->end()) {
                const auto more = at->second.points();
                points.insert(points.end(), more.begin(), more.end());
            }
            if (const auto at = pairs->find({reference, own}); at != pairs->end()) {
                const auto more = turned(at->second.points());
                points.insert(points.end(), more.begin(), more.end());
            }
        }
        return points;
    };
    for (const Pairs* edges : {&exchanges_, &messages_}) {
        for (bool again = true; again;) {
            again = false;
            for (const auto& [ends, constraints] : *edges) {
                const auto [a, b] = ends;
                if (corrections_[a].has_value() == corrections_[b].has_value() || !constraints.both_sides()) continue;
                const uint32_t own = corrections_[a] ? b : a, reference = corrections_[a] ? a : b;
                const auto& known = *corrections_[reference];
                clocks::Constraints own_constraints(span_[own].first, span_[own].second);
                for (auto point : points_of(own, reference)) {  // on the first clock's times
                    point.offset += known.at(point.time + point.offset);
                    own_constraints.add(point);
                }
                auto found = clocks::fit(own_constraints, span_[own].first, span_[own].second);
                found.error_ns = 0;
                for (auto& knot : found.knots) {
                    knot.error += known.error_at(knot.time + knot.offset - known.at(knot.time + knot.offset));
                    found.error_ns = std::max(found.error_ns, knot.error);
                }
                corrections_[own] = std::move(found);
                again = true;
            }
        }
    }
}

namespace {

void report_breaks(const HostClocks& hosts, int64_t first, Report& report) {
    for (uint32_t clock = 0; clock < hosts.count(); ++clock) {
        const auto& correction = hosts.corrections()[clock];
        if (!correction) continue;
        for (const auto& one : correction->breaks) {
            const double begin = static_cast<double>(one.from + correction->at(one.from) - first) / 1e9;
            const double end = static_cast<double>(one.to + correction->at(one.to) - first) / 1e9;
            const auto when = fmt::format("between {:.3f} s and {:.3f} s", begin, end);
            report.warnings.push_back(
                one.step_ns
                    ? fmt::format("the clock of {} was stepped by {:.3f} ms (within {:.3f} ms) against that of {}, {}: times of that "
                                  "interval are uncertain by it; keep the time service from stepping clocks during jobs",
                                  hosts.host(clock), static_cast<double>(-one.step_ns) / 1e6, static_cast<double>(one.step_error_ns) / 1e6,
                                  hosts.host(0), when)
                    : fmt::format("the clock of {} changed its rate by {:.1f} ppm against that of {}, {}, as when a time service "
                                  "corrects it",
                                  hosts.host(clock), -one.rate_change * 1e6, hosts.host(0), when));
        }
        if (correction->contradictions)
            report.warnings.push_back(fmt::format("the clock of {} was changed too often to be corrected", hosts.host(clock)));
    }
}

// Between two hosts other than the first one both errors count.
std::string error_between(const HostClocks& hosts, Report& report) {
    std::vector<int64_t> errors;
    std::vector<std::string> unknown;
    for (uint32_t clock = 0; clock < hosts.count(); ++clock) {
        const auto& correction = hosts.corrections()[clock];
        const bool known = correction && correction->error_ns < least_unknown && !correction->contradictions;
        if (known)
            errors.push_back(correction->error_ns);
        else
            unknown.push_back(hosts.host(clock));
    }
    if (!unknown.empty()) {
        report.warnings.push_back(
            fmt::format("the clock of {} could not be compared with that of {}: times between these hosts cannot be "
                        "trusted",
                        fmt::join(unknown, ", "), hosts.host(0)));
        return "unknown";
    }
    errors.push_back(0);
    std::sort(errors.rbegin(), errors.rend());
    return std::to_string(errors[0] + errors[1]);
}

}  // namespace

void add_corrections(HostClocks& hosts, std::vector<Sidecar>& ranks, Definitions& definitions, Report& report) {
    hosts.correct();
    definitions.properties.insert_or_assign(trace::property::clock_error_ns, error_between(hosts, report));
    if (hosts.count() < 2) return;
    bool any = false;
    for (auto& process : definitions.processes) {
        if (!process.sidecar || !hosts.corrections()[hosts.of(process.rank)]) continue;
        const auto clock = hosts.of(process.rank);
        const auto& correction = *hosts.corrections()[clock];
        if (clock != 0) process.clock = correction.knots;
        for (const auto& location : process.locations) {
            if (!location.events) continue;
            const auto corrected = [&](uint64_t time) { return time + static_cast<uint64_t>(correction.at(static_cast<int64_t>(time))); };
            const auto first = corrected(location.first_ns), last = corrected(location.last_ns);
            definitions.first_ns = any ? std::min(definitions.first_ns, first) : first;
            definitions.last_ns = any ? std::max(definitions.last_ns, last) : last;
            any = true;
        }
    }
    for (auto& rank : ranks) {
        const auto& correction = hosts.corrections()[hosts.of(rank.rank)];
        if (!rank.final || !correction) continue;
        for (uint64_t* time : {&rank.final->tracing_ended_ns, &rank.final->exporter_ended_ns})
            if (*time) *time += static_cast<uint64_t>(correction->at(static_cast<int64_t>(*time)));
    }
    report_breaks(hosts, static_cast<int64_t>(definitions.first_ns), report);
}

}  // namespace polter::seal
