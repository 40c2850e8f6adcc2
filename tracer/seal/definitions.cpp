// SPDX-License-Identifier: BSD-3-Clause
#include "definitions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <mpi_regions.hpp>

#include "../conventions.hpp"
#include "otf2.hpp"
#include "workers.hpp"

namespace polter::seal {
namespace {

constexpr uint64_t ticks_per_second = 1'000'000'000;

struct AccountName {
    const char* name;
    bool service;
};
#define POLTER_NOISE_NAME(id, name) {name, false},
#define POLTER_SERVICE_NAME(id, name) {name, true},
constexpr AccountName accounts[] = {POLTER_NOISE_SOURCES(POLTER_NOISE_NAME) POLTER_SERVICES(POLTER_SERVICE_NAME)};
static_assert(std::size(accounts) == POLTER_ACCOUNTS);

class Writer {
  public:
    Writer(OTF2_Archive* archive, const Definitions& definitions, Strings& strings)
        : definitions_(definitions), strings_(strings), global_(OTF2_Archive_GetGlobalDefWriter(archive)) {
        if (!global_) throw std::runtime_error("OTF2 gives no writer for global definitions");
    }

    void write() {
        clock();
        flush_strings();
        paradigm();
        paradigms_of_threads();
        system_tree();
        regions_();
        regions_of_program();
        parameters();
        metrics();
        counters();
        attributes();
        groups();
        comms();
        windows();
        neighbours();
        call_sites();
    }

  private:
    // A string is defined before its first use.
    uint32_t string(const std::string& value) {
        auto id = strings_.id(value);
        flush_strings();
        return id;
    }
    void flush_strings() {
        for (; written_ < strings_.values().size(); ++written_)
            check(OTF2_GlobalDefWriter_WriteString(global_, static_cast<uint32_t>(written_), strings_.values()[written_].c_str()));
    }
    static void check(OTF2_ErrorCode code) { check_otf2(code, "global definitions"); }

    void clock() {
        // Ticks are CLOCK_MONOTONIC; what the wall clock said at the first of them follows from both clocks now, as good as the
        // two have run alike since.
        timespec real{}, monotonic{};
        clock_gettime(CLOCK_REALTIME, &real);
        clock_gettime(CLOCK_MONOTONIC, &monotonic);
        auto ns = [](const timespec& t) { return static_cast<uint64_t>(t.tv_sec) * ticks_per_second + static_cast<uint64_t>(t.tv_nsec); };
        check(OTF2_GlobalDefWriter_WriteClockProperties(global_, ticks_per_second, definitions_.first_ns,
                                                        definitions_.last_ns - definitions_.first_ns,
                                                        ns(real) - ns(monotonic) + definitions_.first_ns));
    }

    void paradigm() {
        check(OTF2_GlobalDefWriter_WriteParadigm(global_, OTF2_PARADIGM_MPI, string("MPI"), OTF2_PARADIGM_CLASS_PROCESS));
        OTF2_AttributeValue value;
        value.stringRef = string("MPI Communicator ${id}");
        check(OTF2_GlobalDefWriter_WriteParadigmProperty(global_, OTF2_PARADIGM_MPI, OTF2_PARADIGM_PROPERTY_COMM_NAME_TEMPLATE,
                                                         OTF2_TYPE_STRING, value));
        value.stringRef = string("MPI Window ${id}");
        check(OTF2_GlobalDefWriter_WriteParadigmProperty(global_, OTF2_PARADIGM_MPI, OTF2_PARADIGM_PROPERTY_RMA_WIN_NAME_TEMPLATE,
                                                         OTF2_TYPE_STRING, value));
        value.uint8 = OTF2_FALSE;
        check(OTF2_GlobalDefWriter_WriteParadigmProperty(global_, OTF2_PARADIGM_MPI, OTF2_PARADIGM_PROPERTY_RMA_ONLY, OTF2_TYPE_UINT8,
                                                         value));
    }

