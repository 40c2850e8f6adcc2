// SPDX-License-Identifier: BSD-3-Clause
#include "definitions_reader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "archive.hpp"
#include "call_path.hpp"
#include "conventions.hpp"
#include "raw_definitions.hpp"
#include "replay/base/error.hpp"

namespace polter::replay {

namespace {

constexpr uint32_t most_regions = 1u << 22;  // OTF2 expects dense ids; larger ones are damage

using Raw = RawDefinitions;

bool usable(const Raw::Place& place, const Raw& raw) {
    if (place.type != OTF2_LOCATION_TYPE_CPU_THREAD) return false;
    const auto group = raw.location_groups.find(place.group);
    return group != raw.location_groups.end() && group->second.type == OTF2_LOCATION_GROUP_TYPE_PROCESS;
}

// The group of MPI locations: its order defines the ranks.
const Raw::Group* rank_list(const Raw& raw) {
    for (const auto& [id, group] : raw.groups)
        if (group.type == OTF2_GROUP_TYPE_COMM_LOCATIONS && group.mpi) return &group;
    for (const auto& [id, group] : raw.groups)
        if (group.type == OTF2_GROUP_TYPE_COMM_LOCATIONS && !group.threads) return &group;
    return nullptr;
}

void place_ranks(const Raw& raw, Definitions& result, const std::string& anchor) {
    std::map<uint64_t, size_t> at;
    std::map<uint32_t, uint32_t> group_of;  // location index → process
    for (const auto& place : raw.locations) {
        if (!usable(place, raw)) {
            ++result.other_locations;
            continue;
        }
        if (!at.emplace(place.id, result.locations.size()).second) continue;
        group_of[static_cast<uint32_t>(result.locations.size())] = place.group;
        Location location;
        location.id = place.id;
        location.declared_events = place.events == OTF2_UNDEFINED_UINT64 ? 0 : place.events;
        location.host = static_cast<int32_t>(raw.location_groups.at(place.group).node);
        if (const auto name = raw.node_names.find(static_cast<uint32_t>(location.host)); name != raw.node_names.end())
            result.hosts.emplace(location.host, raw.text(name->second));
        result.locations.push_back(location);
    }
    std::map<uint32_t, int32_t> rank_of_process;
    if (const Raw::Group* list = rank_list(raw)) {
        for (size_t rank = 0; rank < list->members.size(); ++rank) {
            const auto found = at.find(list->members[rank]);
            if (found == at.end()) continue;  // a rank without any location
            Location& location = result.locations[found->second];
            location.rank = static_cast<int32_t>(rank);
            location.carries_rank = true;
            rank_of_process.emplace(group_of[static_cast<uint32_t>(found->second)], location.rank);
        }
        result.ranks = static_cast<int32_t>(list->members.size());
    } else {
        // No communicators: each process is a rank, carried by its first thread.
        for (size_t i = 0; i < result.locations.size(); ++i) {
            const uint32_t process = group_of[static_cast<uint32_t>(i)];
            if (rank_of_process.contains(process)) continue;
            rank_of_process[process] = result.ranks;
            result.locations[i].rank = result.ranks++;
            result.locations[i].carries_rank = true;
        }
    }
    for (size_t i = 0; i < result.locations.size(); ++i) {
        if (result.locations[i].carries_rank) continue;
        const auto found = rank_of_process.find(group_of[static_cast<uint32_t>(i)]);
        if (found != rank_of_process.end()) result.locations[i].rank = found->second;
    }
    const bool any = std::any_of(result.locations.begin(), result.locations.end(), [](const Location& l) { return l.carries_rank; });
    if (!any) throw InputError(fmt::format("{}: defines no process with a thread; there is nothing to replay", anchor));
}

std::vector<int32_t> world_ranks(const Raw& raw, uint32_t group_id, const Definitions& definitions) {
    std::vector<int32_t> ranks;
    const auto found = raw.groups.find(group_id);
    if (found == raw.groups.end()) return ranks;
    for (const uint64_t member : found->second.members) {
        int32_t rank = no_rank;
        if (found->second.global_members) {
            for (const Location& location : definitions.locations)
                if (location.id == member) rank = location.rank;
        } else if (member < static_cast<uint64_t>(definitions.ranks)) {
            rank = static_cast<int32_t>(member);
        }
        ranks.push_back(rank);
    }
    return ranks;
}

bool is_team(const Raw& raw, const Raw::Comm& comm) {
    const auto group = raw.groups.find(comm.group);
    return group != raw.groups.end() && group->second.threads;
}

// Members of a team are positions in the paradigm's list of all locations, unless they are locations themselves.
void place_teams(const Raw& raw, Definitions& result) {
    std::unordered_map<uint64_t, int32_t> at;
    for (size_t i = 0; i < result.locations.size(); ++i) at[result.locations[i].id] = static_cast<int32_t>(i);
    for (const auto& [id, comm] : raw.comms) {
        if (!is_team(raw, comm)) continue;
        const Raw::Group& group = raw.groups.at(comm.group);
        const Raw::Group* all = nullptr;
        for (const auto& [other, list] : raw.groups)
            if (list.type == OTF2_GROUP_TYPE_COMM_LOCATIONS && list.paradigm == group.paradigm) all = &list;
        std::vector<int32_t>& team = result.teams[id];
        if (group.paradigm == OTF2_PARADIGM_PTHREAD) result.created.insert(id);
        for (uint64_t member : group.members) {
            if (!group.global_members && all) member = member < all->members.size() ? all->members[member] : OTF2_UNDEFINED_LOCATION;
            const auto found = at.find(member);
            team.push_back(found == at.end() ? -1 : found->second);
        }
    }
}

void place_communicators(const Raw& raw, Definitions& result) {
    for (const auto& [id, comm] : raw.comms) {
        if (is_team(raw, comm)) continue;
        Communicator communicator;
        communicator.name = raw.text(comm.name);
        const auto group = raw.groups.find(comm.group);
        communicator.self = group != raw.groups.end() && group->second.type == OTF2_GROUP_TYPE_COMM_SELF;
        if (!communicator.self) communicator.ranks = world_ranks(raw, comm.group, result);
        if (comm.remote != OTF2_UNDEFINED_UINT32) communicator.remote = world_ranks(raw, comm.remote, result);
        const bool mpi = group != raw.groups.end() && group->second.mpi;
        const bool all = mpi && communicator.remote.empty() && communicator.ranks.size() == static_cast<size_t>(result.ranks);
        if (all && (result.world == UINT32_MAX || communicator.name == "MPI_COMM_WORLD")) result.world = id;
        result.communicators[id] = std::move(communicator);
    }
}

// A creation's communicators have no member in common, and those of the next creation on the same parent are defined behind them.
void place_creations(const Raw& raw, Definitions& result) {
    for (const auto& [id, comm] : raw.comms) {
        if (is_team(raw, comm)) continue;
        const auto parent = result.communicators.find(comm.parent);
        const Communicator& made = result.communicators.at(id);
        if (parent == result.communicators.end() || made.self || made.ranks.empty() || !parent->second.remote.empty()) continue;
        const std::vector<int32_t>& ranks = parent->second.ranks;
        std::vector<uint32_t> members;
        for (const int32_t rank : made.ranks) {
            const auto place = std::find(ranks.begin(), ranks.end(), rank);
            if (place != ranks.end()) members.push_back(static_cast<uint32_t>(place - ranks.begin()));
        }
        if (members.size() != made.ranks.size()) continue;
        const auto meets = [&](const std::vector<uint32_t>& group) {
            return std::find_first_of(group.begin(), group.end(), members.begin(), members.end()) != group.end();
        };
        auto& creations = result.creations[comm.parent];
        if (creations.empty() || std::any_of(creations.back().begin(), creations.back().end(), meets)) creations.emplace_back();
        creations.back().push_back(std::move(members));
    }
    const auto lowest = [](const std::vector<uint32_t>& group) { return *std::min_element(group.begin(), group.end()); };
    for (auto& [parent, creations] : result.creations)
        for (auto& groups : creations)
            std::sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) { return lowest(a) < lowest(b); });
}

