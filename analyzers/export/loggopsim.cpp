// SPDX-License-Identifier: BSD-3-Clause
#include "loggopsim.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace polter::exports {

namespace {

// LogGOPSim never adds the first event of a file to an operation that began before it, and reads beyond the end of a file of one event.
constexpr const char* opening = "0\t0\n";

}  // namespace

NoiseFiles::NoiseFiles(Target& target, const replay::Definitions& definitions, int64_t begin_ns, int64_t length_ns)
    : target_(target), definitions_(definitions), begin_ns_(begin_ns), length_ns_(length_ns), pooled_(target.open("noise-pooled.txt")) {
    pooled_->write("# polter export: noise of all ranks, one rank after the other\n");
    pooled_->write(opening);
}

void NoiseFiles::begin(const Place& place) {
    place_ = place;
    noise_.clear();
}

void NoiseFiles::noise(const NoiseSlice& slice) {
    if (place_.thread > 0 || definitions_.accounts[static_cast<size_t>(slice.account)].service) return;
    noise_.emplace_back(slice.begin - begin_ns_, slice.end - slice.begin);
    ++count_;
}

void NoiseFiles::end() {
    if (place_.thread > 0) return;
    // What was found late came after later noise.
    std::sort(noise_.begin(), noise_.end());
    const auto file = target_.open(fmt::format("noise-rank{}.txt", place_.rank));
    file->write(fmt::format("# polter export: noise of rank {}\n", place_.rank));
    file->write(opening);
    const auto write_to = [&](OutputFile& out, int64_t shift) {
        for (const auto& [begin, duration] : noise_) out.write(fmt::format("{}\t{}\n", begin + shift, duration));
    };
    write_to(*file, 0);
    write_to(*pooled_, pooled_ranks_++ * length_ns_);
    // LogGOPSim repeats the file from its last line on: it has to be as long as the run.
    file->write(fmt::format("{}\t0", length_ns_));
    file->close();
    bytes_ += file->bytes();
    ++files_;
}

void NoiseFiles::finish() {
    pooled_->write(fmt::format("{}\t0", pooled_ranks_ * length_ns_));
    pooled_->close();
    ++files_;
}

}  // namespace polter::exports
