// SPDX-License-Identifier: BSD-3-Clause
// Tidy tables: one file a table, one row an observation, units in the names of columns (RFC 4180).
#pragma once

#include <memory>
#include <vector>

#include "output.hpp"
#include "replay/result/result.hpp"
#include "timeline_writer.hpp"

namespace polter::exports {

// A field, quoted where it has to be.
std::string csv_field(std::string_view text);

class CsvWriter : public TimelineWriter {
  public:
    static Target::Kind kind() { return {"folder of tables", "", true}; }
    explicit CsvWriter(Target& target);

    void start(const Group&) override;
    void begin(const Place&) override;
    void enter(int64_t time, uint32_t region, bool mpi) override;
    void leave(int64_t time) override;
    void noise(const NoiseSlice&) override;
    void counter(int64_t time, size_t counter, double value) override;
    void finish() override;
    uint64_t bytes() const override;

  protected:
    void message(const Record&, uint64_t number, bool sends) override;

  private:
    struct Open {
        int64_t begin;
        uint32_t region;
        bool mpi;
        uint64_t number;
    };
    std::unique_ptr<OutputFile> calls_, messages_, noise_, counters_;
    std::vector<Open> open_;
    std::vector<std::string> fields_;  // names of regions; empty: not made yet
    uint64_t next_call_ = 0;           // of the thread
    std::string where_;                // the first columns of all tables
};

// runs.csv, ranks.csv, sources.csv, rank_sources.csv. Returns their bytes.
uint64_t write_result_tables(Target&, const replay::Result&);

}  // namespace polter::exports