void place_windows(const Raw& raw, Definitions& result) {
    for (const auto& [id, comm] : raw.windows) result.windows[id] = comm;
    if (result.windows.empty()) return;
    for (const auto& [id, group] : raw.groups)
        if (group.type == OTF2_GROUP_TYPE_COMM_GROUP && !group.threads) result.groups[id] = world_ranks(raw, id, result);
}

void place_neighbours(const Raw& raw, Definitions& result) {
    std::unordered_map<uint64_t, int32_t> rank_of;
    for (const Location& location : result.locations) rank_of[location.id] = location.rank;
    for (const auto& property : raw.location_properties) {
        const std::string& name = raw.text(property.name);
        const auto rank = rank_of.find(property.location);
        if (!name.starts_with(names::neighbours) || rank == rank_of.end() || rank->second < 0) continue;
        const auto comm = static_cast<uint32_t>(std::strtoul(name.c_str() + names::neighbours.size(), nullptr, 10));
        const auto members = result.communicators.find(comm);
        if (members == result.communicators.end() || members->second.self) continue;
        Neighbours neighbours;
        std::vector<int32_t>* list = nullptr;
        std::istringstream words(raw.text(property.value));
        for (std::string word; words >> word;) {
            if (word == "in" || word == "out") {
                list = word == "in" ? &neighbours.in : &neighbours.out;
            } else if (list) {
                const size_t place = std::strtoul(word.c_str(), nullptr, 10);
                if (place < members->second.ranks.size() && members->second.ranks[place] != no_rank)
                    list->push_back(members->second.ranks[place]);
            }
        }
        result.neighbours[{comm, rank->second}] = std::move(neighbours);
    }
}

