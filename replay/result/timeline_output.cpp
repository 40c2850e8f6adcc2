// SPDX-License-Identifier: BSD-3-Clause
// The timeline as JSON: columns instead of records, so that a page of 1024 ranks stays small. Names are in tables of their own.
#include <nlohmann/json.hpp>

#include "replay/trace/definitions.hpp"
#include "report_output.hpp"

namespace polter::replay {

namespace {

using nlohmann::json;

// Numbers names in the order in which they are met.
template <class Key>
class Names {
  public:
    size_t number(const Key& key) { return numbers_.try_emplace(key, numbers_.size()).first->second; }
    std::vector<Key> list() const {
        std::vector<Key> keys(numbers_.size());
        for (const auto& [key, number] : numbers_) keys[number] = key;
        return keys;
    }

  private:
    std::map<Key, size_t> numbers_;
};

struct Tables {
    Names<Place> places;
    Names<uint32_t> culprits;
    Names<uint16_t> sources;
};

// One column of a list of records.
template <class List, class Value>
json column(const List& list, Value value) {
    json cells = json::array();
    for (const auto& record : list) cells.push_back(value(record));
    return cells;
}

json rows(const std::vector<int64_t>& cells, size_t rows) {
    json list = json::array();
    const size_t each = rows == 0 ? 0 : cells.size() / rows;
    for (size_t row = 0; row < rows; ++row) {
        const auto begin = cells.begin() + static_cast<ptrdiff_t>(row * each);
        list.push_back(std::vector<int64_t>(begin, begin + static_cast<ptrdiff_t>(each)));
    }
    return list;
}

json level_json(const Level& level, size_t count, Tables& tables) {
    json noise = json::array();
    for (const auto& [account, cells] : level.noise)
        noise.push_back({{"source", tables.sources.number(account)}, {"ns", rows(cells, count)}});
    return {{"bucket_ns", level.bucket_ns},
            {"buckets", level.buckets},
            {"mpi_ns", rows(level.mpi, count)},
            {"waiting_ns", rows(level.waiting, count)},
            {"without_mpi_ns", rows(level.without_mpi, count)},
            {"without_waiting_ns", rows(level.without_waiting, count)},
            {"delay_ns", rows(level.delay, count)},
            {"noise", noise}};
}

json close_up_json(const CloseUp& one, Tables& tables) {
    using Call = CloseUp::Call;
    using Noise = CloseUp::Noise;
    using Message = CloseUp::Message;
    return {{"begin_ns", one.begin},
            {"end_ns", one.end},
            {"cut", one.cut},
            {"calls",
             {{"rank", column(one.calls, [](const Call& c) { return c.rank; })},
              {"enter_ns", column(one.calls, [](const Call& c) { return c.enter; })},
              {"leave_ns", column(one.calls, [](const Call& c) { return c.leave; })},
              {"waited_until_ns", column(one.calls, [](const Call& c) { return c.waited_until; })},
              {"enter_delay_ns", column(one.calls, [](const Call& c) { return c.enter_delay; })},
              {"leave_delay_ns", column(one.calls, [](const Call& c) { return c.leave_delay; })},
              {"without_waited_until_ns", column(one.calls, [](const Call& c) { return c.without_waited_until; })},
              {"place", column(one.calls, [&](const Call& c) { return tables.places.number(c.place); })}}},
            {"noise",
             {{"rank", column(one.noise, [](const Noise& n) { return n.rank; })},
              {"begin_ns", column(one.noise, [](const Noise& n) { return n.begin; })},
              {"end_ns", column(one.noise, [](const Noise& n) { return n.end; })},
              {"source", column(one.noise, [&](const Noise& n) { return tables.sources.number(n.account); })},
              {"culprit", column(one.noise, [&](const Noise& n) { return tables.culprits.number(n.culprit); })}}},
            {"messages",
             {{"from", column(one.messages, [](const Message& m) { return m.from; })},
              {"to", column(one.messages, [](const Message& m) { return m.to; })},
              {"sent_ns", column(one.messages, [](const Message& m) { return m.sent; })},
              {"sent_delay_ns", column(one.messages, [](const Message& m) { return m.sent_delay; })},
              {"received_ns", column(one.messages, [](const Message& m) { return m.received; })},
              {"received_delay_ns", column(one.messages, [](const Message& m) { return m.received_delay; })},
              {"bytes", column(one.messages, [](const Message& m) { return m.bytes; })}}}};
}

json ways_json(const Ways& ways, Tables& tables) {
    const auto index = [](size_t i) { return i == SIZE_MAX ? json(-1) : json(i); };
    return {{"rank", column(ways.list, [](const Way& w) { return w.rank; })},
            {"enter_ns", column(ways.list, [](const Way& w) { return w.enter; })},
            {"leave_ns", column(ways.list, [](const Way& w) { return w.leave; })},
            {"growth_ns", column(ways.list, [](const Way& w) { return w.growth; })},
            {"place", column(ways.list, [&](const Way& w) { return tables.places.number(w.place); })},
            {"first_step", column(ways.list, [](const Way& w) { return w.first; })},
            {"steps", column(ways.list, [](const Way& w) { return w.steps; })},
            {"complete", column(ways.list, [](const Way& w) { return w.complete; })},
            {"noise_ns", column(ways.list, [](const Way& w) { return w.noise_ns; })},
            {"origin", column(ways.list, [&](const Way& w) { return index(w.origin); })},
            {"step",
             {{"rank", column(ways.steps, [](const WayStep& s) { return s.rank; })},
              {"at_ns", column(ways.steps, [](const WayStep& s) { return s.time; })},
              {"delay_ns", column(ways.steps, [](const WayStep& s) { return s.delay; })},
              {"next", column(ways.steps, [&](const WayStep& s) { return index(s.next); })}}},
            {"origins",
             {{"rank", column(ways.noise, [](const WayNoise& n) { return n.rank; })},
              {"at_ns", column(ways.noise, [](const WayNoise& n) { return n.at; })},
              {"duration_ns", column(ways.noise, [](const WayNoise& n) { return n.duration; })},
              {"source", column(ways.noise, [&](const WayNoise& n) { return tables.sources.number(n.account); })},
              {"culprit", column(ways.noise, [&](const WayNoise& n) { return tables.culprits.number(n.culprit); })}}}};
}

}  // namespace

json timeline_json(const Timeline& timeline, const Definitions& definitions) {
    Tables tables;
    json levels = json::array(), close_ups = json::array();
    for (const Level& level : timeline.levels) levels.push_back(level_json(level, timeline.rows, tables));
    for (const CloseUp& one : timeline.close_ups) close_ups.push_back(close_up_json(one, tables));
    json delays = ways_json(timeline.ways, tables);
    json places = json::array();
    for (const Place& place : tables.places.list()) {
        const auto [where, caller] = definitions.place_names(place);
        places.push_back({{"where", where}, {"caller", caller}, {"call_site", definitions.call_site_name(place)}});
    }
    return {{"span_ns", timeline.span_ns},
            {"rows", timeline.rows},
            {"ranks_per_row", timeline.ranks_per_row},
            {"levels", levels},
            {"whole_run", timeline.whole},
            {"close_ups", close_ups},
            {"delays", delays},
            {"critical_path", {{"bucket_ns", timeline.ways.bucket_ns}, {"before", timeline.ways.before}, {"after", timeline.ways.after}}},
            {"places", places},
            {"culprits", column(tables.culprits.list(), [&](uint32_t name) { return definitions.culprit_name(name); })},
            {"sources", column(tables.sources.list(), [&](uint16_t account) { return display_name(definitions.accounts[account]); })}};
}

// Bins of a quarter of an octave.
json durations_json(const Timeline& timeline, const Definitions& definitions) {
    json list = json::array();
    for (const auto& [account, histogram] : timeline.durations) {
        json bins = json::array();
        for (const auto& [at, bin] : histogram.bins()) {
            const auto first = static_cast<uint16_t>(at / 4 * 4);
            const int64_t from = Histogram::least(first), to = Histogram::least(static_cast<uint16_t>(first + 4));
            if (bins.empty() || bins.back()["from_ns"] != from)
                bins.push_back({{"from_ns", from}, {"to_ns", to}, {"events", 0}, {"ns", 0}});
            bins.back()["events"] = bins.back()["events"].get<int64_t>() + bin.count;
            bins.back()["ns"] = bins.back()["ns"].get<int64_t>() + bin.sum;
        }
        list.push_back({{"source", display_name(definitions.accounts[account])},
                        {"events", histogram.count()},
                        {"percentiles_ns",
                         {{"50", histogram.quantile(50)},
                          {"90", histogram.quantile(90)},
                          {"99", histogram.quantile(99)},
                          {"100", histogram.quantile(100)}}},
                        {"bins", bins}});
    }
    return list;
}

}  // namespace polter::replay