    bool has_teams(bool created) const {
        return std::any_of(definitions_.unified.comms.begin(), definitions_.unified.comms.end(),
                           [created](const Comm& comm) { return comm.team && comm.created == created; });
    }
    void paradigm_of_threads(OTF2_Paradigm paradigm, const char* name, OTF2_ParadigmClass kind, const char* team) {
        check(OTF2_GlobalDefWriter_WriteParadigm(global_, paradigm, string(name), kind));
        OTF2_AttributeValue value;
        value.stringRef = string(team);
        check(OTF2_GlobalDefWriter_WriteParadigmProperty(global_, paradigm, OTF2_PARADIGM_PROPERTY_COMM_NAME_TEMPLATE, OTF2_TYPE_STRING,
                                                         value));
    }
    void paradigms_of_threads() {
        if (has_teams(false))
            paradigm_of_threads(OTF2_PARADIGM_OPENMP, "OpenMP", OTF2_PARADIGM_CLASS_THREAD_FORK_JOIN, "OpenMP Team ${id}");
        if (has_teams(true))
            paradigm_of_threads(OTF2_PARADIGM_PTHREAD, "POSIX threads", OTF2_PARADIGM_CLASS_THREAD_CREATE_WAIT, "Threads ${id}");
    }

    void system_tree() {
        check(OTF2_GlobalDefWriter_WriteSystemTreeNode(global_, 0, string("machine"), string("machine"), OTF2_UNDEFINED_SYSTEM_TREE_NODE));
        std::map<std::string, uint32_t> nodes;
        for (const auto& process : definitions_.processes) {
            auto [node, added] = nodes.try_emplace(process.host, static_cast<uint32_t>(nodes.size() + 1));
            if (added) check(OTF2_GlobalDefWriter_WriteSystemTreeNode(global_, node->second, string(process.host), string("node"), 0));
            check(OTF2_GlobalDefWriter_WriteLocationGroup(global_, process.rank, string(fmt::format("MPI Rank {}", process.rank)),
                                                          OTF2_LOCATION_GROUP_TYPE_PROCESS, node->second, OTF2_UNDEFINED_LOCATION_GROUP));
            for (const auto& location : process.locations)
                check(OTF2_GlobalDefWriter_WriteLocation(global_, location.id, string(location.name), OTF2_LOCATION_TYPE_CPU_THREAD,
                                                         location.events, process.rank));
        }
    }

    void regions_() {
        auto empty = string("");
        uint32_t id = 0;
        for (const auto& region : trace::regions) {
            auto name = string(region.name);
            check(OTF2_GlobalDefWriter_WriteRegion(global_, id++, name, name, empty, region.role, trace::region_paradigm,
                                                   OTF2_REGION_FLAG_NONE, string("MPI"), 0, 0));
        }
    }

