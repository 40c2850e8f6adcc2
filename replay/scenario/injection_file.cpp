// SPDX-License-Identifier: BSD-3-Clause
// Reads the file of injected noise. It is written by people and programs, so everything in it is checked.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "injection.hpp"
#include "replay/base/error.hpp"
#include "replay/base/json_file.hpp"

namespace polter::replay {

namespace {

using Json = nlohmann::json;

constexpr const char* schema = "polter.inject/1";
constexpr size_t most_sources = 62;                 // a set of sources is a bit set in one word
constexpr int64_t most_ns = 1'000'000'000'000'000;  // eleven days; sums of such times fit into a word
constexpr int64_t most_rank = (int64_t{1} << 31) - 1;

struct FilePlace {
    const std::string& path;
    std::string at;  // where in the file, for messages
    [[noreturn]] void fail(const std::string& what) const { throw InputError(fmt::format("{}: {}: {}", path, at, what)); }
};

int64_t number(const Json& object, const char* key, int64_t least, int64_t most, const FilePlace& place) {
    const auto found = object.find(key);
    if (found == object.end()) place.fail(fmt::format("lacks \"{}\"", key));
    const bool fits = found->is_number_unsigned() ? found->get<uint64_t>() <= static_cast<uint64_t>(most) : found->is_number_integer();
    if (!fits || found->get<int64_t>() < least || found->get<int64_t>() > most)
        place.fail(fmt::format("\"{}\" must be an integer from {} to {}", key, least, most));
    return found->get<int64_t>();
}

void only_keys(const Json& object, const std::set<std::string>& known, const FilePlace& place) {
    if (!object.is_object()) place.fail("must be an object {…}");
    for (const auto& [key, value] : object.items())
        if (!known.contains(key)) place.fail(fmt::format("unknown key \"{}\"; known are {}", key, fmt::join(known, ", ")));
}

void read_events(const Json& list, InjectedSource& source, const FilePlace& of) {
    if (!list.is_array() || list.empty()) of.fail("\"events\" must be a list of at least one");
    for (size_t i = 0; i < list.size(); ++i) {
        const FilePlace place{of.path, fmt::format("{}, event {}", of.at, i)};
        only_keys(list[i], {"rank", "time_ns", "duration_ns", "cpu"}, place);
        const auto rank = static_cast<int32_t>(number(list[i], "rank", 0, most_rank, place));
        source.events[rank].push_back({number(list[i], "time_ns", 0, most_ns, place), number(list[i], "duration_ns", 0, most_ns, place)});
    }
    for (auto& [rank, events] : source.events) {
        std::stable_sort(events.begin(), events.end(), [](const InjectedEvent& a, const InjectedEvent& b) { return a.begin < b.begin; });
        int64_t sum = 0;
        for (const InjectedEvent& event : events) sum = std::min(sum + event.duration, 2 * most_ns);
        if (sum > most_ns) of.fail(fmt::format("the events of rank {} last more than {} ns together", rank, most_ns));
    }
}

void read_arrivals(const Json& json, InjectedSource& source, const FilePlace& place) {
    const std::string arrival = json.value("arrival", Json("periodic")).is_string() ? json.value("arrival", "periodic") : "";
    if (arrival != "periodic" && arrival != "random") place.fail("\"arrival\" must be \"periodic\" or \"random\"");
    source.arrival = arrival == "random" ? InjectedSource::Arrival::random : InjectedSource::Arrival::periodic;
    source.period = number(json, "period_ns", 1, most_ns, place);
    source.duration = number(json, "duration_ns", 1, most_ns, place);
    if (source.duration >= source.period) place.fail("\"duration_ns\" must be below \"period_ns\": it would leave no time to the program");
    if (json.contains("phase_ns")) {
        if (source.arrival == InjectedSource::Arrival::random) place.fail("random arrivals have no \"phase_ns\"");
        source.phase = number(json, "phase_ns", 0, most_ns, place);
    }
    if (json.contains("seed")) source.seed = static_cast<uint64_t>(number(json, "seed", 0, INT64_MAX, place));
    if (!json.contains("ranks")) return;
    const Json& ranks = json["ranks"];
    if (!ranks.is_array() || ranks.empty()) place.fail("\"ranks\" must be a list of ranks; leave it out for all");
    for (const Json& rank : ranks) {
        if (!rank.is_number_unsigned() || rank.get<uint64_t>() > static_cast<uint64_t>(most_rank))
            place.fail("\"ranks\" must hold numbers of ranks");
        source.ranks.push_back(rank.get<int32_t>());
    }
    std::sort(source.ranks.begin(), source.ranks.end());
    source.ranks.erase(std::unique(source.ranks.begin(), source.ranks.end()), source.ranks.end());
}

}  // namespace

std::vector<InjectedSource> read_injected_noise(const std::string& path) {
    const Json json = read_json(path, fmt::format("--inject takes a file of schema {}", schema));
    const FilePlace whole{path, "the file"};
    only_keys(json, {"schema", "sources", "injector"}, whole);  // injector: what polter inject notes of itself
    if (json.value("schema", Json()) != schema) whole.fail(fmt::format("\"schema\" must be \"{}\"", schema));
    const auto list = json.find("sources");
    if (list == json.end() || !list->is_array() || list->empty()) whole.fail("needs \"sources\", a list of at least one");
    if (list->size() > most_sources) whole.fail(fmt::format("more than {} sources", most_sources));
    std::vector<InjectedSource> sources;
    std::set<std::string> names;
    for (size_t i = 0; i < list->size(); ++i) {
        const Json& each = (*list)[i];
        const FilePlace place{path, fmt::format("source {}", i)};
        const bool listed = each.is_object() && each.contains("events");
        only_keys(each,
                  listed ? std::set<std::string>{"name", "events"}
                         : std::set<std::string>{"name", "arrival", "period_ns", "duration_ns", "phase_ns", "ranks", "seed"},
                  place);
        InjectedSource source;
        const auto name = each.find("name");
        if (name == each.end() || !name->is_string() || name->get<std::string>().empty()) place.fail("needs a \"name\"");
        source.name = name->get<std::string>();
        if (!names.insert(source.name).second) place.fail(fmt::format("the name \"{}\" is given twice", source.name));
        if (listed)
            read_events(each["events"], source, place);
        else
            read_arrivals(each, source, place);
        sources.push_back(std::move(source));
    }
    return sources;
}

void check_injected_noise(const std::vector<InjectedSource>& sources, const std::string& path, int32_t ranks) {
    double everywhere = 0;
    std::map<int32_t, double> there;
    for (size_t i = 0; i < sources.size(); ++i) {
        const InjectedSource& source = sources[i];
        const int32_t last = !source.events.empty() ? source.events.rbegin()->first : !source.ranks.empty() ? source.ranks.back() : 0;
        if (last >= ranks)
            throw InputError(
                fmt::format("{}: source {} ({}) hits rank {}, but the trace has ranks 0 to {}", path, i, source.name, last, ranks - 1));
        if (source.arrival == InjectedSource::Arrival::events) continue;
        const double part = static_cast<double>(source.duration) / static_cast<double>(source.period);
        if (source.ranks.empty()) everywhere += part;
        for (const int32_t rank : source.ranks) there[rank] += part;
    }
    double most = 0;
    for (const auto& [rank, part] : there) most = std::max(most, part);
    if (most + everywhere > 0.99)
        throw InputError(
            fmt::format("{}: the sources together take {:.0f} % of a rank's time and leave none to the program; make them less", path,
                        100 * (most + everywhere)));
}

}  // namespace polter::replay
