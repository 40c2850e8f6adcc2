// SPDX-License-Identifier: BSD-3-Clause
// Perfetto's protobuf trace, with interned names (protos/perfetto/trace/trace.proto of the Perfetto project).
#pragma once

#include <functional>
#include <set>
#include <unordered_map>

#include "output.hpp"
#include "timeline_writer.hpp"

namespace polter::exports {

class PerfettoWriter : public TimelineWriter {
  public:
    static Target::Kind kind();
    // `check`: called after each packet with the size of the file so far.
    PerfettoWriter(OutputFile& out, std::function<void(uint64_t)> check) : out_(out), check_(std::move(check)) {}

    void start(const Group&) override;
    void begin(const Place&) override;
    void enter(int64_t time, uint32_t region, bool mpi) override;
    void leave(int64_t time) override;
    void noise(const NoiseSlice&) override;
    void counter(int64_t time, size_t counter, double value) override;
    uint64_t bytes() const override { return out_.bytes(); }

  protected:
    void message(const Record&, uint64_t number, bool sends) override;

  private:
    enum class Type : uint8_t { begin = 1, end = 2, instant = 3, counter = 4 };
    // The numbers of interned names, by kind of name; 0 is none.
    enum class Intern : uint8_t { category = 1, event = 2, annotation = 3, text = 29 };
    uint64_t interned(Intern kind, uint64_t number, const std::string& name);
    uint64_t child_track(const std::string& name, const CounterName* counter = nullptr);
    void describe_process();
    void packet(const std::string& body, int64_t time);
    void event(int64_t time, const std::string& fields);

    OutputFile& out_;
    std::function<void(uint64_t)> check_;
    uint64_t next_track_ = 1;
    uint32_t sequence_ = 0;
    int32_t next_thread_ = 1'000'000'000;                  // thread ids beside those of main threads, which are process ids
    std::vector<uint64_t> processes_;                      // tracks, by rank
    std::set<std::pair<Intern, uint64_t>> interned_;       // on this sequence
    std::string new_names_;                                // InternedData of the next packet
    uint64_t noise_track_ = 0, service_track_ = 0;         // of this thread; 0: none yet
    std::unordered_map<size_t, uint64_t> counter_tracks_;  // likewise
};

}  // namespace polter::exports
