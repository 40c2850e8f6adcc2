// SPDX-License-Identifier: BSD-3-Clause
#include "chosen_transfers.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

namespace polter::replay {

namespace {

struct SizeClass {
    size_t all = 0;         // transfers, of all processes
    size_t number = 0;      // among the classes
    size_t run_to_run = 0;  // transfers of this size from the beginning of a run to that of the next one
};

// What the histogram is of.
struct Range {
    int64_t first = std::numeric_limits<int64_t>::max(), last = std::numeric_limits<int64_t>::min();
    size_t all = 0;
    int shift = 0;
    size_t bins = 0;
    std::map<uint64_t, SizeClass> sizes;
    std::vector<const SizeClass*> classes;

    size_t bin(int64_t at) const { return (static_cast<uint64_t>(at) - static_cast<uint64_t>(first)) >> shift; }
};

Range range_of(const std::vector<TransferKey>& mine, const LinkSearch& search) {
    constexpr size_t most_bins = 1 << 12, most_counters = 1 << 16;
    Range range;
    std::map<uint64_t, size_t> counts;
    for (const TransferKey& one : mine) {
        range.first = std::min(range.first, one.at);
        range.last = std::max(range.last, one.at);
        ++counts[size_of_message(one.bytes)];
    }
    Bytes bytes;
    bytes.put(range.first);
    bytes.put(range.last);
    for (const auto& [size, count] : counts) {
        bytes.put(size);
        bytes.put(count);
    }
    for (const Bytes& one : search.of_all(bytes)) {
        Input input(one);
        range.first = std::min(range.first, input.get<int64_t>());
        range.last = std::max(range.last, input.get<int64_t>());
        while (!input.empty()) {
            SizeClass& size = range.sizes[input.get<uint64_t>()];
            const auto count = input.get<size_t>();
            size.all += count;
            range.all += count;
        }
    }
    if (range.all == 0) return range;
    for (auto& [of, size] : range.sizes) {
        size.number = range.classes.size();
        size.run_to_run = (size.all + runs_of_each_size - 1) / runs_of_each_size;
        range.classes.push_back(&size);
    }
    range.bins = std::clamp<size_t>(std::bit_floor(most_counters / range.classes.size()), 16, most_bins);
    const uint64_t span = static_cast<uint64_t>(range.last) - static_cast<uint64_t>(range.first);
    range.shift = std::max(0, static_cast<int>(std::bit_width(span)) - static_cast<int>(std::bit_width(range.bins) - 1));
    return range;
}

// By class and bin, one class after another: transfers of all processes.
std::vector<uint32_t> histogram(const std::vector<TransferKey>& mine, const Range& range, const LinkSearch& search) {
    std::vector<uint32_t> counts(range.classes.size() * range.bins, 0), sum(counts.size(), 0);
    for (const TransferKey& one : mine) ++counts[range.sizes.at(size_of_message(one.bytes)).number * range.bins + range.bin(one.at)];
    Bytes bytes;
    bytes.put(counts);
    for (const Bytes& one : search.of_all(bytes)) {
        Input(one).get(counts);
        std::transform(sum.begin(), sum.end(), counts.begin(), sum.begin(), std::plus<>());
    }
    return sum;
}

// The bins in which a run begins or goes on; and by class and bin, how many transfers are in the bins before.
std::vector<bool> bins_of_runs(const Range& range, const std::vector<uint32_t>& counts, size_t in_run, std::vector<size_t>* before) {
    std::vector<size_t> in_bin(range.bins, 0);
    std::vector<bool> begins(range.bins, false), needed(range.bins, false);
    before->assign(counts.size(), 0);
    for (const SizeClass* size : range.classes) {
        size_t met = 0;
        for (size_t bin = 0; bin < range.bins; ++bin) {
            const size_t at = size->number * range.bins + bin;
            (*before)[at] = met;
            const size_t next_run = (met + size->run_to_run - 1) / size->run_to_run * size->run_to_run;
            begins[bin] = begins[bin] || next_run < met + counts[at];
            met += counts[at];
            in_bin[bin] += counts[at];
        }
    }
    size_t left = 0;
    for (size_t bin = 0; bin < range.bins; ++bin) {
        needed[bin] = begins[bin] || left > 0;
        left = begins[bin] ? in_run : left - std::min(left, in_bin[bin]);
    }
    return needed;
}

}  // namespace

std::vector<size_t> chosen_transfers(const std::vector<TransferKey>& mine, size_t most, const LinkSearch& search) {
    std::vector<size_t> chosen;
    const Range range = range_of(mine, search);
    if (range.all <= most) {
        chosen.resize(mine.size());
        std::iota(chosen.begin(), chosen.end(), size_t{0});
        return chosen;
    }
    const size_t in_run = transfers_in_run(most, range.classes.size());
    std::vector<size_t> before;
    const std::vector<bool> needed = bins_of_runs(range, histogram(mine, range, search), in_run, &before);

    struct Near {
        TransferKey key;
        size_t process, place;
        bool operator<(const Near& other) const {
            return std::tie(key.at, key.thread, key.number) < std::tie(other.key.at, other.key.thread, other.key.number);
        }
    };
    Bytes bytes;
    for (size_t i = 0; i < mine.size(); ++i)
        if (needed[range.bin(mine[i].at)]) bytes.put(Near{mine[i], search.part, i});
    std::vector<Near> near;
    for (const Bytes& one : search.of_all(bytes))
        for (Input input(one); !input.empty();) near.push_back(input.get<Near>());
    std::sort(near.begin(), near.end());

    std::vector<size_t> met(range.classes.size(), 0);
    size_t left = 0, bin = range.bins;
    for (const Near& one : near) {
        if (const size_t now = range.bin(one.key.at); now != bin) {
            bin = now;
            for (size_t number = 0; number < met.size(); ++number) met[number] = before[number * range.bins + bin];
        }
        const SizeClass& size = range.sizes.at(size_of_message(one.key.bytes));
        if (met[size.number]++ % size.run_to_run == 0) left = in_run;
        if (left == 0) continue;
        --left;
        if (one.process == search.part) chosen.push_back(one.place);
    }
    return chosen;
}

}  // namespace polter::replay
