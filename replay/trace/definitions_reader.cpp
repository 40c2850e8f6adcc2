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
#include "replay/base/error.hpp"

namespace polter::replay {

namespace {

constexpr uint32_t most_regions = 1u << 22;  // OTF2 expects dense ids; larger ones are damage

// Definitions as they are read. They are combined afterwards, as OTF2 does not fix the order of most of them.
struct Raw {
    uint64_t ticks = 0, offset = 0;
    std::unordered_map<uint32_t, std::string> strings;
    struct Group {
        uint8_t type;
        bool mpi, global_members;
        std::vector<uint64_t> members;
    };
    std::map<uint32_t, Group> groups;
    struct LocationGroup {
        uint8_t type;
        uint32_t node;
    };
    std::map<uint32_t, LocationGroup> location_groups;
    std::map<uint32_t, uint32_t> node_names;
    struct Place {
        uint64_t id, events;
        uint8_t type;
        uint32_t group;
    };
    std::vector<Place> locations;
    struct Comm {
        uint32_t name, group, remote;
    };
    std::map<uint32_t, Comm> comms;
    std::map<uint32_t, uint32_t> windows;
    struct LocationProperty {
        uint64_t location;
        uint32_t name, value;
    };
    std::vector<LocationProperty> location_properties;  // of type string
    struct Region {
        uint32_t name;
        bool mpi;
    };
    std::map<uint32_t, Region> regions;
    struct Member {
        uint32_t name, unit;
        uint8_t mode, base;
        int64_t exponent;
    };
    std::map<uint32_t, Member> members;
    std::map<uint32_t, std::vector<uint32_t>> classes;
    std::map<uint32_t, uint32_t> instances;
    std::map<uint32_t, uint32_t> attributes;
    struct Line {
        uint32_t file, number;
    };
    std::map<uint32_t, Line> lines;
    struct Context {
        uint32_t region, line;
    };
    std::map<uint32_t, Context> contexts;