    void regions_of_program() {
        uint32_t id = trace::region_count;
        for (const auto& region : definitions_.unified.regions) {
            const auto name = string(region.name);
            const auto [role, paradigm] = kind_of(region);
            check(OTF2_GlobalDefWriter_WriteRegion(global_, id++, name, name, string(""), role, paradigm, OTF2_REGION_FLAG_NONE,
                                                   string(region.file), region.line, 0));
        }
    }
    // A region that the tracer itself names has no file.
    static std::pair<OTF2_RegionRole, OTF2_Paradigm> kind_of(const SidecarRegion& region) {
        static const std::map<std::string_view, std::pair<OTF2_RegionRole, OTF2_Paradigm>> kinds{
            {trace::openmp_barrier_name, {OTF2_REGION_ROLE_BARRIER, OTF2_PARADIGM_OPENMP}},
            {trace::openmp_implicit_barrier_name, {OTF2_REGION_ROLE_IMPLICIT_BARRIER, OTF2_PARADIGM_OPENMP}},
            {trace::openmp_dynamic_barrier_name, {OTF2_REGION_ROLE_IMPLICIT_BARRIER, OTF2_PARADIGM_OPENMP}},
            {trace::openmp_critical_name, {OTF2_REGION_ROLE_CRITICAL, OTF2_PARADIGM_OPENMP}},
            {trace::openmp_task_name, {OTF2_REGION_ROLE_TASK, OTF2_PARADIGM_OPENMP}},
            {trace::openmp_taskwait_name, {OTF2_REGION_ROLE_TASK_WAIT, OTF2_PARADIGM_OPENMP}},
            {trace::openmp_lock_name, {OTF2_REGION_ROLE_WRAPPER, OTF2_PARADIGM_OPENMP}},
            {trace::pthread_join_name, {OTF2_REGION_ROLE_THREAD_WAIT, OTF2_PARADIGM_PTHREAD}},
            {trace::pthread_mutex_name, {OTF2_REGION_ROLE_WRAPPER, OTF2_PARADIGM_PTHREAD}},
            {trace::pthread_condition_name, {OTF2_REGION_ROLE_WRAPPER, OTF2_PARADIGM_PTHREAD}},
        };
        const auto known = region.file.empty() ? kinds.find(region.name) : kinds.end();
        return known == kinds.end() ? std::pair{OTF2_REGION_ROLE_CODE, OTF2_PARADIGM_USER} : known->second;
    }

    void parameters() {
        check(OTF2_GlobalDefWriter_WriteParameter(global_, trace::parameter_level, string(trace::parameter_level_name),
                                                  OTF2_PARAMETER_TYPE_INT64));
    }

    void metrics() {
        auto unit = string(trace::noise_unit);
        for (unsigned account = 0; account < POLTER_ACCOUNTS; ++account) {
            auto prefix = accounts[account].service ? trace::service_prefix : trace::noise_prefix;
            auto name = string(std::string(prefix) + accounts[account].name);
            check(OTF2_GlobalDefWriter_WriteMetricMember(
                global_, account, name,
                string(accounts[account].service ? "time in a service of the operating system" : "time stolen by the operating system"),
                OTF2_METRIC_TYPE_OTHER, OTF2_METRIC_ACCUMULATED_START, OTF2_TYPE_UINT64, OTF2_BASE_DECIMAL, 0, unit));
            OTF2_MetricMemberRef member = account;
            check(OTF2_GlobalDefWriter_WriteMetricClass(global_, trace::metric_class_of(account), 1, &member, OTF2_METRIC_ASYNCHRONOUS,
                                                        OTF2_RECORDER_KIND_CPU));
        }
    }

    // Those of the first rank that has some: all are asked for the same. A rank without has no records of them.
    void counters() {
        for (const auto& process : definitions_.processes) {
            if (!process.sidecar || process.sidecar->counters.empty()) continue;
            std::vector<OTF2_MetricMemberRef> members;
            for (const auto& [name, unit] : process.sidecar->counters) {
                members.push_back(POLTER_ACCOUNTS + static_cast<uint32_t>(members.size()));
                check(OTF2_GlobalDefWriter_WriteMetricMember(global_, members.back(), string(name), string("counted in this thread"),
                                                             OTF2_METRIC_TYPE_OTHER, OTF2_METRIC_ACCUMULATED_START, OTF2_TYPE_INT64,
                                                             OTF2_BASE_DECIMAL, 0, string(unit)));
            }
            check(OTF2_GlobalDefWriter_WriteMetricClass(global_, trace::metric_class_of_counters, static_cast<uint8_t>(members.size()),
                                                        members.data(), OTF2_METRIC_SYNCHRONOUS, OTF2_RECORDER_KIND_CPU));
            return;
        }
    }

