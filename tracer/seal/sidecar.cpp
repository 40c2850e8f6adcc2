// SPDX-License-Identifier: BSD-3-Clause
#include "sidecar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstring>
#include <nlohmann/json.hpp>

#include "../conventions.hpp"

namespace polter::seal {
namespace {

using nlohmann::json;

constexpr uint64_t max_file = 256ull << 20;
constexpr size_t max_line = 8u << 20;
constexpr size_t max_values = 1u << 18;  // of a line, numbers aside; the most are a rank's locations in its last line
constexpr int max_depth = 3;
constexpr uint32_t max_size = 1u << 24;     // ranks in a world
constexpr uint32_t max_ids = 1u << 22;      // strings or communicators of one rank
constexpr size_t max_exchanges = 1u << 12;  // of one rank
constexpr uint32_t max_threads = 1u << 16;  // locations of one rank
constexpr uint32_t max_ahead = 1u << 12;    // of an id before its line, see fits()

// Field readers that refuse instead of converting: a wrong type is a bad line.
struct Bad {};

// A line as JSON, in memory proportional to its length: nothing nested for its own sake. Discarded where it is none.
json parsed(const std::string& line) {
    size_t values = 0;
    const auto bounded = [&values](int depth, json::parse_event_t event, json& value) {
        if (event != json::parse_event_t::value || !value.is_number()) ++values;
        if (depth > max_depth || values > max_values) throw Bad{};
        return true;
    };
    return json::parse(line, bounded, false);
}

// Ids are given in order, one a line; but threads may take theirs in one order and write the lines in the other. So tables by id are no
// larger than the file.
void check_id(uint32_t id, const Sidecar& rank) {
    if (id > rank.lines + max_ahead) throw Bad{};
}

template <typename T>
T number(const json& line, const char* key, T least, T most) {
    auto at = line.find(key);
    if (at == line.end() || !at->is_number_integer()) throw Bad{};
    if (at->is_number_unsigned() && at->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        if constexpr (std::is_unsigned_v<T>) {
            if (at->get<uint64_t>() <= most) return static_cast<T>(at->get<uint64_t>());
        }
        throw Bad{};
    }
    int64_t value = at->get<int64_t>();
    if constexpr (std::is_unsigned_v<T>) {
        if (value < 0 || static_cast<uint64_t>(value) < least || static_cast<uint64_t>(value) > most) throw Bad{};
    } else {
        if (value < least || value > most) throw Bad{};
    }
    return static_cast<T>(value);
}

template <typename T>
T number_or(const json& line, const char* key, T otherwise) {
    return line.contains(key) ? number<T>(line, key, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()) : otherwise;
}

std::string text_or(const json& line, const char* key, const char* otherwise = "") {
    auto at = line.find(key);
    if (at == line.end()) return otherwise;
    if (!at->is_string()) throw Bad{};
    auto text = at->get<std::string>();
    // OTF2 and C readers end strings at NUL.
    if (auto nul = text.find('\0'); nul != std::string::npos) text.resize(nul);
    return text;
}

std::vector<std::string> texts_or_none(const json& line, const char* key) {
    std::vector<std::string> out;
    auto at = line.find(key);
    if (at == line.end()) return out;
    if (!at->is_array()) throw Bad{};
    for (const auto& item : *at) {
        if (!item.is_string()) throw Bad{};
        out.push_back(item.get<std::string>());
    }
    return out;
}

SidecarGroup group_of(const json& value, const Sidecar& rank) {
    SidecarGroup group;
    if (value == "world") {
        group.kind = SidecarGroup::world;
    } else if (value == "self") {
        group.kind = SidecarGroup::self;
    } else if (value.is_object()) {
        group.kind = SidecarGroup::same_as;
        group.comm = number<uint32_t>(value, "same_as", 0, max_ids);
        const auto at = rank.comms.find(group.comm);
        if (at == rank.comms.end()) throw Bad{};
        // To the one that has the group, so that no chain is longer than one.
        if (at->second.group.kind == SidecarGroup::same_as) group.comm = at->second.group.comm;
    } else if (value.is_array()) {
        for (const auto& member : value) {
            if (!member.is_number_unsigned() || member.get<uint64_t>() >= rank.size) throw Bad{};
            group.ranks.push_back(member.get<uint32_t>());
        }
        auto sorted = group.ranks;
        std::sort(sorted.begin(), sorted.end());
        if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) throw Bad{};
    } else {
        throw Bad{};
    }
    return group;
}

std::map<uint32_t, SidecarComm> predefined_comms() {
    std::map<uint32_t, SidecarComm> comms;
    auto& world = comms[trace::comm_world];
    world.name = "MPI_COMM_WORLD";
    world.key = "world";
    world.group.kind = SidecarGroup::world;
    auto& self = comms[trace::comm_self];
    self.name = "MPI_COMM_SELF";
    self.key = "self";
    self.group.kind = SidecarGroup::self;
    return comms;
}

void read_header(const json& line, Sidecar& rank) {
    if (number<int>(line, "polter_rank", 0, INT32_MAX) != trace::sidecar_version) throw Bad{};
    rank.size = number<uint32_t>(line, "size", 1, max_size);
    rank.rank = number<uint32_t>(line, "rank", 0, rank.size - 1);
    rank.started_ns = number_or<uint64_t>(line, "started_ns", 0);
    rank.host = text_or(line, "host", "unknown");
    rank.world = text_or(line, "world");
    rank.program = text_or(line, "program");
    rank.mpi = text_or(line, "mpi");
    const std::string level = text_or(line, "thread_level");
    rank.one_thread_calls = level == "MPI_THREAD_SINGLE" || level == "MPI_THREAD_FUNNELED";
    rank.cpus = text_or(line, "cpus");
    rank.clock = text_or(line, "clock");
    rank.comms = predefined_comms();
}

void read_location(const json& line, Sidecar& rank) {
    SidecarLocation location;
    location.id = number<uint64_t>(line, "location", 0, UINT64_MAX);
    location.thread = trace::thread_of(location.id);
    if (trace::rank_of(location.id) != rank.rank || location.thread >= max_threads) throw Bad{};
    if (!rank.location_ids.insert(location.id).second) throw Bad{};
    location.name = text_or(line, "name");
    rank.locations.push_back(std::move(location));
}

void read_string(const json& line, Sidecar& rank) {
    auto id = number<uint32_t>(line, "string", 0, max_ids);
    check_id(id, rank);
    if (id >= rank.strings.size()) rank.strings.resize(id + 1);
    rank.strings[id] = text_or(line, "value");
}

std::vector<uint32_t> ranks_of(const json& line, const char* key, const Sidecar& rank) {
    std::vector<uint32_t> ranks;
    if (!line.contains(key) || !line[key].is_array()) throw Bad{};
    for (const auto& member : line[key]) {
        if (!member.is_number_unsigned() || member.get<uint64_t>() >= rank.size) throw Bad{};
        ranks.push_back(member.get<uint32_t>());
    }
    return ranks;
}

void read_comm(const json& line, Sidecar& rank) {
    auto id = number<uint32_t>(line, "comm", 0, max_ids);
    check_id(id, rank);
    if (line.contains("in")) {
        if (!rank.comms.contains(id)) throw Bad{};
        rank.neighbours[id] = {ranks_of(line, "in", rank), ranks_of(line, "out", rank)};
        return;
    }
    if (line.contains("team") || line.contains("created")) {
        if (rank.comms.contains(id)) throw Bad{};
        rank.comms[id].team = true;
        rank.comms[id].created = line.contains("created");
        return;
    }
    if (line.contains("member")) {
        const auto at = rank.comms.find(id);
        const auto thread = number<uint32_t>(line, "thread", 0, max_threads - 1);
        if (at == rank.comms.end() || !at->second.team) throw Bad{};
        at->second.threads[number<uint32_t>(line, "member", 0, max_threads - 1)] = trace::location_of(rank.rank, thread);
        return;
    }
    if (!line.contains("group")) {  // a new name
        auto at = rank.comms.find(id);
        if (at == rank.comms.end()) throw Bad{};
        at->second.name = text_or(line, "name");
        return;
    }
    SidecarComm comm;
    comm.name = text_or(line, "name");
    comm.key = text_or(line, "key");
    auto parent = line.find("parent");
    if (parent != line.end() && !parent->is_null() && *parent != -1) comm.parent = number<uint32_t>(line, "parent", 0, max_ids);
    comm.group = group_of(line["group"], rank);
    if (line.contains("remote")) comm.remote = group_of(line["remote"], rank);
    // A second meaning that has the group of another could be its own group in the end, in a circle.
    const bool by_another = comm.group.kind == SidecarGroup::same_as || (comm.remote && comm.remote->kind == SidecarGroup::same_as);
    if (by_another && rank.comms.contains(id)) throw Bad{};
    rank.comms[id] = std::move(comm);
}

void read_window(const json& line, Sidecar& rank) {
    const auto id = number<uint32_t>(line, "win", 0, max_ids);
    check_id(id, rank);
    if (!line.contains("comm")) {  // a new name
        auto at = rank.windows.find(id);
        if (at == rank.windows.end()) throw Bad{};
        at->second.name = text_or(line, "name");
        return;
    }
    SidecarWindow window{text_or(line, "name"), text_or(line, "key"), number<uint32_t>(line, "comm", 0, max_ids)};
    if (!rank.comms.contains(window.comm)) throw Bad{};
    rank.windows[id] = std::move(window);
}

// These are written under a lock, so that their ids are in the order of their lines.
void read_object(const json& line, Sidecar& rank) {
    constexpr size_t longest_id = 256;
    if (number<uint32_t>(line, "object", 0, trace::most_objects - 1) != rank.objects.size()) throw Bad{};
    SidecarObject object{text_or(line, "path"), text_or(line, "build_id"), number_or<uint64_t>(line, "bytes", 0),
                         number_or<uint64_t>(line, "modified_seconds", 0)};
    if (object.path.size() > PATH_MAX || object.build_id.size() > longest_id) throw Bad{};
    rank.objects.push_back(std::move(object));
}

void read_region(const json& line, Sidecar& rank) {
    if (number<uint32_t>(line, "region", 0, trace::most_user_regions - 1) != rank.regions.size()) throw Bad{};
    SidecarRegion region{text_or(line, "name"), text_or(line, "file"), number_or<uint32_t>(line, "line", 0)};
    if (region.name.size() > 4 * trace::longest_region_name || region.file.size() > PATH_MAX) throw Bad{};
    rank.regions.push_back(std::move(region));
}

void read_call_site(const json& line, Sidecar& rank) {
    if (number<uint32_t>(line, "call_site", 0, trace::most_call_sites - 1) != rank.call_sites.size()) throw Bad{};
    SidecarCallSite site;
    site.address = number<uint64_t>(line, "address", 0, UINT64_MAX);
    if (line.contains("object")) site.object = number<uint32_t>(line, "object", 0, static_cast<uint32_t>(rank.objects.size()) - 1);
    if (line.contains("object") && site.object >= rank.objects.size()) throw Bad{};
    rank.call_sites.push_back(site);
}

void read_exchange(const json& line, Sidecar& rank) {
    constexpr int64_t most = INT64_MAX / 4;
    SidecarExchange exchange;
    exchange.peer = number<uint32_t>(line, "compared_with", 0, rank.size - 1);
    if (!line.contains("stamps") || !line["stamps"].is_array() || rank.exchanges.size() >= max_exchanges) throw Bad{};
    for (const auto& stamps : line["stamps"]) {
        if (!stamps.is_array() || stamps.size() != 3) throw Bad{};
        for (const auto& stamp : stamps)
            if (!stamp.is_number_unsigned() || stamp.get<uint64_t>() > static_cast<uint64_t>(most)) throw Bad{};
        exchange.stamps.push_back({stamps[0].get<int64_t>(), stamps[1].get<int64_t>(), stamps[2].get<int64_t>()});
        if (exchange.stamps.back().back < exchange.stamps.back().sent) throw Bad{};
    }
    rank.exchanges.push_back(std::move(exchange));
}

uint64_t location_key(const std::string& key) {
    uint64_t id = 0;
    auto end = key.data() + key.size();
    auto [at, error] = std::from_chars(key.data(), end, id);
    if (error != std::errc{} || at != end) throw Bad{};
    return id;
}

std::vector<SidecarNoise> noise_of(const json& list, const Sidecar& rank) {
    std::vector<SidecarNoise> out;
    if (!list.is_array()) throw Bad{};
    for (const auto& item : list) {
        if (!item.is_array() || item.size() != 4 || !item[0].is_string() || !item[2].is_number_unsigned() || !item[3].is_number_unsigned())
            throw Bad{};
        SidecarNoise noise{item[0].get<std::string>(), "", item[2].get<uint64_t>(), item[3].get<uint64_t>()};
        if (item[1].is_number_unsigned() && item[1].get<uint64_t>() < rank.strings.size())
            noise.culprit = rank.strings[item[1].get<uint64_t>()];
        out.push_back(std::move(noise));
    }
    return out;
}

void read_final(const json& line, Sidecar& rank) {
    SidecarFinal final;
    auto events = line.find("events");
    if (events == line.end() || !events->is_object()) throw Bad{};
    for (const auto& [key, value] : events->items()) {
        if (!value.is_number_unsigned()) throw Bad{};
        final.events[location_key(key)] = value.get<uint64_t>();
    }
    if (auto times = line.find("times"); times != line.end()) {
        if (!times->is_object()) throw Bad{};
        for (const auto& [key, value] : times->items()) {
            if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() || !value[1].is_number_unsigned()) throw Bad{};
            auto first = value[0].get<uint64_t>(), last = value[1].get<uint64_t>();
            if (first > last) throw Bad{};
            final.times[location_key(key)] = {first, last};
        }
    }
    final.dropped = number_or<uint64_t>(line, "dropped", 0);
    final.dropped_ns = number_or<uint64_t>(line, "dropped_ns", 0);
    final.own_cost_ns = number_or<uint64_t>(line, "own_cost_ns", 0);
    final.tracing_ended_ns = number_or<uint64_t>(line, "tracing_ended_ns", 0);
    final.exporter_ended_ns = number_or<uint64_t>(line, "exporter_ended_ns", 0);
    final.pcontrol_ns = number_or<uint64_t>(line, "pcontrol_ns", 0);
    final.warnings = texts_or_none(line, "warnings");
    if (const auto noise = line.find("noise"); noise != line.end()) final.noise = noise_of(*noise, rank);
    rank.final = std::move(final);
}

