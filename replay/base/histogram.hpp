// SPDX-License-Identifier: BSD-3-Clause
// A logarithmic histogram of durations, 16 linear bins an octave. Integers only, and merging is addition, so neither the order nor the
// process of the samples matters.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
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
        for (size_t i = 0; i < other.bins_.size(); ++i)
            if (other.bins_[i].count > 0) merge(static_cast<uint16_t>(other.first_ + i), other.bins_[i]);
    }

    int64_t count() const { return count_; }

    // The mean of the bin that holds the quantile (per cent): exact where all values of the bin are equal.
    int64_t quantile(int percent) const {
        int64_t before = 0;
        const int64_t wanted = (count_ - 1) * percent / 100;
        for (const Bin& bin : bins_) {
            before += bin.count;
            if (before > wanted) return bin.sum / bin.count;
        }
        return 0;
    }

    // How many are in the bin of that value.
    int64_t count_beside(int64_t ns) const {
        const size_t at = index(static_cast<uint64_t>(std::max<int64_t>(ns, 0)));
        return at < first_ || at - first_ >= bins_.size() ? 0 : bins_[at - first_].count;
    }

    // The mean of the bins whose means are that far from a value at most; the value where there are none.
    int64_t mean_within(int64_t distance, int64_t of) const {
        Bin near;
        for (const Bin& bin : bins_)
            if (bin.count > 0 && std::abs(bin.sum / bin.count - of) <= distance) near.count += bin.count, near.sum += bin.sum;
        return near.count > 0 ? near.sum / near.count : of;
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
    // Those in use, in order.
    std::vector<std::pair<uint16_t, Bin>> bins() const {
        std::vector<std::pair<uint16_t, Bin>> used;
        for (size_t i = 0; i < bins_.size(); ++i)
            if (bins_[i].count > 0) used.emplace_back(static_cast<uint16_t>(first_ + i), bins_[i]);
        return used;
    }
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
        const size_t place = static_cast<uint16_t>(index - first_);  // below the first one: beyond all bins
        if (place >= bins_.size()) return make_room(index);
        return bins_[place];
    }
    Bin& make_room(uint16_t index) {
        constexpr uint16_t step = 4;  // a line of the cache
        const auto from = static_cast<uint16_t>(index / step * step);
        if (bins_.empty()) first_ = from;
        if (from < first_) {
            bins_.insert(bins_.begin(), static_cast<size_t>(first_ - from), Bin());
            first_ = from;
        }
        bins_.resize(std::max<size_t>(bins_.size(), static_cast<size_t>(from - first_) + step));
        return bins_[static_cast<size_t>(index - first_)];
    }

    std::vector<Bin> bins_;  // from `first_` on: a cost of communication spans an octave or two
    uint16_t first_ = 0;
    int64_t count_ = 0;
};

}  // namespace polter::replay