    void attributes() {
        constexpr OTF2_Type types[trace::attribute_count] = {
            OTF2_TYPE_STRING, OTF2_TYPE_INT32,  OTF2_TYPE_INT32, OTF2_TYPE_COMM,  OTF2_TYPE_UINT8,
            OTF2_TYPE_UINT64, OTF2_TYPE_UINT32, OTF2_TYPE_UINT8, OTF2_TYPE_UINT8, OTF2_TYPE_CALLING_CONTEXT,
            OTF2_TYPE_UINT32, OTF2_TYPE_UINT64, OTF2_TYPE_UINT64};
        constexpr const char* meanings[trace::attribute_count] = {
            "what stole the time",
            "source of a receive as posted, or of a probed message; -1 any",
            "tag of the same; -1 any",
            "communicator of the same",
            "send mode: 1 synchronous, 2 ready, 3 buffered",
            "ticks between the end of the noise and its record, which came late",
            "partitioned communication: 1-based index of the request with that partner and tag",
            "128 a neighbourhood's, 129 a file's",
            "what a probe asked for: 1 any source, 2 any tag, 3 both",
            "where the call was made; none: where the one before was followed from the last time",
            "so many failing polls in a row, from the first one's begin to the last one's end",
            "ticks between the last one's begin and end",
            "ticks of the longest time between two of them"};
        for (uint32_t id = 0; id < trace::attribute_count; ++id)
            check(OTF2_GlobalDefWriter_WriteAttribute(global_, id, string(trace::attribute_names[id]), string(meanings[id]), types[id]));
    }

    void groups() {
        // Members of the first are locations; of all others, positions in the first.
        std::vector<uint64_t> members;
        for (const auto& process : definitions_.processes) members.push_back(process.rank);
        group(group_locations, "MPI locations", OTF2_GROUP_TYPE_COMM_LOCATIONS, members);
        group(group_world, "world", OTF2_GROUP_TYPE_COMM_GROUP, members);
        group(group_self, "self", OTF2_GROUP_TYPE_COMM_SELF, {});
        uint32_t id = first_group;
        for (const auto& ranks : definitions_.unified.groups) group(id++, "", OTF2_GROUP_TYPE_COMM_GROUP, {ranks.begin(), ranks.end()});
        teams(id, false, "OpenMP locations", OTF2_PARADIGM_OPENMP);
        teams(id, true, "locations of POSIX threads", OTF2_PARADIGM_PTHREAD);
    }
    // The same for threads: a list of all that are in a team of the paradigm, and each team as positions in it.
    void teams(uint32_t& id, bool created, const char* name_of_list, OTF2_Paradigm paradigm) {
        if (!has_teams(created)) return;
        std::map<uint64_t, uint64_t> positions;
        for (const auto& comm : definitions_.unified.comms)
            if (comm.created == created)
                for (const uint64_t location : comm.locations) positions[location] = 0;
        std::vector<uint64_t> all;
        for (auto& [location, position] : positions) {
            position = all.size();
            all.push_back(location);
        }
        const auto write = [&](const char* name, OTF2_GroupType type, const std::vector<uint64_t>& members) {
            check(OTF2_GlobalDefWriter_WriteGroup(global_, id++, string(name), type, paradigm, OTF2_GROUP_FLAG_NONE,
                                                  static_cast<uint32_t>(members.size()), members.data()));
        };
        write(name_of_list, OTF2_GROUP_TYPE_COMM_LOCATIONS, all);
        first_team_[created] = id;
        for (const auto& comm : definitions_.unified.comms) {
            if (!comm.team || comm.created != created) continue;
            std::vector<uint64_t> members;
            for (const uint64_t location : comm.locations) members.push_back(positions[location]);
            write("", OTF2_GROUP_TYPE_COMM_GROUP, members);
        }
    }
    void group(uint32_t id, const char* name, OTF2_GroupType type, const std::vector<uint64_t>& members) {
        check(OTF2_GlobalDefWriter_WriteGroup(global_, id, string(name), type, OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE,
                                              static_cast<uint32_t>(members.size()), members.data()));
    }