    const std::string& text(uint32_t id) const {
        static const std::string none;
        const auto found = strings.find(id);
        return found == strings.end() ? none : found->second;
    }
};

Raw& raw(void* user) {
    return *static_cast<Raw*>(user);
}

OTF2_CallbackCode on_clock(void* user, uint64_t resolution, uint64_t offset, uint64_t, uint64_t) {
    raw(user).ticks = resolution;
    raw(user).offset = offset;
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_string(void* user, OTF2_StringRef self, const char* text) {
    raw(user).strings[self] = text ? text : "";
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_group(void* user, OTF2_GroupRef self, OTF2_StringRef, OTF2_GroupType type, OTF2_Paradigm paradigm,
                           OTF2_GroupFlag flags, uint32_t count, const uint64_t* members) {
    raw(user).groups[self] = {
        type, paradigm == OTF2_PARADIGM_MPI, (flags & OTF2_GROUP_FLAG_GLOBAL_MEMBERS) != 0, {members, members + count}};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_location_group(void* user, OTF2_LocationGroupRef self, OTF2_StringRef, OTF2_LocationGroupType type,
                                    OTF2_SystemTreeNodeRef node, OTF2_LocationGroupRef) {
    raw(user).location_groups[self] = {type, node};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_system_tree_node(void* user, OTF2_SystemTreeNodeRef self, OTF2_StringRef name, OTF2_StringRef,
                                      OTF2_SystemTreeNodeRef) {
    raw(user).node_names[self] = name;
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_location(void* user, OTF2_LocationRef self, OTF2_StringRef, OTF2_LocationType type, uint64_t events,
                              OTF2_LocationGroupRef group) {
    raw(user).locations.push_back({self, events, type, group});
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_comm(void* user, OTF2_CommRef self, OTF2_StringRef name, OTF2_GroupRef group, OTF2_CommRef, OTF2_CommFlag) {
    raw(user).comms[self] = {name, group, OTF2_UNDEFINED_UINT32};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_intercomm(void* user, OTF2_CommRef self, OTF2_StringRef name, OTF2_GroupRef a, OTF2_GroupRef b, OTF2_CommRef,
                               OTF2_CommFlag) {
    raw(user).comms[self] = {name, a, b};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_window(void* user, OTF2_RmaWinRef self, OTF2_StringRef, OTF2_CommRef comm, OTF2_RmaWinFlag) {
    raw(user).windows[self] = comm;
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_location_property(void* user, OTF2_LocationRef location, OTF2_StringRef name, OTF2_Type type,
                                       OTF2_AttributeValue value) {
    if (type == OTF2_TYPE_STRING) raw(user).location_properties.push_back({location, name, value.stringRef});
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_region(void* user, OTF2_RegionRef self, OTF2_StringRef name, OTF2_StringRef, OTF2_StringRef, OTF2_RegionRole,
                            OTF2_Paradigm paradigm, OTF2_RegionFlag, OTF2_StringRef, uint32_t, uint32_t) {
    raw(user).regions[self] = {name, paradigm == OTF2_PARADIGM_MPI};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_member(void* user, OTF2_MetricMemberRef self, OTF2_StringRef name, OTF2_StringRef, OTF2_MetricType,
                            OTF2_MetricMode mode, OTF2_Type, OTF2_Base base, int64_t exponent, OTF2_StringRef unit) {
    raw(user).members[self] = {name, unit, mode, base, exponent};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_class(void* user, OTF2_MetricRef self, uint8_t count, const OTF2_MetricMemberRef* members, OTF2_MetricOccurrence,
                           OTF2_RecorderKind) {
    raw(user).classes[self] = {members, members + count};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_instance(void* user, OTF2_MetricRef self, OTF2_MetricRef metric_class, OTF2_LocationRef, OTF2_MetricScope, uint64_t) {
    raw(user).instances[self] = metric_class;
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_attribute(void* user, OTF2_AttributeRef self, OTF2_StringRef name, OTF2_StringRef, OTF2_Type) {
    raw(user).attributes[self] = name;
    return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_line(void* user, OTF2_SourceCodeLocationRef self, OTF2_StringRef file, uint32_t number) {
    raw(user).lines[self] = {file, number};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_context(void* user, OTF2_CallingContextRef self, OTF2_RegionRef region, OTF2_SourceCodeLocationRef line,
                             OTF2_CallingContextRef) {
    raw(user).contexts[self] = {region, line};
    return OTF2_CALLBACK_SUCCESS;
}

Raw read_raw(OTF2_Reader* reader, const std::string& anchor) {
    OTF2_GlobalDefReader* definitions = OTF2_Reader_GetGlobalDefReader(reader);
    if (!definitions) throw InputError(fmt::format("{}: has no global definitions; the archive is incomplete", anchor));
    OTF2_GlobalDefReaderCallbacks* callbacks = OTF2_GlobalDefReaderCallbacks_New();
    OTF2_GlobalDefReaderCallbacks_SetClockPropertiesCallback(callbacks, on_clock);
    OTF2_GlobalDefReaderCallbacks_SetStringCallback(callbacks, on_string);
    OTF2_GlobalDefReaderCallbacks_SetGroupCallback(callbacks, on_group);
    OTF2_GlobalDefReaderCallbacks_SetSystemTreeNodeCallback(callbacks, on_system_tree_node);
    OTF2_GlobalDefReaderCallbacks_SetLocationGroupCallback(callbacks, on_location_group);
    OTF2_GlobalDefReaderCallbacks_SetLocationCallback(callbacks, on_location);
    OTF2_GlobalDefReaderCallbacks_SetCommCallback(callbacks, on_comm);
    OTF2_GlobalDefReaderCallbacks_SetInterCommCallback(callbacks, on_intercomm);
    OTF2_GlobalDefReaderCallbacks_SetRmaWinCallback(callbacks, on_window);
    OTF2_GlobalDefReaderCallbacks_SetLocationPropertyCallback(callbacks, on_location_property);
    OTF2_GlobalDefReaderCallbacks_SetRegionCallback(callbacks, on_region);
    OTF2_GlobalDefReaderCallbacks_SetMetricMemberCallback(callbacks, on_member);
    OTF2_GlobalDefReaderCallbacks_SetMetricClassCallback(callbacks, on_class);
    OTF2_GlobalDefReaderCallbacks_SetMetricInstanceCallback(callbacks, on_instance);
    OTF2_GlobalDefReaderCallbacks_SetAttributeCallback(callbacks, on_attribute);
    OTF2_GlobalDefReaderCallbacks_SetSourceCodeLocationCallback(callbacks, on_line);
    OTF2_GlobalDefReaderCallbacks_SetCallingContextCallback(callbacks, on_context);
    Raw result;
    OTF2_Reader_RegisterGlobalDefCallbacks(reader, definitions, callbacks, &result);
    OTF2_GlobalDefReaderCallbacks_Delete(callbacks);
    uint64_t read = 0;
    const OTF2_ErrorCode code = read_global_definitions(reader, definitions, anchor, &read);
    OTF2_Reader_CloseGlobalDefReader(reader, definitions);
    if (code != OTF2_SUCCESS)
        throw InputError(
            fmt::format("{}: its definitions are damaged after {} records ({})", anchor, read, OTF2_Error_GetDescription(code)));
    return result;
}

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
        if (group.type == OTF2_GROUP_TYPE_COMM_LOCATIONS) return &group;
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

void place_communicators(const Raw& raw, Definitions& result) {
    for (const auto& [id, comm] : raw.comms) {
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

void place_windows(const Raw& raw, Definitions& result) {
    for (const auto& [id, comm] : raw.windows) result.windows[id] = comm;
    if (result.windows.empty()) return;
    for (const auto& [id, group] : raw.groups)
        if (group.type == OTF2_GROUP_TYPE_COMM_GROUP) result.groups[id] = world_ranks(raw, id, result);
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
        result.region_kinds[id] = call_kind(raw.text(region.name), region.mpi);
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
    const Raw raw = read_raw(reader, anchor);
    Definitions result;
    if (raw.ticks == 0) throw InputError(fmt::format("{}: defines no clock; its times mean nothing", anchor));
    result.ticks_per_second = raw.ticks;
    result.global_offset = raw.offset;
    place_ranks(raw, result, anchor);
    place_communicators(raw, result);
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
    }
    place_call_sites(raw, result);
    read_properties(reader, result);
    result.strings = raw.strings;
    return result;
}

}  // namespace polter::replay