void read_detail_off(const json& off, Sidecar& rank) {
    if (!off.is_object()) throw Bad{};
    SidecarDetailOff read;
    read.functions = texts_or_none(off, "functions");
    read.queries = off.contains("queries") && off["queries"] == true;
    read.rank = off.contains("rank") && off["rank"] == true;
    if (const auto window = off.find("window_ns"); window != off.end()) {
        if (!window->is_array() || window->size() != 2 || !(*window)[0].is_number_unsigned() || !(*window)[1].is_number_unsigned())
            throw Bad{};
        read.from_ns = (*window)[0].get<uint64_t>();
        read.until_ns = (*window)[1].get<uint64_t>();
    }
    rank.detail_off = std::move(read);
}

void read_counters(const json& list, Sidecar& rank) {
    constexpr size_t most = 32;
    if (!list.is_array() || list.size() > most || !rank.counters.empty()) throw Bad{};
    for (const auto& counter : list) {
        if (!counter.is_array() || counter.size() != 2 || !counter[0].is_string() || !counter[1].is_string()) throw Bad{};
        rank.counters.emplace_back(counter[0].get<std::string>(), counter[1].get<std::string>());
    }
}

void read_line(const json& line, Sidecar& rank) {
    if (line.contains("location")) return read_location(line, rank);
    if (line.contains("string")) return read_string(line, rank);
    if (line.contains("call_site")) return read_call_site(line, rank);
    if (line.contains("region")) return read_region(line, rank);
    if (line.contains("object")) return read_object(line, rank);
    if (line.contains("win")) return read_window(line, rank);
    if (line.contains("comm")) return read_comm(line, rank);
    if (line.contains("compared_with")) return read_exchange(line, rank);
    if (line.contains("counters")) return read_counters(line["counters"], rank);
    if (line.contains("detail_off")) return read_detail_off(line["detail_off"], rank);
    if (line.contains("final")) return read_final(line, rank);
    if (line.contains("not_recorded")) {
        const std::string what = text_or(line, "not_recorded");
        if (std::find(trace::not_recorded_names.begin(), trace::not_recorded_names.end(), what) == trace::not_recorded_names.end())
            throw Bad{};
        rank.not_recorded.insert(what);
        return;
    }
    if (line.contains("gave_up")) {
        rank.gave_up = text_or(line, "gave_up");
        return;
    }
    if (line.contains("after_end")) {
        rank.after_end = number<uint64_t>(line, "after_end", 0, INT64_MAX);
        return;
    }
    if (line.contains("exporter")) {
        rank.exporter = text_or(line, "exporter", "none");
        rank.exporter_why = text_or(line, "why");
        rank.seen = texts_or_none(line, "seen");
        rank.net = texts_or_none(line, "net");
        return;
    }
    throw Bad{};
}