void place_accounts(const Raw& raw, Definitions& result) {
    std::map<std::string, int32_t> known;
    const auto add = [&](bool services) {
        for (const auto& [id, member] : raw.members) {
            const std::string& name = raw.text(member.name);
            const bool service = name.starts_with(names::service_prefix), source = name.starts_with(names::source_prefix);
            if ((!service && !source) || service != services || raw.text(member.unit) != names::account_unit) continue;
            if (known.emplace(name, static_cast<int32_t>(result.accounts.size())).second) result.accounts.push_back({name, service});
        }
    };
    add(false);
    add(true);
    const auto slots_of = [&](const std::vector<uint32_t>& members) {
        std::vector<MetricSlot> slots;
        bool any = false;
        for (const uint32_t reference : members) {
            MetricSlot slot;
            const auto member = raw.members.find(reference);
            const auto account = member == raw.members.end() || raw.text(member->second.unit) != names::account_unit
                                     ? known.end()
                                     : known.find(raw.text(member->second.name));
            if (account != known.end()) {
                const uint8_t value = member->second.mode & OTF2_METRIC_VALUE_MASK;
                if (value == OTF2_METRIC_VALUE_ABSOLUTE || std::abs(member->second.exponent) > 18) {
                    result.warnings.push_back(warning(Flaw::metric_mode, account->first));
                } else {
                    slot.account = account->second;
                    slot.increment = value == OTF2_METRIC_VALUE_RELATIVE;
                    const int64_t base = member->second.base == OTF2_BASE_DECIMAL ? 10 : 2;
                    for (int64_t e = member->second.exponent; e > 0; --e) slot.numerator *= base;
                    for (int64_t e = member->second.exponent; e < 0; ++e) slot.denominator *= base;
                    any = true;
                }
            }
            slots.push_back(slot);
        }
        return any ? slots : std::vector<MetricSlot>{};
    };
    for (const auto& [id, members] : raw.classes)
        if (auto slots = slots_of(members); !slots.empty()) result.metrics[id] = std::move(slots);
    for (const auto& [id, metric_class] : raw.instances)
        if (const auto found = result.metrics.find(metric_class); found != result.metrics.end()) {
            auto slots = found->second;
            result.metrics[id] = std::move(slots);
        }
}

// The metrics that are no accounts.
void place_counters(const Raw& raw, Definitions& result) {
    std::map<uint32_t, int32_t> index;
    for (const auto& [id, member] : raw.members) {
        const std::string& name = raw.text(member.name);
        const bool account = name.starts_with(names::source_prefix) || name.starts_with(names::service_prefix);
        if (account && raw.text(member.unit) == names::account_unit) continue;
        index[id] = static_cast<int32_t>(result.counters.size());
        const double base = member.base == OTF2_BASE_DECIMAL ? 10 : 2;
        const bool increment = (member.mode & OTF2_METRIC_VALUE_MASK) == OTF2_METRIC_VALUE_RELATIVE;
        result.counters.push_back({name, raw.text(member.unit), increment, std::pow(base, static_cast<double>(member.exponent))});
    }
    const auto add = [&](uint32_t id, uint32_t metric_class) {
        const auto members = raw.classes.find(metric_class);
        if (index.empty() || members == raw.classes.end()) return;
        for (const uint32_t member : members->second) result.counter_slots[id].push_back(index.contains(member) ? index[member] : -1);
    };
    for (const auto& [id, members] : raw.classes) add(id, id);
    for (const auto& [id, metric_class] : raw.instances) add(id, metric_class);
}

