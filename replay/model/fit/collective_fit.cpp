// SPDX-License-Identifier: BSD-3-Clause
#include "collective_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "replay/model/predict_together.hpp"
#include "starts.hpp"

namespace polter::replay {

namespace {

using Predictions = std::vector<std::vector<Prediction>>;  // by sample

constexpr size_t terms = 4;  // o, L, and what the data adds to each
constexpr std::array<int64_t Structure::*, terms> costs_of_terms{&Structure::own, &Structure::hop, &Structure::own_data,
                                                                 &Structure::hop_data};

std::array<double, terms> weights(const Prediction& predicted) {
    return {predicted.works, predicted.hops, predicted.work_data, predicted.hop_data};
}

// x with the least x·A·x − 2 b·x over those terms that are in `used`; false where they do not determine each other.
bool solve(const std::array<std::array<double, terms>, terms>& a, const std::array<double, terms>& b, unsigned used,
           std::array<double, terms>* x) {
    std::array<std::array<double, terms + 1>, terms> rows{};
    std::vector<size_t> at;
    for (size_t i = 0; i < terms; ++i)
        if (used >> i & 1) at.push_back(i);
    for (size_t i = 0; i < at.size(); ++i) {
        for (size_t k = 0; k < at.size(); ++k) rows[i][k] = a[at[i]][at[k]];
        rows[i][at.size()] = b[at[i]];
    }
    for (size_t i = 0; i < at.size(); ++i) {  // without pivoting: the matrix is positive definite, or refused
        if (rows[i][i] <= 1e-9 * a[at[i]][at[i]] || a[at[i]][at[i]] <= 0) return false;
        for (size_t k = 0; k < at.size(); ++k) {
            if (k == i) continue;
            const double factor = rows[k][i] / rows[i][i];
            for (size_t j = i; j <= at.size(); ++j) rows[k][j] -= factor * rows[i][j];
        }
    }
    x->fill(0);
    for (size_t i = 0; i < at.size(); ++i) (*x)[at[i]] = rows[i][at.size()] / rows[i][i];
    return true;
}

// Once it is known which way the last message took to a member, its leave time is linear in the costs:
// leave = base + works · own + hops · hop + the shares of the data. `predictions`: by the structure as it is. Least absolute distances by
// reweighted least squares (a few noisy instances must not matter), none of the costs negative; false where the ways leave them open.
bool regress(Structure* structure, bool uniform, const std::vector<InstanceSample>& samples, const Predictions& predictions,
             double preference) {
    std::array<std::array<double, terms>, terms> a{};
    std::array<double, terms> b{};
    std::array<double, terms> now{};
    for (size_t k = 0; k < terms; ++k) now[k] = static_cast<double>(structure->*costs_of_terms[k]);
    for (size_t s = 0; s < samples.size(); ++s)
        for (size_t i = 0; i < predictions[s].size(); ++i) {
            const auto off = static_cast<double>(samples[s].leave[i] - predictions[s][i].leave);
            const auto f = weights(predictions[s][i]);
            const double weight = 1 / std::max(10.0, std::abs(off));
            double y = off;
            for (size_t k = 0; k < terms; ++k) y += f[k] * now[k];
            for (size_t k = 0; k < terms; ++k) {
                b[k] += weight * f[k] * y;
                for (size_t j = 0; j < terms; ++j) a[k][j] += weight * f[k] * f[j];
            }
        }
    if (a[1][1] <= 0) return false;
    // Where each way has as much work as flight, as in rendezvous, the leave times leave open which of them takes the time: the flight.
    a[0][0] *= 1 + preference;
    if (!structure->link) a[2][2] *= 1 + preference;  // what sharing takes shows where messages are at once, and not where they are alone
    // Of the costs that may be there, those that explain most; the others are 0.
    double most = 0;
    std::array<double, terms> best{};
    for (unsigned used = 1; used < (uniform ? 4u : 16u); ++used) {
        std::array<double, terms> x{};
        if (!solve(a, b, used, &x) || std::any_of(x.begin(), x.end(), [](double cost) { return cost < 0; })) continue;
        double explained = 0;
        for (size_t k = 0; k < terms; ++k) explained += b[k] * x[k];
        if (explained > most * (1 + 1e-9)) {
            most = explained;
            best = x;
        }
    }
    for (size_t k = 0; k < terms; ++k) structure->*costs_of_terms[k] = std::llround(best[k]);
    return true;
}

// As far again beyond `next` as it is from `from`, several times; no cost below 0.
Structure beyond(const Structure& from, Structure next, int64_t times) {
    for (const auto cost : costs_of_terms) next.*cost = std::max<int64_t>(0, next.*cost + times * (next.*cost - from.*cost));
    return next;
}

constexpr size_t few_instances = 3;  // hardly tell what a link takes from what is flight

// The costs decide the ways and the ways the costs: in turn, while it gets better.
class Descent {
  public:
    Descent(const Structure& plain, const std::vector<InstanceSample>& samples, bool noise_known)
        : samples_(samples), noise_known_(noise_known), best_(plain) {
        by_best_.swap(spare());
        const auto members = static_cast<uint32_t>(samples.front().enter.size());
        const Schedule& of = schedule(plain.pattern, members, samples.front().root, false);
        alone_ = std::all_of(samples.begin(), samples.end(), [](const InstanceSample& one) { return one.transfers.empty(); });
        uniform_ = !plain.link && of.uniform && !samples.front().sizes.known() && alone_;
        few_messages_ = of.shares.size() <= size_t{4} * members;  // else each prediction takes long
        for (const InstanceSample& sample : samples) leave_times_ += sample.leave.size();
        if (SamplesTogether::can_follow(samples)) together_.emplace(plain, samples);
        least_ = error_of(best_, std::numeric_limits<double>::infinity());
    }
    ~Descent() { by_best_.swap(spare()); }
    Descent(const Descent&) = delete;
    Descent& operator=(const Descent&) = delete;
    bool try_out(Structure trial) {
        // Of transfers so much at least is under way in the time of a message: else they would explain any noise.
        if (!alone_) trial.hop_data = std::min(trial.hop_data, (trial.hop + trial.own) * int64_t{BlockSizes::unit / 128});
        const double distance = error_of(trial, least_);
        if (distance >= least_) return false;
        least_ = distance;
        best_ = trial;
        return true;
    }
    void leave_out_data() { uniform_ = true; }  // transfers that decide nothing would lead astray
    // `allowed(structure)` brings costs that must not be back to those that may.
    template <class Allowed>
    Fit go_down(Allowed allowed) {
        // Where ways have nearly as much work as flight, what tells these apart is little, and less than a preference that leads there.
        constexpr double much = 3e-4, little = 1e-6;
        double preference = much;
        for (int round = 0; round < 16; ++round) {
            const Structure before = best_;
            Structure next = best_;
            find_ways();
            if (!regress(&next, uniform_, samples_, by_best_, preference)) break;
            if (!try_out(allowed(next)) && !part_of_the_way(before, next, allowed)) {
                if (preference == little) break;
                preference = little;
                continue;
            }
            for (int64_t times = 2; times <= 32 && try_out(allowed(beyond(before, next, times))); times *= 4) {
            }
        }
        best_.error = static_cast<int64_t>(least_);
        return {best_, least_};
    }
    // Where many messages come over one link, few instances tell the sum of what they take and next to nothing of what is flight in it: the
    // regression is stuck on the floor of a valley. So other flights are tried, each with the time of the link that meets the leave times.
    // Only where it left less than twice `worth`.
    template <class Allowed>
    Fit follow_valley(Allowed allowed, double worth) {
        const bool may_be_stuck = best_.link && best_.any_rendezvous() && samples_.size() <= few_instances && few_messages_;
        for (bool better = may_be_stuck && least_ < 2 * worth; better;) {
            better = false;
            for (const double times : {0.5, 0.8, 0.95, 1.05, 1.25, 2.0}) {
                Structure trial = best_;
                trial.hop = std::llround(static_cast<double>(trial.hop) * times);
                for (int step = 0; step < 3; ++step) {
                    const Structure next = allowed(meets_sum(trial));
                    better = try_out(next) || better;
                    trial = next;
                }
            }
        }
        best_.error = static_cast<int64_t>(least_);
        return {best_, least_};
    }