    void neighbours() {
        for (const auto& process : definitions_.processes) {
            const auto location = trace::location_of(process.rank, 0);
            const auto is_main = [&](const LocationDefinition& one) { return one.id == location; };
            if (!process.sidecar || std::none_of(process.locations.begin(), process.locations.end(), is_main)) continue;
            for (const auto& [comm, lists] : process.sidecar->neighbours) {
                OTF2_AttributeValue value;
                value.stringRef = string(fmt::format("in {} out {}", fmt::join(lists.in, " "), fmt::join(lists.out, " ")));
                const auto name = string(fmt::format("{}{}", trace::neighbours_property, process.maps->comms.at(comm)));
                check(OTF2_GlobalDefWriter_WriteLocationProperty(global_, location, name, OTF2_TYPE_STRING, value));
            }
        }
    }

    // A call site is a calling context: the function as a region that is never entered, the line as a location in the source.
    void call_sites() {
        auto empty = string("");
        std::map<std::tuple<std::string, std::string, std::string>, uint32_t> functions;
        std::map<std::pair<std::string, uint32_t>, uint32_t> lines;
        uint32_t id = 0;
        for (const auto& site : definitions_.call_sites) {
            const auto [function, new_function] =
                functions.try_emplace({site.function, site.linkage, site.file},
                                      static_cast<uint32_t>(trace::region_count + definitions_.unified.regions.size() + functions.size()));
            if (new_function)
                check(OTF2_GlobalDefWriter_WriteRegion(
                    global_, function->second, string(site.function), string(site.linkage.empty() ? site.function : site.linkage), empty,
                    OTF2_REGION_ROLE_FUNCTION, OTF2_PARADIGM_SAMPLING, OTF2_REGION_FLAG_NONE, string(site.file), 0, 0));
            uint32_t place = OTF2_UNDEFINED_SOURCE_CODE_LOCATION;
            if (site.line) {
                const auto [line, new_line] = lines.try_emplace({site.file, site.line}, static_cast<uint32_t>(lines.size()));
                if (new_line) check(OTF2_GlobalDefWriter_WriteSourceCodeLocation(global_, line->second, string(site.file), site.line));
                place = line->second;
            }
            check(OTF2_GlobalDefWriter_WriteCallingContext(global_, id++, function->second, place, OTF2_UNDEFINED_CALLING_CONTEXT));
        }
    }

    void windows() {
        uint32_t id = 0;
        for (const auto& window : definitions_.unified.windows)
            check(
                OTF2_GlobalDefWriter_WriteRmaWin(global_, id++, string(window.name), window.comm, OTF2_RMA_WIN_FLAG_CREATE_DESTROY_EVENTS));
    }

    void comms() {
        uint32_t id = 0;
        for (const auto& comm : definitions_.unified.comms) {
            auto name = string(comm.name);
            if (comm.team) {
                check(OTF2_GlobalDefWriter_WriteComm(global_, id, name, first_team_[comm.created]++, OTF2_UNDEFINED_COMM,
                                                     OTF2_COMM_FLAG_NONE));
            } else if (comm.remote == UINT32_MAX) {
                check(OTF2_GlobalDefWriter_WriteComm(global_, id, name, comm.group, comm.parent, OTF2_COMM_FLAG_NONE));
            } else {
                check(OTF2_GlobalDefWriter_WriteInterComm(global_, id, name, comm.group, comm.remote, comm.parent, OTF2_COMM_FLAG_NONE));
            }
            ++id;
        }
    }

