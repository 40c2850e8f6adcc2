// SPDX-License-Identifier: BSD-3-Clause
#include "schedule.hpp"

#include <algorithm>
#include <cmath>

namespace polter::inject {

namespace {

constexpr double pareto_most = 100;  // times the mean

int64_t exponential(double uniform, int64_t mean) {
    return std::max<int64_t>(1, std::llround(-std::log(uniform) * static_cast<double>(mean)));
}

// The least value of a Pareto distribution of this shape that is cut at `pareto_most` means and still has this mean. The mean grows with
// the least value, so it is found by bisection.
double pareto_least(double mean, double shape) {
    const double most = pareto_most * mean;
    const auto mean_of = [&](double least) {
        return least * shape / (shape - 1) - most / (shape - 1) * std::pow(least / most, shape);  // E[min(X, most)]
    };
    double low = 0, high = mean;
    for (int i = 0; i < 100; ++i) {
        const double middle = (low + high) / 2;
        (mean_of(middle) < mean ? low : high) = middle;
    }
    return (low + high) / 2;
}

}  // namespace

Schedule::Schedule(const Spec& spec, uint64_t stream, std::vector<Event> listed, int64_t longest_ns)
    : kind_(spec.kind),
      period_(spec.period_ns),
      duration_(spec.duration_ns),
      longest_(longest_ns),
      on_(spec.on_ns),
      off_(spec.off_ns),
      after_(spec.after_ns),
      probability_(spec.probability),
      shape_(spec.shape),
      state_(spec.seed * 0x9e3779b97f4a7c15u + ((spec.together ? 0 : stream) + 1) * 0xbf58476d1ce4e5b9u),
      listed_(std::move(listed)) {
    if (kind_ == Kind::pareto) least_ = pareto_least(static_cast<double>(duration_), shape_);
    if (kind_ == Kind::periodic) at_ = spec.phase_ns >= 0 ? spec.phase_ns : static_cast<int64_t>(draw() * static_cast<double>(period_));
}

// SplitMix64: the distributions of the standard library differ between implementations.
double Schedule::draw() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return (static_cast<double>(x >> 11) + 1) / 9007199254740992.0;
}

// Drawn in time with noise; the time without lies between.
std::optional<Event> Schedule::next() {
    auto event = drawn();
    if (!event) return event;
    if (on_ > 0) event->begin_ns += event->begin_ns / on_ * off_;
    event->begin_ns += after_;
    return event;
}

std::optional<Event> Schedule::drawn() {
    Event event;
    switch (kind_) {
        case Kind::periodic:
            event = {at_, duration_};
            at_ += period_;
            break;
        case Kind::bernoulli: {
            // The number of slots to the next hit has a geometric distribution: one draw instead of one for each slot.
            const double slots = probability_ >= 1 ? 1 : std::max(1.0, std::ceil(std::log(draw()) / std::log1p(-probability_)));
            at_ += static_cast<int64_t>(std::min(slots, 1e6)) * period_;
            event = {at_, duration_};
            break;
        }
        case Kind::exponential:
            at_ += exponential(draw(), period_);
            event = {at_, exponential(draw(), duration_)};
            break;
        case Kind::pareto: {
            at_ += exponential(draw(), period_);
            event = {at_, std::llround(std::min(least_ * std::pow(draw(), -1 / shape_), pareto_most * static_cast<double>(duration_)))};
            break;
        }
        case Kind::replay:
            if (used_ == listed_.size()) return std::nullopt;
            event = listed_[used_++];
            break;
        case Kind::timers:
        case Kind::packets:
        case Kind::calls:
            return std::nullopt;
    }
    event.duration_ns = std::min(event.duration_ns, longest_);
    return event;
}

}  // namespace polter::inject
