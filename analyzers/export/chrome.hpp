// SPDX-License-Identifier: BSD-3-Clause
// Chrome's JSON trace format ("Trace Event Format"): times in microseconds with three decimals, messages as flow events.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "output.hpp"
#include "timeline_writer.hpp"

namespace polter::exports {

class ChromeWriter : public TimelineWriter {
  public:
    static Target::Kind kind();
    ChromeWriter(OutputFile& out, const std::string& trace, std::function<void(uint64_t)> check);

    void start(const Group&) override;
    void begin(const Place&) override;
    void enter(int64_t time, uint32_t region, bool mpi) override;
    void leave(int64_t time) override;
    void noise(const NoiseSlice&) override;
    void counter(int64_t time, size_t counter, double value) override;
    void finish() override;
    uint64_t bytes() const override { return out_.bytes(); }

  protected:
    void message(const Record&, uint64_t number, bool sends) override;

  private:
    struct Open {
        int64_t begin;
        uint32_t region;
        bool mpi;
    };
    // `rest`: further members, beginning with a comma; or nothing.
    void event(char phase, const std::string& name, int64_t time, int32_t thread, const std::string& rest);
    void name_thread(int32_t thread, const std::string& name);
    int32_t noise_thread(bool services);

    OutputFile& out_;
    std::function<void(uint64_t)> check_;
    bool first_ = true;
    std::vector<Open> open_;
    std::vector<std::string> quoted_;              // names of regions as JSON; empty: not made yet
    std::set<std::pair<int32_t, int32_t>> named_;  // process and thread
};

}  // namespace polter::exports
