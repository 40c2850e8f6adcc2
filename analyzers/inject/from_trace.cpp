// SPDX-License-Identifier: BSD-3-Clause
#include "from_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "analyzers/export/timeline_reader.hpp"
#include "replay/base/error.hpp"
#include "replay/scenario/injection.hpp"

namespace polter::inject {

namespace {

// The noise of each rank's MPI thread; services are the program's own.
class Collector : public exports::Sink {
  public:
    explicit Collector(const replay::Definitions& definitions) : definitions_(definitions) {}
    void begin(const exports::Place& place) override { rank_ = place.thread == 0 ? place.rank : -1; }
    void noise(const exports::NoiseSlice& slice) override {
        const replay::Account& account = definitions_.accounts[static_cast<size_t>(slice.account)];
        if (rank_ < 0 || account.service) return;
        const std::string culprit = slice.culprit == UINT32_MAX ? "" : definitions_.culprit_name(slice.culprit);
        found[rank_].push_back({account.name + "/" + culprit, {slice.begin, slice.end - slice.begin}});
    }
    std::map<int32_t, std::vector<Recorded>> found;

  private:
    const replay::Definitions& definitions_;
    int32_t rank_ = -1;
};

std::map<int32_t, std::vector<Recorded>> noise_of(const std::string& trace) {
    const int64_t origin = exports::first_event(trace);
    replay::Archive archive(trace);
    Collector collector(archive.definitions());
    exports::read_timeline(archive, origin, {}, collector);
    return std::move(collector.found);
}

bool is_trace(const std::string& file) {
    return std::filesystem::is_directory(file) || file.ends_with(".otf2");
}

EventsOf of_log(const std::string& file) {
    EventsOf out;
    for (const replay::InjectedSource& source : replay::read_injected_noise(file)) {
        if (source.arrival != replay::InjectedSource::Arrival::events)
            throw Error(fmt::format("{}: source {} has no list of events; give its values as a SPEC instead", file, source.name));
        for (const auto& [rank, events] : source.events)
            for (const auto& event : events) out[rank].push_back({event.begin, event.duration});
    }
    return out;
}

void in_order(std::vector<Event>& events) {
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.begin_ns < b.begin_ns; });
}

}  // namespace

std::vector<Event> beyond(const std::vector<Recorded>& noisy, const std::vector<Recorded>& quiet) {
    std::map<std::string, std::multimap<int64_t, Event>> left;
    for (const Recorded& one : noisy) left[one.kind].emplace(one.event.duration_ns, one.event);
    for (const Recorded& one : quiet) {
        const auto of_kind = left.find(one.kind);
        if (of_kind == left.end() || of_kind->second.empty()) continue;
        auto& events = of_kind->second;
        auto nearest = events.lower_bound(one.event.duration_ns);
        if (nearest == events.end() ||
            (nearest != events.begin() && one.event.duration_ns - std::prev(nearest)->first < nearest->first - one.event.duration_ns))
            --nearest;
        events.erase(nearest);
    }
    std::vector<Event> out;
    for (const auto& [kind, events] : left)
        for (const auto& [duration, event] : events) out.push_back(event);
    in_order(out);
    return out;
}

EventsOf listed_events(const Spec& spec) {
    EventsOf out;
    if (is_trace(spec.file)) {
        auto noisy = noise_of(spec.file);
        std::map<int32_t, std::vector<Recorded>> quiet;
        if (!spec.minus.empty()) quiet = noise_of(spec.minus);
        for (const auto& [rank, recorded] : noisy) out[rank] = beyond(recorded, quiet[rank]);
    } else {
        if (!spec.minus.empty()) throw Error(fmt::format("{}: minus= needs two traces", spec.text));
        out = of_log(spec.file);
    }
    size_t all = 0;
    for (auto& [rank, events] : out) {
        in_order(events);
        all += events.size();
    }
    if (all == 0) throw Error(fmt::format("{}: holds no noise to inject", spec.text));
    return out;
}

}  // namespace polter::inject
