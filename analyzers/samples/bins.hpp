// SPDX-License-Identifier: BSD-3-Clause
// A histogram with logarithmic bins, and what can be said of a distribution from it.
//
// Source: Settlemyer et al., "Confidence" (2010, 2011), with its bins as the original program has them: bin b >= 1 begins at
// width * exp(b / H) with H = bins / ln(top / width); bin 0 is [0, width * exp(1 / H)); the last one also counts what is above.
#pragma once

#include <cstdint>
#include <vector>

#include "statistics.hpp"

namespace polter::samples {

struct Bins {
    double width = 50, top = 1e9;  // ns
    uint32_t count = 1000;

    double per_e() const;  // H
    uint32_t bin(double value) const;
    double begin(uint32_t bin) const;  // of bin `count`: top
    double centre(uint32_t bin) const { return (begin(bin) + begin(bin + 1)) / 2; }
    bool operator==(const Bins&) const = default;
};

struct Moments {
    double first = 0, second = 0, third = 0, fourth = 0;  // means of the powers
};

struct Peak {
    double centre = 0;             // where the density is greatest
    double share = 0;              // of the samples, between the valleys
    uint32_t first = 0, last = 0;  // its bins
};

class Histogram {
  public:
    explicit Histogram(const Bins& bins = {});

    void add(double value);                                    // negative: counted as 0, and as clamped. Throws Error if it is no number.
    void add_bin(uint32_t bin, uint64_t samples);              // of samples whose own values are not kept
    void set_extremes(double least, double most, double sum);  // after add_bin()
    void merge(const Histogram&);                              // of equal bins

    const Bins& bins() const { return bins_; }
    const std::vector<uint64_t>& counts() const { return counts_; }
    uint64_t samples() const { return samples_; }
    uint64_t clamped = 0, above = 0;  // below 0; at `top` or above

    double least() const { return least_; }
    double most() const { return most_; }
    double mean() const;
    double density(uint32_t bin) const;     // share of the samples per unit
    double cumulative(uint32_t bin) const;  // share of the samples up to the bin's end
    double quantile(double p) const;        // by linear interpolation inside the bin
    double mode() const;                    // centre of the bin of the greatest density: of the count it would drift to wide bins
    Moments moments(double about) const;    // each sample at its bin's centre, within least and most
    // Peaks of the density over the logarithm, with a valley between two of at most `valley` of the lower one, and at least `least_share`
    // of the samples each. In the order of time.
    std::vector<Peak> peaks(double valley = 0.8, double least_share = 0.01) const;

  private:
    Bins bins_;
    std::vector<uint64_t> counts_;
    uint64_t samples_ = 0;
    double least_ = 0, most_ = 0, sum_ = 0;
};

}  // namespace polter::samples
