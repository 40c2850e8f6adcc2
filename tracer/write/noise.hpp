// SPDX-License-Identifier: BSD-3-Clause
// From a thread's noise page to metric records, in the order of time. The page's protocol is in ../../kmodule/page.h.
//
// Rule: at each Enter and Leave, with its stamp: the ring entries that ended by then, one record each, with the running sum of their
// account. When every entry up to the page's counters has been taken and a counter is still ahead, noise is not in the ring (or the backend
// has none): one record with the true counter, at the stamp; before the first entry where the ring was overwritten, since what it held
// first is lost first. So a record never exceeds the counter, and none is missing.
// One MPI call can have more events than the ring holds (MPI_Init of an oversubscribed job: several thousand, since all of them sleep and
// look by turns). So wherever the thread yields or sleeps in one, what the ring holds is put aside in time.
#pragma once

#include <noise.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace polter::write {

class Location;

class NoiseFeed {
  public:
    explicit NoiseFeed(polter_noise* page) : page_(page), reads_file_(header().backend == POLTER_BACKEND_PROC) {}
    ~NoiseFeed() { close(); }
    NoiseFeed(const NoiseFeed&) = delete;

    // Takes the state from which the trace counts. What ended before `first_ns` stays outside.
    void begin();
    // Writes the baseline records, at the time of the location's first event.
    void write_baseline(uint64_t time, Location& location);

    // `time`: of the clock, just now; UINT64_MAX: whatever looking costs.
    bool moved(uint64_t time) const { return pending_ || (reads_file_ ? moved_in_file(time) : polter_noise_moved_at(page_, time)); }
    void take(uint64_t time, Location& location);
    // Where the thread itself yields or sleeps: empties the ring if it is half full. Safe wherever those are, in a signal handler too.
    void put_aside() {
        if (page_ && polter_noise_waiting(page_) >= POLTER_RING_ENTRIES / 2) [[unlikely]]
            empty_ring();
    }
    // The counters' last state; unmaps the page. Only the thread itself or the process's last one may call it.
    void close();

    const polter_page_header& header() const { return *polter_noise_header(page_); }
    uint64_t dropped() const { return dropped_; }        // noise events that are in the counters but have no record of their own
    uint64_t dropped_ns() const { return dropped_ns_; }  // their time
    uint64_t exporter_ended_ns() const {
        return exporter_ended_ns_;
    }  // once closed: when the page was last written if the exporter ended; else 0

  private:
    bool moved_in_file(uint64_t time) const;
    void empty_ring();
    size_t drain(uint64_t until, polter_ring_entry* out, size_t capacity, uint64_t* lost);
    void take_overwritten(uint64_t time, Location& location, std::vector<polter_ring_entry> kept, uint64_t lost);
    void write(const polter_ring_entry&, uint64_t time, const polter_counters* bound, Location& location);
    void write_rest(uint64_t time, const polter_counters&, const uint64_t (&held)[POLTER_ACCOUNT_SLOTS], Location& location);

    polter_noise* page_;
    bool reads_file_;                              // to see whether it moved
    uint64_t written_[POLTER_ACCOUNT_SLOTS] = {};  // the value of the last record of each account
    uint64_t unrecorded_ = 0;                      // of the events that never were in the ring, those behind us
    uint64_t taken_ = 0;                           // ring entries behind us, lost ones included
    uint64_t first_ns_ = 0;
    uint64_t dropped_ = 0, dropped_ns_ = 0;
    uint64_t exporter_ended_ns_ = 0;
    bool pending_ = false;  // entries in the ring that ended after the last stamp

    // What was put aside: entries [first, end) of a mapping, and how many the ring had lost before them.
    struct Aside {
        polter_ring_entry* entries = nullptr;
        size_t first = 0, end = 0;
        uint64_t lost = 0;
    };
    Aside aside_;
    volatile bool busy_ = false;  // in one of the functions that take entries: a signal handler that sleeps finds it so
};

}  // namespace polter::write
