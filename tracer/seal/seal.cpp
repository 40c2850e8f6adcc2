// SPDX-License-Identifier: BSD-3-Clause
#include "seal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mpi_regions.hpp>
#include <optional>
#include <set>
#include <system_error>

#include "../conventions.hpp"
#include "../write/own_part.hpp"
#include "call_sites/call_sites.hpp"
#include "chunks.hpp"
#include "clock_messages.hpp"
#include "definitions.hpp"
#include "events.hpp"
#include "folder.hpp"
#include "host_clocks.hpp"
#include "provenance.hpp"
#include "sidecar.hpp"
#include "user.hpp"
#include "workers.hpp"
#include "worlds.hpp"

namespace polter::seal {
namespace fs = std::filesystem;
namespace {

constexpr const char* work_folder = ".sealing";

// The experiment, and below it what is being made. `work` is private and reached by its descriptor, so the paths below it are safe to
// give to OTF2.
struct Places {
    Folder experiment;
    std::optional<Folder> ranks, work;
    fs::path fresh, salvaged, read;

    explicit Places(Folder&& at) : experiment(std::move(at)), ranks(experiment.sub(trace::ranks_folder)) {}
    void begin() {
        work = experiment.make_private(work_folder);
        const fs::path reach = work->reach();
        fresh = reach / "archive";
        salvaged = reach / "salvaged";
        read = reach / "read";
    }
    std::string shown_ranks() const { return experiment.shown(trace::ranks_folder); }
};

std::string file_of(const char* suffix) {
    return fmt::format("{}.{}", trace::archive_name, suffix);
}

bool sealed(const Folder& experiment) {
    return experiment.has(file_of("otf2"));
}

// OTF2 keeps a file open for each location.
void raise_open_files() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

std::vector<Sidecar> read_ranks(const Places& places, unsigned workers, Report& report) {
    std::vector<Sidecar> ranks;
    if (!places.ranks) return ranks;
    struct Read {
        std::optional<Sidecar> rank;
        std::string why;  // a warning
    };
    const auto names = places.ranks->folders();
    std::vector<Read> all(names.size());
    in_threads(workers_for(names.size(), workers), names.size(), [&](size_t i) {
        const auto folder = places.ranks->sub(names[i]);
        if (!folder) return;
        auto& read = all[i];
        read.rank = read_sidecar(*folder, read.why);
        if (!read.rank) return;
        read.rank->folder = names[i];
        if (read.rank->bad_lines) read.why = fmt::format("{}: {} lines cannot be read", folder->shown(), read.rank->bad_lines);
    });
    for (auto& read : all) {
        if (read.rank) ranks.push_back(std::move(*read.rank));
        if (!read.why.empty()) report.warnings.push_back(std::move(read.why));
    }
    return ranks;
}

// One MPI_COMM_WORLD: the others have got folders of their own, where that was possible.
std::vector<Sidecar> one_world(std::vector<Sidecar> ranks, Report& report) {
    auto worlds = worlds_of(std::move(ranks));
    if (worlds.size() > 1)
        report.warnings.push_back(
            fmt::format("{} MPI jobs ran, and could not be made experiments of their own: only the first is in the trace", worlds.size()));
    return std::move(worlds.front());
}

EventLimits limits_of(const Sidecar& rank) {
    EventLimits limits;
    limits.regions = static_cast<uint32_t>(trace::region_count + rank.regions.size());
    limits.strings = static_cast<uint32_t>(rank.strings.size());
    limits.counters = static_cast<uint32_t>(rank.counters.size());
    limits.call_sites = static_cast<uint32_t>(rank.call_sites.size());
    for (const auto& [id, comm] : rank.comms) {
        if (limits.comms.size() <= id) limits.comms.resize(id + 1);
        limits.comms[id] = true;
    }
    for (const auto& [id, window] : rank.windows) {
        if (limits.windows.size() <= id) limits.windows.resize(id + 1);
        limits.windows[id] = true;
    }
    return limits;
}

struct LocationEvents {
    uint64_t events = 0, first_ns = 0, last_ns = 0;
    bool nothing = false;     // there is no file of it
    bool unfinished = false;  // its rank did not end as it should have
};

// Makes sure that the location's event file is a whole one at its place in the archive or in the rank's folder. `work`: a folder's name for
// what is in between; nobody else uses it.
LocationEvents settle_location(const Places& places, const fs::path& work, const Sidecar& rank, const SidecarLocation& location) {
    const auto name = fmt::format("{}.evt", location.id);
    const auto folder = places.ranks->sub(rank.folder);
    const auto left = folder ? folder->sub(trace::archive_name) : std::nullopt;
    File events_file = left ? left->open_file(name) : File();
    if (!events_file)  // an interrupted sealing has moved it
        if (const auto archive = places.experiment.sub(trace::archive_name)) events_file = archive->open_file(name);
    if (rank.final) {
        auto said = rank.final->events.find(location.id);
        auto events = said == rank.final->events.end() ? 0 : said->second;
        if (events_file && count_closed_events(events_file) == events) {
            LocationEvents out{events, 0, 0};
            if (events == 0) return out;
            if (auto times = rank.final->times.find(location.id); times != rank.final->times.end()) {
                out.first_ns = times->second.first;
                out.last_ns = times->second.second;
                return out;
            }
            auto summary = scan_events(events_file, location.id, limits_of(rank), work);
            if (summary.events == events) return {events, summary.first_ns, summary.last_ns};
        }
    }
    const File tail = folder ? folder->open_file(fmt::format("{}.tail", location.id)) : File();
    if (!events_file && !tail) return {.nothing = true, .unfinished = true};
    fs::create_directories(work);
    const auto joined = work / "joined.evt";
    join_chunks(events_file, tail, joined);
    auto summary =
        rewrite_events(File(open(joined.c_str(), O_RDONLY | O_CLOEXEC)), location.id, limits_of(rank), work, places.salvaged / name);
    fs::remove(joined);
    return {summary.events, summary.first_ns, summary.last_ns, false, true};
}

// Of all ranks, in the order of `ranks` and of their locations.
class Settled {
  public:
    Settled(const Places& places, const std::vector<Sidecar>& ranks, const std::vector<std::vector<SidecarLocation>>& locations,
            unsigned workers)
        : first_(begins(locations)), events_(first_.back()) {
        in_processes(workers, ranks.size(), [&](unsigned worker, size_t rank) {
            const auto work = places.read / std::to_string(worker);
            for (size_t i = 0; i < locations[rank].size(); ++i)
                events_[first_[rank] + i] = settle_location(places, work, ranks[rank], locations[rank][i]);
        });
    }
    const LocationEvents& of(size_t rank, size_t location) { return events_[first_[rank] + location]; }