  private:
    // With another time of the link, so that those who wait leave neither too early nor too late in the median.
    Structure meets_sum(Structure structure) {
        std::vector<int64_t> off;
        double data = 0;
        std::vector<Prediction> predicted;
        for (const InstanceSample& sample : samples_) {
            predict(structure, sample, &predicted);
            for (size_t i = 0; i < predicted.size(); ++i) {
                if (predicted[i].work_data <= 0) continue;
                off.push_back(sample.leave[i] - predicted[i].leave);
                data += predicted[i].work_data;
            }
        }
        if (off.empty()) return structure;
        std::nth_element(off.begin(), off.begin() + static_cast<std::ptrdiff_t>(off.size() / 2), off.end());
        const double slope = data / static_cast<double>(off.size());
        structure.own_data = std::max<int64_t>(0, structure.own_data + std::llround(static_cast<double>(off[off.size() / 2]) / slope));
        return structure;
    }
    // Which messages share a link depends on the costs, so the ways change with them, and all of a step may be too much. So it may be where
    // one instance alone tells.
    template <class Allowed>
    bool part_of_the_way(const Structure& from, const Structure& to, Allowed allowed) {
        if (!from.link && samples_.size() > 1) return false;
        for (const int64_t part : {2, 4, 8}) {
            Structure next = from;
            for (const auto cost : costs_of_terms) next.*cost += (to.*cost - from.*cost) / part;
            if (try_out(allowed(next))) return true;
        }
        return false;
    }
    void find_ways() {
        if (together_) return together_->predict(best_, &by_best_);
        by_best_.resize(samples_.size());
        for (size_t s = 0; s < samples_.size(); ++s) predict(best_, samples_[s], &by_best_[s]);
    }
    // What the last one predicted, for its memory: there are many, one after another.
    static Predictions& spare() {
        static thread_local Predictions predictions;
        return predictions;
    }
    // Distance of prediction and measurement, or anything from `most` on where it is that or more: then not all are predicted.
    double error_of(const Structure& structure, double most) {
        distances_.clear();
        double sum = 0;
        const auto add = [&](const InstanceSample& sample, size_t member, int64_t predicted) {
            const int64_t distance = std::abs(predicted - sample.leave[member]);
            distances_.add(sample, member, distance);
            sum += static_cast<double>(distance);
        };
        const auto too_much = [&] { return noise_known_ && sum / static_cast<double>(leave_times_) >= most; };
        if (together_) {
            const int64_t* predicted = together_->leaves(structure).data();
            for (const InstanceSample& sample : samples_) {
                for (size_t i = 0; i < sample.leave.size(); ++i) add(sample, i, *predicted++);
                if (too_much()) return most;
            }
            return typical(distances_, noise_known_);
        }
        for (const InstanceSample& sample : samples_) {
            predict(structure, sample, &predicted_, false);
            for (size_t i = 0; i < predicted_.size(); ++i) add(sample, i, predicted_[i].leave);
            if (too_much()) return most;
        }
        return typical(distances_, noise_known_);
    }

