// SPDX-License-Identifier: BSD-3-Clause
#include "bins.hpp"

#include <Eigen/Core>
#include <cmath>

namespace polter::samples {

double Bins::per_e() const {
    return count / std::log(top / width);
}

uint32_t Bins::bin(double value) const {
    if (!(value > width)) return 0;
    if (value >= top) return count - 1;
    const double exact = per_e() * std::log(value / width);
    return std::min(static_cast<uint32_t>(exact + 1e-9), count - 1);  // a bin's begin belongs to it
}

double Bins::begin(uint32_t bin) const {
    return bin == 0 ? 0 : width * std::exp(bin / per_e());
}

Histogram::Histogram(const Bins& bins) : bins_(bins), counts_(bins.count) {
    if (bins.count < 2 || !(bins.width > 0) || !(bins.top > bins.width))
        throw Error("a histogram needs two bins or more, and a top above the width of its first bin");
}

void Histogram::add(double value) {
    if (std::isnan(value)) throw Error("a sample of a histogram is no number; the measurement that it comes from is damaged");
    if (value < 0) {
        value = 0;
        ++clamped;
    }
    above += value >= bins_.top;
    least_ = samples_ == 0 ? value : std::min(least_, value);
    most_ = std::max(most_, value);
    sum_ += value;
    ++counts_[bins_.bin(value)];
    ++samples_;
}

void Histogram::add_bin(uint32_t bin, uint64_t samples) {
    if (bin >= bins_.count) throw Error("a histogram's bin lies beyond its last one; the result file is damaged");
    counts_[bin] += samples;
    samples_ += samples;
}

void Histogram::set_extremes(double least, double most, double sum) {
    least_ = least;
    most_ = most;
    sum_ = sum;
}

void Histogram::merge(const Histogram& other) {
    if (!(bins_ == other.bins_)) throw Error("histograms with different bins cannot be added up");
    if (other.samples_ == 0) return;
    least_ = samples_ == 0 ? other.least_ : std::min(least_, other.least_);
    most_ = std::max(most_, other.most_);
    sum_ += other.sum_;
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    samples_ += other.samples_;
    clamped += other.clamped;
    above += other.above;
}

double Histogram::mean() const {
    return samples_ == 0 ? 0 : sum_ / static_cast<double>(samples_);
}

double Histogram::density(uint32_t bin) const {
    if (samples_ == 0) return 0;
    return static_cast<double>(counts_[bin]) / static_cast<double>(samples_) / (bins_.begin(bin + 1) - bins_.begin(bin));
}

double Histogram::cumulative(uint32_t bin) const {
    if (samples_ == 0) return 0;
    uint64_t below = 0;
    for (uint32_t i = 0; i <= bin; ++i) below += counts_[i];
    return static_cast<double>(below) / static_cast<double>(samples_);
}

double Histogram::quantile(double p) const {
    if (samples_ == 0) throw Error("there are no samples of a quantile");
    const double wanted = std::clamp(p, 0.0, 1.0) * static_cast<double>(samples_);
    double below = 0;
    for (uint32_t i = 0; i < bins_.count; ++i) {
        const auto here = static_cast<double>(counts_[i]);
        if (here > 0 && below + here >= wanted) {
            const double part = (wanted - below) / here, begin = std::max(bins_.begin(i), least_),
                         end = std::min(i + 1 == bins_.count ? most_ : bins_.begin(i + 1), most_);
            return begin + part * std::max(end - begin, 0.0);
        }
        below += here;
    }
    return most_;
}

double Histogram::mode() const {
    uint32_t best = 0;
    for (uint32_t i = 1; i < bins_.count; ++i)
        if (density(i) > density(best)) best = i;
    return std::clamp(bins_.centre(best), least_, most_);
}

Moments Histogram::moments(double about) const {
    if (samples_ == 0) return {};
    Eigen::ArrayXd weight(bins_.count), distance(bins_.count);
    for (uint32_t i = 0; i < bins_.count; ++i) {
        weight[i] = static_cast<double>(counts_[i]) / static_cast<double>(samples_);
        distance[i] = std::clamp(bins_.centre(i), least_, most_) - about;
    }
    const auto of_power = [&](int power) { return (weight * distance.pow(power)).sum(); };
    return {mean() - about, of_power(2), of_power(3), of_power(4)};
}

std::vector<Peak> Histogram::peaks(double valley, double least_share) const {
    std::vector<Peak> found;
    if (samples_ == 0) return found;
    // Over the logarithm bins are equally wide, so counts are the density there. Smoothed by a triangle of five bins; the first bin, which
    // is wide, and the last, which has no end, are like others.
    const auto n = static_cast<int>(bins_.count);
    const auto count = [&](int i) { return i < 0 || i >= n ? 0.0 : static_cast<double>(counts_[i]); };
    Eigen::ArrayXd smooth(n);
    for (int i = 0; i < n; ++i) smooth[i] = (count(i - 2) + 2 * count(i - 1) + 3 * count(i) + 2 * count(i + 1) + count(i + 2)) / 9;
    struct Hill {
        int first, last;
        double height;
    };
    // From left to right: a hill ends where the density has fallen to a valley and rises again.
    std::vector<Hill> hills;
    for (int i = 0; i < n;) {
        if (smooth[i] <= 0) {
            ++i;
            continue;
        }
        int last = i;
        double height = smooth[i];
        while (last + 1 < n && smooth[last + 1] > 0) {
            if (smooth[last] < height && smooth[last + 1] > smooth[last]) break;  // behind the summit it rises again
            height = std::max(height, smooth[++last]);
        }
        hills.push_back({i, last, height});
        i = last + 1;
    }
    const auto share = [&](const Hill& hill) {
        uint64_t sum = 0;
        for (int i = hill.first; i <= hill.last; ++i) sum += counts_[i];
        return static_cast<double>(sum) / static_cast<double>(samples_);
    };
    // Neighbours without a valley between them are one; then small ones join the neighbour that they touch, or are left out.
    const auto between = [&](const Hill& a, const Hill& b) {
        return a.last + 1 < b.first ? 0.0 : std::min(smooth[a.last], smooth[b.first]);
    };
    const auto join = [&](size_t i) {
        hills[i] = {hills[i].first, hills[i + 1].last, std::max(hills[i].height, hills[i + 1].height)};
        hills.erase(hills.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    };
    for (bool changed = true; changed;) {
        changed = false;
        size_t shallowest = hills.size();
        double depth = valley;
        for (size_t i = 0; i + 1 < hills.size(); ++i) {
            const double relative = between(hills[i], hills[i + 1]) / std::min(hills[i].height, hills[i + 1].height);
            if (relative > depth) {
                depth = relative;
                shallowest = i;
            }
        }
        if (shallowest < hills.size()) {
            join(shallowest);
            changed = true;
        }
    }
    for (size_t i = 0; i < hills.size();) {
        if (share(hills[i]) >= least_share) {
            ++i;
        } else if (i + 1 < hills.size() && between(hills[i], hills[i + 1]) > 0) {
            join(i);
        } else if (i > 0 && between(hills[i - 1], hills[i]) > 0) {
            join(--i);
        } else {
            hills.erase(hills.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    for (const Hill& hill : hills) {
        int top = hill.first;
        for (int i = hill.first; i <= hill.last; ++i)
            if (smooth[i] > smooth[top]) top = i;
        // Where the raw count is greatest beside the smoothed summit.
        for (int i = std::max(hill.first, top - 1), end = std::min(hill.last, top + 1); i <= end; ++i)
            if (counts_[i] > counts_[top]) top = i;
        const auto bin = static_cast<uint32_t>(top);
        found.push_back({std::clamp(bins_.centre(bin), least_, most_), share(hill), static_cast<uint32_t>(hill.first),
                         static_cast<uint32_t>(hill.last)});
    }
    return found;
}

}  // namespace polter::samples