    const Definitions& definitions_;
    Strings& strings_;
    OTF2_GlobalDefWriter* global_;
    size_t written_ = 0;
    uint32_t first_team_[2] = {};  // group of the next team: of OpenMP, of threads that the program started
};

void mapping(OTF2_DefWriter* writer, OTF2_MappingType type, const std::vector<uint32_t>& ids) {
    if (ids.empty()) return;
    auto* map = OTF2_IdMap_CreateFromUint32Array(ids.size(), ids.data(), false);
    if (!map) throw std::runtime_error("OTF2 gives no memory for a mapping table");
    auto code = OTF2_DefWriter_WriteMappingTable(writer, type, map);
    OTF2_IdMap_Free(map);
    check_otf2(code, "mapping table");
}

// Where a rank has regions of its own: MPI's functions keep their ids.
std::vector<uint32_t> region_ids(const std::vector<uint32_t>& own) {
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; !own.empty() && id < trace::region_count; ++id) ids.push_back(id);
    for (const uint32_t index : own) ids.push_back(trace::region_count + index);
    return ids;
}

// Of one process: all that its locations need to be read.
void local_definitions(OTF2_Archive* archive, const Process& process) {
    for (const auto& location : process.locations) {
        auto* writer = OTF2_Archive_GetDefWriter(archive, location.id);
        if (!writer) throw std::runtime_error("OTF2 gives no writer for local definitions; raise the limit of open files (ulimit -n)");
        for (const auto& knot : process.clock)
            check_otf2(
                OTF2_DefWriter_WriteClockOffset(writer, static_cast<uint64_t>(knot.time), knot.offset, static_cast<double>(knot.error)),
                "clock offsets");
        if (process.maps) {
            mapping(writer, OTF2_MAPPING_REGION, region_ids(process.maps->regions));
            mapping(writer, OTF2_MAPPING_STRING, process.maps->strings);
            mapping(writer, OTF2_MAPPING_COMM, process.maps->comms);
            mapping(writer, OTF2_MAPPING_RMA_WIN, process.maps->windows);
            mapping(writer, OTF2_MAPPING_CALLING_CONTEXT, process.maps->call_sites);
        }
        check_otf2(OTF2_Archive_CloseDefWriter(archive, writer), "local definitions");
    }
}

constexpr const char* workers_folder = "workers";

// Each worker has an archive of its own, of which only the files of locations are ever written. They are moved to the whole archive later.
void local_definitions_by_workers(const std::filesystem::path& folder, uint64_t longest, const Definitions& definitions, unsigned workers) {
    const auto done = folder / workers_folder;
    std::filesystem::create_directories(done);
    OTF2_Archive* archive = nullptr;
    in_processes(workers, definitions.processes.size(), [&](unsigned worker, size_t process) {
        const auto own = done / fmt::format("worker-{}", worker);
        if (!archive) {
            std::filesystem::create_directories(own);
            archive = create_archive(own, longest).release();
            check_otf2(OTF2_Archive_OpenDefFiles(archive), "local definitions");
        }
        local_definitions(archive, definitions.processes[process]);
        for (const auto& location : definitions.processes[process].locations) {
            const auto name = fmt::format("{}.def", location.id);
            check_whole(own / trace::archive_name / name);
            std::filesystem::rename(own / trace::archive_name / name, done / name);
        }
    });
}

void move_local_definitions(const std::filesystem::path& folder, const Definitions& definitions) {
    for (const auto& process : definitions.processes)
        for (const auto& location : process.locations) {
            const auto name = fmt::format("{}.def", location.id);
            std::filesystem::rename(folder / workers_folder / name, folder / trace::archive_name / name);
        }
}

// `moved`: the local ones were looked at before they were moved.
void check_all_whole(const std::filesystem::path& folder, const Definitions& definitions, bool moved) {
    check_whole(folder / fmt::format("{}.def", trace::archive_name));
    if (!Reader(OTF2_Reader_Open((folder / fmt::format("{}.otf2", trace::archive_name)).c_str())))
        throw std::runtime_error("the archive's anchor cannot be written whole; is the disk full?");
    if (moved) return;
    for (const auto& process : definitions.processes)
        for (const auto& location : process.locations) check_whole(folder / trace::archive_name / fmt::format("{}.def", location.id));
}

void all_local_definitions(OTF2_Archive* archive, const Definitions& definitions) {
    check_otf2(OTF2_Archive_OpenDefFiles(archive), "local definitions");
    for (const auto& process : definitions.processes) local_definitions(archive, process);
    check_otf2(OTF2_Archive_CloseDefFiles(archive), "local definitions");
}

void empty_event_files(OTF2_Archive* archive, const Definitions& definitions) {
    check_otf2(OTF2_Archive_OpenEvtFiles(archive), "event files");
    for (const auto& process : definitions.processes) {
        for (const auto& location : process.locations) {
            if (process.sidecar && !location.left_nothing) continue;
            auto* writer = OTF2_Archive_GetEvtWriter(archive, location.id);
            if (!writer) throw std::runtime_error("OTF2 gives no event writer; raise the limit of open files (ulimit -n)");
            check_otf2(OTF2_Archive_CloseEvtWriter(archive, writer), "event files");
        }
    }
    check_otf2(OTF2_Archive_CloseEvtFiles(archive), "event files");
}

// In bytes, at most.
uint64_t longest_definition(const Definitions& definitions, const Strings& strings) {
    size_t numbers = definitions.processes.size(), text = 0;
    const auto list = [&](size_t size) { numbers = std::max(numbers, size); };
    const auto name = [&](const std::string& value) { text = std::max(text, value.size()); };
    for (const auto& value : strings.values()) name(value);
    for (const auto& ranks : definitions.unified.groups) list(ranks.size());
    for (const auto& comm : definitions.unified.comms) name(comm.name);
    for (const auto& window : definitions.unified.windows) name(window.name);
    for (const auto& region : definitions.unified.regions) name(region.name);
    for (const auto& process : definitions.processes) {
        name(process.host);
        if (process.maps && !process.maps->regions.empty()) list(trace::region_count + process.maps->regions.size());
        for (const auto& location : process.locations) name(location.name);
        if (process.maps)
            for (const auto* ids : {&process.maps->strings, &process.maps->comms, &process.maps->windows}) list(ids->size());
        if (process.sidecar)  // a text of numbers with spaces between them
            for (const auto& [comm, lists] : process.sidecar->neighbours)
                text = std::max(text, 11 * (lists.in.size() + lists.out.size()) + 16);
    }
    // A number takes nine bytes at most, and mapping tables have two for each.
    return 64 + 18 * numbers + text;
}

void fill(OTF2_Archive* archive, const std::filesystem::path& folder, const Definitions& definitions, Strings& strings, unsigned workers) {
    check_otf2(OTF2_Archive_SetCreator(archive, "Poltergeist"), folder);
    for (const auto& [name, value] : definitions.properties) {
        if (value.empty()) continue;  // to OTF2 that means to delete it
        check_otf2(OTF2_Archive_SetProperty(archive, name.c_str(), value.c_str(), true), "property " + name);
    }
    Writer(archive, definitions, strings).write();
    if (workers <= 1) all_local_definitions(archive, definitions);
    empty_event_files(archive, definitions);
}

}  // namespace

void write_definitions(const std::filesystem::path& folder, const Definitions& definitions, Strings& strings, unsigned workers) {
    QuietOtf2 quiet;
    const uint64_t longest = longest_definition(definitions, strings);
    if (workers > 1) local_definitions_by_workers(folder, longest, definitions, workers);
    auto archive = create_archive(folder, longest);
    try {
        fill(archive.get(), folder, definitions, strings, workers);
    } catch (...) {
        // OTF2 frees twice when it closes what it could not write.
        (void)archive.release();
        throw;
    }
    check_otf2(OTF2_Archive_Close(archive.release()), folder);
    if (workers > 1) move_local_definitions(folder, definitions);
    check_all_whole(folder, definitions, workers > 1);
}

}  // namespace polter::seal