    const std::vector<InstanceSample>& samples_;
    bool noise_known_, uniform_ = true, few_messages_ = true, alone_ = true;
    size_t leave_times_ = 0;
    std::optional<SamplesTogether> together_;
    Structure best_;
    double least_ = 0;
    Predictions by_best_;
    std::vector<Prediction> predicted_;
    Distances distances_;
};

// Of a fence: from a limit of the library on whoever a transfer leaves waits for it, too, and it may be longer under way.
Fit with_long_transfers(Fit found, const std::vector<InstanceSample>& samples, bool noise_known) {
    // Where MPI libraries and SMPI change protocol or latency, mostly; 0: everything is long. Clearly: it is one cost more.
    constexpr double limits[] = {0, 4096, 8192, 16384, 32768, 65472}, clearly = 0.8;
    std::set<double> lengths;
    for (const InstanceSample& sample : samples)
        for (const TransfersOfMember& its : sample.transfers)
            for (const AwaitedTransfer& one : its.awaited) lengths.insert(one.length * static_cast<double>(BlockSizes::unit));
    for (const double limit : limits) {
        if (lengths.empty() || *lengths.rbegin() <= limit) break;
        if (limit > 0 && *lengths.begin() > limit) continue;  // as without a limit
        Structure start = found.structure;
        start.eager_ppm = std::llround(limit / static_cast<double>(BlockSizes::unit) * 1e6);
        start.own_data = 0;
        Descent descent(start, samples, noise_known);
        for (const Structure& with : with_transfers({start}, samples)) descent.try_out(with);
        for (const int64_t times : {1, 4}) {
            if (limit == 0) break;  // all take as much more: their latency
            Structure longer = start;
            longer.own_data = times * start.hop;
            descent.try_out(longer);
        }
        const Fit other = descent.go_down([](const Structure& any) { return any; });
        if (other.error < clearly * found.error) found = other;
    }
    return found;
}

// Of a fence: what its members take the longer the more data has come to them, for each unit of data, in the median by data.
int64_t left_by_data(const Structure& structure, const std::vector<InstanceSample>& samples) {
    std::vector<std::pair<double, double>> left;  // and of how much data
    double all = 0, upto = 0;
    std::vector<Prediction> predicted;
    for (const InstanceSample& sample : samples) {
        predict(structure, sample, &predicted, false);
        for (size_t i = 0; i < sample.transfers.size(); ++i) {
            const double share = sample.transfers[i].taken_share;
            if (share > 0) left.emplace_back(static_cast<double>(sample.leave[i] - predicted[i].leave) / share, share);
            all += share;
        }
    }
    std::sort(left.begin(), left.end());
    for (const auto& [of_unit, share] : left)
        if ((upto += share) * 2 >= all) return std::llround(of_unit);
    return 0;
}

// … which copies of it may take.
template <class Allowed>
Fit with_taking(Fit found, const std::vector<InstanceSample>& samples, bool noise_known, Allowed allowed) {
    constexpr double clearly = 0.8, as_good = 1.1;
    Fit best = found;
    for (const int64_t part : {1, 8, 64}) {  // flight that explains some of that hides it, and may be none
        Fit one{found.structure, std::numeric_limits<double>::infinity()};
        one.structure.hop_data /= part;
        for (int64_t more = 0; (more = left_by_data(one.structure, samples)) + one.structure.taking_data > 0;) {
            Structure start = one.structure;
            start.taking_data += more;
            const Fit other = Descent(start, samples, noise_known).go_down(allowed);
            if (other.error >= 0.99 * one.error) break;
            one = other;
        }
        if (one.error < as_good * best.error + static_cast<double>(found.structure.own) / 16) best = one;
    }
    return best.error < clearly * found.error ? best : found;
}

}  // namespace

Fit fit(const Structure& plain, const std::vector<InstanceSample>& samples, bool noise_known, double constant_error, double rival,
        bool by_flights) {
    const bool few = evidence(samples) != Evidence::enough || samples.size() == 1;
    const auto anything = [](const Structure& any) { return any; };
    if (!few) {
        const std::vector<Structure> list = starts(plain, samples, few), with = with_transfers(list, samples);
        Descent descent(plain, samples, noise_known);
        for (const Structure& start : list) descent.try_out(start);
        if (!with.empty()) descent.leave_out_data();
        Fit found = descent.go_down(anything);
        if (!with.empty()) {
            Descent by_transfers(found.structure, samples, noise_known);
            for (const Structure& start : with) by_transfers.try_out(start);
            for (const Structure& start : with_transfers({found.structure}, samples)) by_transfers.try_out(start);
            const Fit other = by_transfers.go_down(anything);
            if (other.error < found.error) found = other;
        }
        const bool explained = found.error * enough_said <= constant_error;
        if (const auto flights = explained || !by_flights ? std::vector<Structure>() : with_flights(plain, samples); !flights.empty()) {
            Descent descends(flights.front(), samples, noise_known);
            for (const Structure& start : flights) descends.try_out(start);
            const Fit other = descends.go_down(anything);
            constexpr double far_better = 4;  // else they recur by chance
            if (other.error * far_better < std::min(found.error, constant_error)) found = other;
        }
        if (samples.front().enter.size() == 2 && found.error > 0) {
            const Fit other = Descent(from_first(plain, samples), samples, noise_known).go_down(anything);
            if (other.error < found.error) found = other;
        }
        if (!plain.link && with.empty()) return found;
        if (!plain.link) return with_taking(with_long_transfers(found, samples, noise_known), samples, noise_known, anything);
        if (found.error > hopeless * rival) return found;
        found = Descent(found.structure, samples, noise_known).follow_valley(anything, constant_error);
        // What sharing takes of the way that a message takes alone, from which descents differ; in rendezvous it may be most of it. One
        // that is far off without it is another algorithm.
        const Structure alone = found.structure;
        const auto says_enough = [&] { return found.error > 2 * constant_error || found.error * enough_said <= constant_error; };
        const auto descend_from = [&](Structure start, double hop, double own_data) {
            if (says_enough()) return;
            start.hop = std::llround(hop);
            start.own_data = std::llround(own_data);
            Descent descent(start, samples, noise_known);
            descent.follow_valley(anything, constant_error);  // before a step of the regression leads far away
            descent.go_down(anything);
            const Fit other = descent.follow_valley(anything, constant_error);
            if (other.error < found.error) found = other;
        };
        const auto hop = static_cast<double>(alone.hop), whole = hop + static_cast<double>(alone.own);
        const Structure without_work = scaled(alone, 0, whole);
        if (plain.any_rendezvous()) {
            descend_from(alone, 0.4 * hop, 0.6 * hop);
            const Structure limited = limited_by_link(alone, samples);
            descend_from(limited, 0.05 * hop, static_cast<double>(limited.own_data));
        } else {
            for (const int64_t part : {4, 16}) descend_from(alone, hop, hop / static_cast<double>(part));
            descend_from(without_work, whole, whole / 4);
        }
        descend_from(without_work, whole, whole / 64);
        return found;
    }
    Fit best{plain, std::numeric_limits<double>::infinity()};
    if (plain.link && !plain.any_rendezvous()) return best;  // one instance, or few leave times, do not tell what sharing takes
    std::vector<Structure> list = starts(plain, samples, few);
    const std::vector<Structure> with = with_transfers(list, samples);
    list.insert(list.end(), with.begin(), with.end());
    for (const Structure& start : list) {  // one instance leads a descent astray easily: from each of them
        const Fit one = Descent(start, samples, noise_known).go_down(anything);
        if (one.error < best.error) best = one;
    }
    if (plain.link) best = Descent(best.structure, samples, noise_known).follow_valley(anything, constant_error);
    return best;
}

Fit fit_from(const std::vector<Structure>& starts, const std::vector<InstanceSample>& samples, bool noise_known, double range,
             double worth) {
    Descent descent(starts.front(), samples, noise_known);
    const Structure* start = &starts.front();
    for (size_t i = 1; i < starts.size(); ++i)
        if (descent.try_out(starts[i])) start = &starts[i];
    constexpr double least_own_range = 4;  // of messages it is known less well than the latency
    const auto within = [&](int64_t cost, int64_t known, double times) {
        const auto ns = static_cast<double>(known);
        return std::clamp(cost, static_cast<int64_t>(ns / times), static_cast<int64_t>(ns * times));
    };
    const auto near_known = [&](Structure next) {
        next.own = within(next.own, start->own, std::max(range, least_own_range));
        next.hop = within(next.hop, start->hop, range);
        return next;
    };
    descent.go_down(near_known);
    Fit found = descent.follow_valley(near_known, worth);
    const std::vector<Structure> with = with_transfers({*start}, samples);
    if (with.empty()) return found;
    Descent other(with.front(), samples, noise_known);
    for (const Structure& costs : with) other.try_out(costs);
    const Fit by_transfers = other.go_down(near_known);
    return with_taking(by_transfers.error < found.error ? by_transfers : found, samples, noise_known, near_known);
}

}  // namespace polter::replay
