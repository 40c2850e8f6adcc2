// SPDX-License-Identifier: BSD-3-Clause
// A logarithmic histogram of durations, 16 linear bins an octave. Integers only, and merging is addition, so neither the order nor the
// process of the samples matters.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace polter::replay {

class Histogram {
  public:
    void add(int64_t ns) {
        if (ns < 0) ns = 0;
        Bin& bin = at(index(static_cast<uint64_t>(ns)));
        ++bin.count;
        bin.sum += ns;
        ++count_;
    }

    void merge(const Histogram& other) {
        for (const auto& [at, bin] : other.bins_) merge(at, bin);
    }

    int64_t count() const { return count_; }

    // The mean of the bin that holds the quantile (per cent): exact where all values of the bin are equal.
    int64_t quantile(int percent) const {
        int64_t before = 0;
        const int64_t wanted = (count_ - 1) * percent / 100;
        for (const auto& [at, bin] : bins_) {
            before += bin.count;
            if (before > wanted) return bin.sum / bin.count;
        }
        return 0;
    }

    // The least value of a bin.
    static int64_t least(uint16_t at) {
        constexpr int parts = 1 << part_bits;
        if (at < parts) return at;
        return static_cast<int64_t>(parts + at % parts) << (at / parts - 1);
    }

    struct Bin {
        int64_t count = 0, sum = 0;
    };
    using Bins = std::vector<std::pair<uint16_t, Bin>>;  // in order; only bins in use
    const Bins& bins() const { return bins_; }
    void merge(uint16_t index, const Bin& added) {
        Bin& bin = at(index);
        bin.count += added.count;
        bin.sum += added.sum;
        count_ += added.count;
    }

  private:
    static constexpr int part_bits = 4;

    static uint16_t index(uint64_t value) {
        if (value < (1u << part_bits)) return static_cast<uint16_t>(value);
        const int octave = std::bit_width(value) - 1 - part_bits;
        return static_cast<uint16_t>((octave << part_bits) + (value >> octave));
    }

    Bin& at(uint16_t index) {
        if (latest_ < bins_.size() && bins_[latest_].first == index) return bins_[latest_].second;
        auto place =
            std::lower_bound(bins_.begin(), bins_.end(), index, [](const auto& bin, uint16_t wanted) { return bin.first < wanted; });
        if (place == bins_.end() || place->first != index) place = bins_.insert(place, {index, Bin()});
        latest_ = static_cast<size_t>(place - bins_.begin());
        return place->second;
    }

    Bins bins_;  // few: a cost of communication spans an octave or two
    size_t latest_ = 0;
    int64_t count_ = 0;
};

}  // namespace polter::replay