// Lines of a file that may be anything, in memory bounded by the longest line that is taken.
class Lines {
  public:
    explicit Lines(const File& file) : file_(file) {}

    // False at the end. `torn`: no newline behind it; `too_long`: it is not read on, and nothing behind it.
    bool next(std::string& line, bool& torn, bool& too_long) {
        line.clear();
        torn = too_long = false;
        for (;;) {
            if (at_ == have_) {
                have_ = at_file_ < max_file ? read_at(file_, block_.data(), block_.size(), at_file_) : 0;
                at_file_ += have_;
                at_ = 0;
                if (have_ == 0) return torn = !line.empty();
            }
            const auto* begin = block_.data() + at_;
            const auto* end = static_cast<const char*>(std::memchr(begin, '\n', have_ - at_));
            const size_t size = end ? static_cast<size_t>(end - begin) : have_ - at_;
            if (line.size() + size > max_line) return too_long = true;
            line.append(begin, size);
            at_ += size + (end ? 1 : 0);
            if (end) return true;
        }
    }

  private:
    const File& file_;
    std::vector<char> block_ = std::vector<char>(64 << 10);
    size_t at_ = 0, have_ = 0;
    uint64_t at_file_ = 0;
};

}  // namespace

std::optional<Sidecar> read_sidecar(const Folder& folder, std::string& why) {
    const auto path = folder.shown(trace::sidecar_name);
    const File file = folder.open_file(trace::sidecar_name, why);
    if (!file) return {};
    if (file.size() > max_file) {
        why = fmt::format("{}: larger than any rank writes ({} MiB)", path, max_file >> 20);
        return {};
    }
    Sidecar rank;
    std::string line;
    bool header = false, torn = false, too_long = false;
    for (Lines lines(file); lines.next(line, torn, too_long);) {
        if (too_long) {
            ++rank.bad_lines;
            break;
        }
        ++rank.lines;
        try {
            const json object = parsed(line);
            if (!object.is_object()) throw Bad{};
            if (header) {
                read_line(object, rank);
            } else {
                read_header(object, rank);
                header = true;
            }
        } catch (const Bad&) {
            if (!torn) ++rank.bad_lines;
        } catch (const json::exception&) {  // text that is no UTF-8 and the like
            ++rank.bad_lines;
        }
        if (!header) break;
    }
    if (!header) {
        why = fmt::format("{}: its first line is not that of a rank of version {}", path, trace::sidecar_version);
        return {};
    }
    return rank;
}

}  // namespace polter::seal
