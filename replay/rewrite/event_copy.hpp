// SPDX-License-Identifier: BSD-3-Clause
// Copies one location's events to another archive, at their approximated times.
#pragma once

#include <otf2/otf2.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "delay_file.hpp"
#include "replay/trace/definitions.hpp"

namespace polter::replay {

// The approximated time of each record of a location, asked for in their order. It is the replay's at each Enter and Leave, and at turns
// between them, where noise stays (rewrite/remaining_noise.hpp). Between two such points, a record keeps its distance to the earlier one if
// it lies outside MPI calls or begins something inside a call; any other record inside a call ends with it, and keeps its distance to the
// later one. Records never leave the two points, nor run backward.
class ApproximatedClock {
  public:
    // `delays`: null where nothing moves. Times are ticks since the global offset.
    ApproximatedClock(DelayFile::Reader* delays, bool faulty);
    int64_t at(uint64_t record, int64_t ticks, bool begins);  // throws InputError
    // For something that ended `ago` ticks before the last record asked for, which is at `placed` now: how long before it did that end in
    // the new timeline?
    int64_t ago(int64_t ticks, int64_t placed, int64_t ago);
    uint64_t forgotten() const { return forgotten_; }  // number of times that were too long ago to be remembered
    // How much of `ns`, recorded at that time, does not fit any more; each cut is returned once.
    int64_t cut(int64_t recorded, uint16_t account, int64_t ns);

  private:
    static constexpr size_t most_passed = 65536;  // points
    void advance();
    void pass();  // moves the next point to the passed ones

    DelayFile::Reader* delays_;
    const bool faulty_;
    DelayPoint before_, after_;
    std::deque<DelayPoint> passed_;  // points up to before_
    bool dropped_ = false;
    uint64_t forgotten_ = 0;
    bool more_ = false;
    std::vector<NoiseCut> read_cuts_;
    std::map<std::pair<int64_t, uint16_t>, int64_t> cuts_;  // by time of the record and account
    int64_t last_ = INT64_MIN;
};

struct EventCopy {
    EventCopy(const Definitions& all, const std::vector<bool>& gone, ApproximatedClock& of_location)
        : definitions(all), removed(gone), clock(of_location), counters(gone.size()) {}

    const Definitions& definitions;
    const std::vector<bool>& removed;  // by account
    ApproximatedClock& clock;
    OTF2_EvtWriter* writer = nullptr;
    bool keep_ago = false;      // a mutation for the tests
    uint64_t most_records = 0;  // the replay read no more, or the file cannot hold more

    // Results.
    uint64_t records = 0, unknown = 0, cut_records = 0;
    int64_t cut_ns = 0;
    int64_t first = INT64_MAX, last = INT64_MIN, approximated_last = INT64_MIN;  // ticks since the global offset
    OTF2_ErrorCode code = OTF2_SUCCESS;                                          // of the writer
    std::string error;                                                           // of the clock

    // By metric: the values of its first record, and of the last one written.
    struct Metric {
        std::vector<OTF2_MetricValue> baseline, written;
    };
    std::unordered_map<uint32_t, Metric> metrics;
    struct Counter {
        int64_t read = -1, cut = 0;  // ns; read: −1 before the baseline
    };
    std::vector<Counter> counters;  // by account
};

// User data: the EventCopy of the location. The caller deletes it.
OTF2_EvtReaderCallbacks* copying_callbacks();

}  // namespace polter::replay
