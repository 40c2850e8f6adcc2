// SPDX-License-Identifier: BSD-3-Clause
// What the formats that draw timelines share: the measured and the approximated timeline as two groups, and messages with both ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "message_pairs.hpp"
#include "timeline_reader.hpp"

namespace polter::exports {

struct CounterName {
    std::string name, unit;
};

struct Group {
    std::string name;  // "measured"
    size_t number = 0;
    const replay::Definitions* definitions = nullptr;
    std::vector<CounterName> counters;
};

// What was written.
struct Counts {
    uint64_t calls = 0, messages_sent = 0, messages_received = 0, noise = 0, counters = 0;
};

class TimelineWriter : public Sink {
  public:
    TimelineWriter()
        : pairs_([this](const Record& record, uint64_t number, bool sends) {
              if (!record.inside) return;
              ++(sends ? counts_.messages_sent : counts_.messages_received);
              message(record, number, sends);
          }) {}

    virtual void start(const Group& group) { group_ = group; }
    virtual void finish() {}
    virtual uint64_t bytes() const = 0;

    void begin(const Place& place) override {
        place_ = place;
        pairs_.begin(place.rank);
    }
    void record(const Record& record) final { pairs_.record(record); }
    void end() override { pairs_.end(); }
    const Counts& counts() const { return counts_; }

  protected:
    virtual void message(const Record&, uint64_t number, bool sends) = 0;
    const replay::Definitions& definitions() const { return *group_.definitions; }
    // For the names of accounts: "os:timer" is "timer", a service keeps its prefix.
    std::string source(int32_t account) const { return replay::display_name(group_.definitions->accounts[static_cast<size_t>(account)]); }
    bool is_service(int32_t account) const { return group_.definitions->accounts[static_cast<size_t>(account)].service; }

    // A process id for the rank. Viewers take process 0 for the idle task; the second group begins at a round number.
    int32_t process_number() const {
        int32_t base = 1;
        for (int32_t step = 1000; group_.number > 0 && base <= group_.definitions->ranks; step *= 10) base = step + 1;
        return base + place_.rank;
    }

    Group group_;
    Place place_;
    Counts counts_;

  private:
    MessagePairs pairs_;
};

}  // namespace polter::exports
