// SPDX-License-Identifier: BSD-3-Clause
// Instead of single calls, messages and noise: for each thread and interval of time, which part of it was MPI and which part each source of
// noise. The size of the export then depends on ranks and intervals only.
#pragma once

#include <vector>

#include "timeline_writer.hpp"

namespace polter::exports {

class Aggregate : public Sink {
  public:
    // Of counters: those of the trace with their last value in each interval, then MPI, then the accounts.
    static std::vector<CounterName> names(const replay::Definitions&);

    Aggregate(TimelineWriter& to, const replay::Definitions& definitions, int64_t begin_ns, int64_t length_ns, size_t intervals);
    void begin(const Place&) override;
    void enter(int64_t time, uint32_t region, bool mpi) override;
    void leave(int64_t time) override;
    void noise(const NoiseSlice&) override;
    void counter(int64_t time, size_t counter, double value) override;
    void end() override;

  private:
    size_t interval(int64_t time) const;
    int64_t begin_of(size_t interval) const;
    void add(size_t series, int64_t begin, int64_t end);

    TimelineWriter& to_;
    const replay::Definitions& definitions_;
    int64_t begin_ns_, length_ns_;
    size_t intervals_;
    std::vector<std::vector<double>> values_;  // by counter and interval; empty: nothing of it; sums in ns, but of the trace's counters
    std::vector<bool> open_;                   // calls; true: of MPI
    size_t in_mpi_ = 0;
    int64_t mpi_since_ = 0;
};

}  // namespace polter::exports
