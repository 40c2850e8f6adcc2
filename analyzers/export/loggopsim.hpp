// SPDX-License-Identifier: BSD-3-Clause
// Noise files for LogGOPSim's --noise-trace: one a rank, and one of all ranks, as LogGOPSim takes one file for all.
//
// Format: Noise.hpp of LogGOPSim. Lines "<begin ns>\t<duration ns>", rising; "#" begins a comment. The last line has no newline: LogGOPSim
// would read it twice. The first event lasts 0 ns.
#pragma once

#include <utility>
#include <vector>

#include "output.hpp"
#include "timeline_reader.hpp"

namespace polter::exports {

class NoiseFiles : public Sink {
  public:
    static Target::Kind kind() { return {"folder of noise files", "", true}; }
    // `length_ns`: of what is exported, from its begin at `begin_ns`. The noise of services is left out.
    NoiseFiles(Target& target, const replay::Definitions& definitions, int64_t begin_ns, int64_t length_ns);

    void begin(const Place&) override;
    void noise(const NoiseSlice&) override;
    void end() override;
    void finish();
    uint64_t bytes() const { return bytes_ + pooled_->bytes(); }
    uint64_t count() const { return count_; }
    size_t files() const { return files_; }

  private:
    Target& target_;
    const replay::Definitions& definitions_;
    int64_t begin_ns_, length_ns_;
    std::unique_ptr<OutputFile> pooled_;
    Place place_;
    std::vector<std::pair<int64_t, int64_t>> noise_;  // of the rank: begin and duration
    int64_t pooled_ranks_ = 0;
    uint64_t bytes_ = 0, count_ = 0;
    size_t files_ = 0;
};

}  // namespace polter::exports