  private:
    static std::vector<size_t> begins(const std::vector<std::vector<SidecarLocation>>& locations) {
        std::vector<size_t> first{0};
        for (const auto& of_rank : locations) first.push_back(first.back() + of_rank.size());
        return first;
    }
    std::vector<size_t> first_;
    SharedArray<LocationEvents> events_;
};

std::vector<SidecarLocation> locations_of(const Sidecar& rank) {
    auto locations = rank.locations;
    // A rank that died before it could name its first thread, or whose line was torn.
    if (std::none_of(locations.begin(), locations.end(), [&](const auto& location) { return location.id == rank.rank; }))
        locations.push_back({rank.rank, 0, fmt::format("MPI Rank {}", rank.rank)});
    std::sort(locations.begin(), locations.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    return locations;
}

std::string joined_ids(const std::vector<uint32_t>& ids) {
    return fmt::format("{}", fmt::join(ids, ","));
}

// The paths come from the experiment: those that another user may have named are not opened.
void add_call_sites(const Places& places, bool asked, Definitions& definitions, Report& report) {
    const bool opened = asked && places.experiment.owner() == geteuid();
    auto named = name_call_sites(definitions.unified.objects, definitions.unified.call_sites, opened);
    definitions.call_sites = std::move(named.names);
    if (!named.warning.empty()) report.warnings.push_back(named.warning);
}

void gather(const Places& places, const std::vector<Sidecar>& ranks, unsigned workers, Definitions& definitions, Report& report) {
    std::map<uint32_t, size_t> by_rank;
    std::vector<std::vector<SidecarLocation>> locations;
    for (size_t i = 0; i < ranks.size(); ++i) {
        by_rank[ranks[i].rank] = i;
        locations.push_back(locations_of(ranks[i]));
    }
    Settled settled(places, ranks, locations, workers);
    bool any = false;
    for (uint32_t r = 0; r < report.size; ++r) {
        Process process;
        process.rank = r;
        auto at = by_rank.find(r);
        if (at == by_rank.end()) {
            report.missing.push_back(r);
            process.host = "unknown";
            process.locations.push_back({r, 0, fmt::format("MPI Rank {} (missing)", r), true});
            definitions.processes.push_back(std::move(process));
            continue;
        }
        const auto& rank = ranks[at->second];
        process.host = rank.host;
        process.sidecar = &rank;
        bool unfinished = !rank.final;
        for (size_t i = 0; i < locations[at->second].size(); ++i) {
            const auto& location = locations[at->second][i];
            const auto& events = settled.of(at->second, i);
            unfinished = unfinished || events.unfinished;
            process.locations.push_back({location.id, events.events, location.name, events.nothing, events.first_ns, events.last_ns});
            report.events += events.events;
            if (!events.events) continue;
            definitions.first_ns = any ? std::min(definitions.first_ns, events.first_ns) : events.first_ns;
            definitions.last_ns = any ? std::max(definitions.last_ns, events.last_ns) : events.last_ns;
            any = true;
        }
        if (unfinished) report.unfinished.push_back(r);
        definitions.processes.push_back(std::move(process));
    }
}

// The hosts' clocks: by what their leaders exchanged, then by the messages of the trace.
void correct_clocks(const Places& places, std::vector<Sidecar>& ranks, Definitions& definitions, Report& report) {
    HostClocks hosts(ranks, definitions);
    if (hosts.count() > 1) {
        hosts.correct();
        const auto event_file = [&](const Process& process, uint64_t location) {
            const auto name = fmt::format("{}.evt", location);
            if (fs::exists(places.salvaged / name)) return File(open((places.salvaged / name).c_str(), O_RDONLY | O_CLOEXEC));
            const auto folder = places.ranks->sub(process.sidecar->folder);
            const auto left = folder ? folder->sub(trace::archive_name) : std::nullopt;
            if (left && left->has(name)) return left->open_file(name);
            const auto archive = places.experiment.sub(trace::archive_name);  // an interrupted sealing has moved it
            return archive ? archive->open_file(name) : File();
        };
        const auto why = read_clock_messages({event_file, places.read}, definitions, hosts);
        if (!why.empty())
            report.warnings.push_back(fmt::format("the clocks of the hosts were corrected without the messages of the trace: {}", why));
    }
    add_corrections(hosts, ranks, definitions, report);
}

// The anchor last: until it is there the experiment counts as not sealed, and all this can be done again.
void put_in_place(const Places& places, const Definitions& definitions) {
    const Folder archive = places.experiment.make(trace::archive_name);
    const auto fresh_files = places.fresh / trace::archive_name;
    for (const auto& process : definitions.processes) {
        const auto folder = process.sidecar ? places.ranks->sub(process.sidecar->folder) : std::nullopt;
        const auto left = folder ? folder->sub(trace::archive_name) : std::nullopt;
        for (const auto& location : process.locations) {
            auto name = fmt::format("{}.evt", location.id);
            if (fs::exists(places.salvaged / name)) {
                archive.take(places.salvaged / name, name);
            } else if (fs::exists(fresh_files / name)) {
                archive.take(fresh_files / name, name);
            } else if (left && left->has(name)) {
                left->move_to(name, archive);
            }
            name = fmt::format("{}.def", location.id);
            archive.take(fresh_files / name, name);
        }
    }
    for (const char* suffix : {"def", "otf2"}) places.experiment.take(places.fresh / file_of(suffix), file_of(suffix));
}

void tidy(const Folder& experiment) {
    experiment.remove(work_folder);
    experiment.remove(trace::ranks_folder);
    experiment.remove(trace::clocks_folder);
}

// `report` may have warnings already.
Report seal_ranks(const Options& options, Places& places, std::vector<Sidecar> found, Report report) {
    if (found.empty()) {
        auto why = report.warnings.empty() ? fmt::format("{}: no rank left anything there", places.shown_ranks()) : report.warnings.front();
        throw NoRanks(why);
    }
    auto ranks = one_world(std::move(found), report);
    report.ranks = static_cast<uint32_t>(ranks.size());
    report.size = ranks.front().size;
    // The size is one process's word; a world of which nearly nothing is there would be all invention.
    constexpr uint32_t most_missing_factor = 64, most_missing = 1024;
    if (report.size > report.ranks * most_missing_factor + most_missing) {
        report.warnings.push_back(
            fmt::format("only {} of {} ranks left anything: the others are not in the trace", report.ranks, report.size));
        report.size = ranks.back().rank + 1;
        if (report.size > report.ranks * most_missing_factor + most_missing)
            throw Error(fmt::format("{}: {} ranks of {} left anything, too few to make a trace of", places.shown_ranks(), report.ranks,
                                    ranks.front().size));
    }
    places.begin();
    fs::create_directories(places.fresh);

    Definitions definitions;
    Strings strings;
    definitions.unified = unify(ranks, strings);
    for (auto& warning : definitions.unified.warnings) report.warnings.push_back(warning);
    const unsigned workers = workers_for(ranks.size(), options.workers);
    gather(places, ranks, workers, definitions, report);
    for (auto& process : definitions.processes)
        if (process.sidecar) process.maps = &definitions.unified.maps[static_cast<size_t>(process.sidecar - ranks.data())];
    correct_clocks(places, ranks, definitions, report);
    add_totals(ranks, report, definitions.properties);
    add_end(ranks, options.exporter_ended_ns, definitions, report);
    add_names(ranks, definitions.properties);
    add_detail_off(ranks, report, definitions.properties);
    add_call_sites(places, options.call_sites, definitions, report);
    if (!report.missing.empty())
        report.warnings.push_back(
            fmt::format("{} of {} ranks left nothing: {}", report.missing.size(), report.size, joined_ids(report.missing)));
    definitions.properties[trace::property::incomplete] = report.missing.empty() && report.unfinished.empty() ? "no" : "yes";
    definitions.properties[trace::property::ranks_unfinished] = joined_ids(report.unfinished);
    definitions.properties[trace::property::ranks_missing] = joined_ids(report.missing);
    definitions.properties[trace::property::command] = options.command;
    definitions.properties[trace::property::warnings] = fmt::format("{}", fmt::join(report.warnings, "\n"));
    write_definitions(places.fresh, definitions, strings, workers);
    put_in_place(places, definitions);
    report.first_ns = definitions.first_ns;
    report.last_ns = definitions.last_ns;
    report.properties = std::move(definitions.properties);
    return report;
}

// One that fails does not take the others with it.
std::vector<Further> seal_further(const Options& options, const Folder& experiment) {
    std::vector<Further> out;
    for (const auto& name : further_jobs(experiment)) {
        auto folder = experiment.sub(name);
        if (!folder || sealed(*folder) || !folder->has(trace::ranks_folder)) continue;  // or the job has made one of that name
        Further further{name, {}, {}};
        try {
            Places places(std::move(*folder));
            Report begun;
            auto found = read_ranks(places, options.workers, begun);
            further.report = seal_ranks(options, places, std::move(found), std::move(begun));
            tidy(places.experiment);
        } catch (const std::exception& error) {
            further.failed = error.what();
        }
        out.push_back(std::move(further));
    }
    return out;
}

Report seal_folder(const Options& options, Folder&& experiment) {
    if (sealed(experiment)) {
        tidy(experiment);
        Report report;
        report.already_sealed = true;
        return report;
    }
    raise_open_files();
    Places places(std::move(experiment));
    Report begun;
    auto found = read_ranks(places, options.workers, begun);
    if (auto worlds = worlds_of(std::move(found)); worlds.empty())
        found.clear();
    else
        found = set_apart(places.experiment, *places.ranks, std::move(worlds));
    // Before the anchor of this one: until that is there all can be done again.
    auto further = seal_further(options, places.experiment);
    auto report = seal_ranks(options, places, std::move(found), std::move(begun));
    report.further = std::move(further);
    tidy(places.experiment);
    return report;
}

std::string user(uid_t id) {
    const passwd* entry = getpwuid(id);
    return entry ? entry->pw_name : fmt::format("user {}", id);
}

}  // namespace

bool is_sealed(const fs::path& experiment) {
    return fs::exists(experiment / file_of("otf2"));
}

Report seal(const Options& options) {
    const write::OwnPart no_signal;  // a file limit is an error as a full disk is
    try {
        auto experiment = Folder::open(options.experiment);
        const auto owner = experiment.owner();
        if (sealed(experiment) || owner == geteuid() || options.foreign == Foreign::own_rights)
            return seal_folder(options, std::move(experiment));
        if (options.foreign == Foreign::refuse)
            throw Error(
                fmt::format("{}: was never sealed and belongs to {}; sealing writes into it: let {} do it, or replay it with "
                            "--seal-foreign",
                            options.experiment.string(), user(owner), user(owner)));
        if (geteuid() != 0) return seal_folder(options, std::move(experiment));
        as_user(owner, [&] { seal_folder(options, std::move(experiment)); });
        return {};
    } catch (const fs::filesystem_error& error) {  // its paths are descriptors
        throw Error(fmt::format("{}: the trace cannot be put together: {}", options.experiment.string(), error.code().message()));
    } catch (const std::system_error& error) {
        throw Error(fmt::format("{}: the trace cannot be put together: {}", options.experiment.string(), error.what()));
    } catch (const Error&) {
        throw;
    } catch (const std::runtime_error& error) {
        throw Error(fmt::format("{}: the trace cannot be put together: {}", options.experiment.string(), error.what()));
    }
}

}  // namespace polter::seal