void place_regions(const Raw& raw, Definitions& result) {
    size_t beyond = 0;
    for (const auto& [id, region] : raw.regions) {
        if (id >= most_regions) {
            ++beyond;
            continue;
        }
        if (result.region_kinds.size() <= id) result.region_kinds.resize(id + 1, CallKind::not_mpi);
        result.region_kinds[id] = region.user ? CallKind::not_mpi : call_kind(raw.text(region.name), region.mpi);
        if (region.threads) result.region_kinds[id] = thread_call_kind(raw.text(region.name), region.role);
        result.region_names.resize(result.region_kinds.size(), OTF2_UNDEFINED_STRING);
        result.region_names[id] = region.name;
    }
    if (beyond > 0) result.warnings.push_back(warning(Flaw::region_ids, beyond, most_regions));
}

void place_call_sites(const Raw& raw, Definitions& result) {
    if (result.call_site == UINT32_MAX) return;
    for (const auto& [id, context] : raw.contexts) {
        if (id >= most_regions) break;
        result.call_sites.resize(id + 1);
        const auto region = raw.regions.find(context.region);
        if (region != raw.regions.end()) result.call_sites[id].function = raw.text(region->second.name);
        const auto line = raw.lines.find(context.line);
        if (line == raw.lines.end()) continue;
        result.call_sites[id].file = raw.text(line->second.file);
        result.call_sites[id].line = line->second.number;
    }
}

void read_properties(OTF2_Reader* reader, Definitions& result) {
    uint32_t count = 0;
    char** list = nullptr;
    if (OTF2_Reader_GetPropertyNames(reader, &count, &list) != OTF2_SUCCESS || !list) return;
    for (uint32_t i = 0; i < count; ++i) {
        const std::string name = list[i];
        char* value = nullptr;
        if (!name.starts_with(names::property_prefix) || OTF2_Reader_GetProperty(reader, list[i], &value) != OTF2_SUCCESS || !value)
            continue;
        result.properties[name.substr(names::property_prefix.size())] = value;
        std::free(value);
    }
    std::free(list);  // one block, which also holds the names
}

}  // namespace

std::string display_name(const Account& account) {
    return account.service ? account.name : account.name.substr(names::source_prefix.size());
}

std::string Definitions::region_name(uint32_t region) const {
    if (region == no_region) return "application code";
    if (region == unnamed_region) return "MPI record outside of calls";
    const auto found = region < region_names.size() ? strings.find(region_names[region]) : strings.end();
    return found == strings.end() ? fmt::format("region {}", region) : found->second;
}

std::pair<std::string, std::string> Definitions::place_names(const Place& place) const {
    if (place.operation == no_region) return {region_name(place.caller), ""};
    return {region_name(place.operation), place.caller == no_region ? "" : region_name(place.caller)};
}

std::string Definitions::call_site_name(const Place& place) const {
    return place.call_site < call_sites.size() ? call_sites[place.call_site].text() : "";
}

std::string Definitions::culprit_name(uint32_t string) const {
    const auto found = strings.find(string);
    return found == strings.end() || found->second == "?" ? "unknown" : found->second;  // "?" in older archives
}

Definitions read_definitions(OTF2_Reader* reader, const std::string& anchor) {
    const Raw raw = read_raw_definitions(reader, anchor);
    Definitions result;
    if (raw.ticks == 0) throw InputError(fmt::format("{}: defines no clock; its times mean nothing", anchor));
    result.ticks_per_second = raw.ticks;
    result.global_offset = raw.offset;
    place_ranks(raw, result, anchor);
    place_communicators(raw, result);
    place_teams(raw, result);
    place_creations(raw, result);
    place_windows(raw, result);
    place_neighbours(raw, result);
    place_counters(raw, result);
    place_accounts(raw, result);
    place_regions(raw, result);
    for (const auto& [id, name] : raw.attributes) {
        const std::string& text = raw.text(name);
        if (text == names::culprit) result.culprit = id;
        if (text == names::posted_source) result.source = id;
        if (text == names::posted_tag) result.tag = id;
        if (text == names::posted_comm) result.comm = id;
        if (text == names::send_mode) result.mode = id;
        if (text == names::ended_ago) result.ago = id;
        if (text == names::partitioned) result.partitioned = id;
        if (text == names::operation) result.operation = id;
        if (text == names::probed_any) result.any = id;
        if (text == names::call_site) result.call_site = id;
        if (text == names::polls) result.polls = id;
        if (text == names::last_poll) result.last_poll = id;
        if (text == names::poll_gap) result.poll_gap = id;
    }
    place_call_sites(raw, result);
    read_properties(reader, result);
    result.strings = raw.strings;
    return result;
}

}  // namespace polter::replay
