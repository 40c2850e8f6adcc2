// SPDX-License-Identifier: BSD-3-Clause
#include "clock_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <queue>
#include <tuple>

#include "../conventions.hpp"
#include "otf2.hpp"

namespace polter::seal {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t batch = 2048;             // events of a location at a time
constexpr size_t most_under_way = 4u << 20;  // sends without their receive, or the other way round
constexpr auto least_seconds_to_read = std::chrono::seconds(20);
constexpr uint64_t message_bytes_per_second = 8 << 20;

struct Location {
    const Process* process = nullptr;
    uint64_t id = 0;
    uint32_t clock = 0;
    int64_t last = 0;  // time of its latest event
    bool backward = false;
    bool in_collective = false;
    int64_t entered = 0;
    OTF2_EvtReader* reader = nullptr;
};

// Sends and receives of one sender, receiver, communicator and tag, as they come. The n-th receive is matched with the n-th send. Where
// receives were completed in another order, that pairs each with a send that was not later than its own or a receive that was not earlier,
// so that what it says about the clocks stays true.
struct Channel {
    std::deque<int64_t> sent, received;
};

// Of a collective that nobody leaves before all have entered it.
struct Gathering {
    std::map<uint32_t, std::pair<int64_t, int64_t>> by_clock;  // latest to enter, first to leave
    uint32_t members = 0;
};

class Reading {
  public:
    Reading(const Definitions& definitions, HostClocks& hosts) : definitions_(definitions), hosts_(hosts) {}

    // World rank of a member; UINT32_MAX: not followed.
    uint32_t member(const Location& at, uint32_t local_comm, uint32_t rank, uint32_t& comm) const {
        const auto& maps = at.process->maps->comms;
        if (local_comm >= maps.size()) return UINT32_MAX;
        comm = maps[local_comm];
        const auto& definition = definitions_.unified.comms[comm];
        if (definition.remote != UINT32_MAX) return UINT32_MAX;
        if (definition.group == group_world) return rank < definitions_.processes.size() ? rank : UINT32_MAX;
        if (definition.group < first_group) return UINT32_MAX;
        const auto& group = definitions_.unified.groups[definition.group - first_group];
        return rank < group.size() ? group[rank] : UINT32_MAX;
    }
    uint32_t size_of(uint32_t comm) const {
        const auto& definition = definitions_.unified.comms[comm];
        if (definition.remote != UINT32_MAX || definition.group == group_self) return 0;
        if (definition.group == group_world) return static_cast<uint32_t>(definitions_.processes.size());
        return definition.group < first_group ? 0
                                              : static_cast<uint32_t>(definitions_.unified.groups[definition.group - first_group].size());
    }

    void message(Location& at, int64_t time, uint32_t local_comm, uint32_t partner, uint32_t tag, bool send) {
        uint32_t comm = 0;
        const uint32_t other = member(at, local_comm, partner, comm);
        if (other == UINT32_MAX || !hosts_.knows(other) || hosts_.of(other) == at.clock || !alone(other) || !alone(at.process->rank))
            return;
        const uint32_t self = at.process->rank, from = send ? self : other, to = send ? other : self;
        auto& channel = channels_[{comm, from, to, tag}];
        auto& own = send ? channel.sent : channel.received;
        auto& others = send ? channel.received : channel.sent;
        if (others.empty()) {
            own.push_back(time);
            if (++under_way_ > most_under_way) stop("too many messages are under way at once");
            return;
        }
        const int64_t partner_time = others.front();
        others.pop_front();
        --under_way_;
        if (send)
            hosts_.message(hosts_.of(from), time, hosts_.of(to), partner_time);
        else
            hosts_.message(hosts_.of(from), partner_time, hosts_.of(to), time);
    }

    void collective(Location& at, int64_t time, OTF2_CollectiveOp op, uint32_t local_comm, uint64_t sent, uint64_t received) {
        if (!at.in_collective) return;
        at.in_collective = false;
        // One without data need not wait for anybody, but a barrier.
        const bool all_wait =
            op == OTF2_COLLECTIVE_OP_BARRIER ||
            ((op == OTF2_COLLECTIVE_OP_ALLREDUCE || op == OTF2_COLLECTIVE_OP_ALLGATHER || op == OTF2_COLLECTIVE_OP_ALLTOALL) && sent &&
             received);
        const auto& maps = at.process->maps->comms;
        if (local_comm >= maps.size() || trace::thread_of(at.id) != 0) return;
        const uint32_t comm = maps[local_comm], members = size_of(comm);
        if (members < 2) return;
        // All members have one order of the collectives of a communicator, whatever their kind.
        const uint64_t number = collectives_[{comm, at.process->rank}]++;
        auto& gathering = gatherings_[{comm, number}];
        ++gathering.members;
        if (all_wait) {
            auto [entry, fresh] = gathering.by_clock.try_emplace(at.clock, at.entered, time);
            if (!fresh) entry->second = {std::max(entry->second.first, at.entered), std::min(entry->second.second, time)};
        }
        if (gathering.members < members) {
            if (gatherings_.size() > most_under_way / 16) stop("too many collectives are under way at once");
            return;
        }
        // Between the first clock of the group and each other one: more pairs would say the same.
        const auto first = gathering.by_clock.begin();
        for (const auto& [clock, times] : gathering.by_clock) {
            if (clock == first->first) continue;
            hosts_.message(clock, times.first, first->first, first->second.second);
            hosts_.message(first->first, first->second.first, clock, times.second);
        }
        gatherings_.erase({comm, number});
    }

    // More receives than sends of a rank that wrote all of its events: sends are missing, and pairs may be wrong.
    std::string end() {
        if (!stopped_.empty()) return stopped_;
        for (const auto& [key, channel] : channels_) {
            const auto& sender = definitions_.processes[std::get<1>(key)];
            if (!channel.received.empty() && sender.sidecar && sender.sidecar->final && !sender.sidecar->final->tracing_ended_ns)
                return fmt::format("rank {} received messages of rank {} whose sending is not recorded", std::get<2>(key),
                                   std::get<1>(key));
        }
        return {};
    }
    void stop(const char* why) { stopped_ = why; }
    bool stopped() const { return !stopped_.empty(); }

  private:
    // Threads of one rank that call MPI share channels, and their events are not read in order.
    bool alone(uint32_t rank) const {
        const Process& process = definitions_.processes[rank];
        return process.locations.size() == 1 || (process.sidecar && process.sidecar->one_thread_calls);
    }

    const Definitions& definitions_;
    HostClocks& hosts_;
    std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, Channel> channels_;
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> collectives_;
    std::map<std::pair<uint32_t, uint64_t>, Gathering> gatherings_;
    size_t under_way_ = 0;
    std::string stopped_;
};

struct Callback {
    Reading* reading;
    std::map<uint64_t, Location*> locations;
};

// The location and the time of an event; interrupts where time goes back, as OTF2's reader may go round for ever there.
template <typename Use>
OTF2_CallbackCode on(OTF2_LocationRef id, OTF2_TimeStamp time, void* user, Use use) {
    auto& callback = *static_cast<Callback*>(user);
    Location& at = *callback.locations.at(id);
    const auto ns = static_cast<int64_t>(time);
    if (ns < at.last) {
        at.backward = true;
        return OTF2_CALLBACK_INTERRUPT;
    }
    at.last = ns;
    use(*callback.reading, at, ns);
    return callback.reading->stopped() ? OTF2_CALLBACK_INTERRUPT : OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_send(OTF2_LocationRef id, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, uint32_t to,
                          OTF2_CommRef comm, uint32_t tag, uint64_t) {
    return on(id, time, user, [&](Reading& reading, Location& at, int64_t ns) { reading.message(at, ns, comm, to, tag, true); });
}
OTF2_CallbackCode on_isend(OTF2_LocationRef id, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, uint32_t to,
                           OTF2_CommRef comm, uint32_t tag, uint64_t, uint64_t) {
    return on(id, time, user, [&](Reading& reading, Location& at, int64_t ns) { reading.message(at, ns, comm, to, tag, true); });
}
OTF2_CallbackCode on_receive(OTF2_LocationRef id, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, uint32_t from,
                             OTF2_CommRef comm, uint32_t tag, uint64_t) {
    return on(id, time, user, [&](Reading& reading, Location& at, int64_t ns) { reading.message(at, ns, comm, from, tag, false); });
}
OTF2_CallbackCode on_ireceive(OTF2_LocationRef id, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, uint32_t from,
                              OTF2_CommRef comm, uint32_t tag, uint64_t, uint64_t) {
    return on(id, time, user, [&](Reading& reading, Location& at, int64_t ns) { reading.message(at, ns, comm, from, tag, false); });
}
OTF2_CallbackCode on_collective_begin(OTF2_LocationRef id, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*) {
    return on(id, time, user, [&](Reading&, Location& at, int64_t ns) {
        at.in_collective = true;
        at.entered = ns;
    });
}
OTF2_CallbackCode on_collective_end(OTF2_LocationRef id, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*,
                                    OTF2_CollectiveOp op, OTF2_CommRef comm, uint32_t, uint64_t sent, uint64_t received) {
    return on(id, time, user, [&](Reading& reading, Location& at, int64_t ns) { reading.collective(at, ns, op, comm, sent, received); });
}
OTF2_CallbackCode on_enter(OTF2_LocationRef id, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, OTF2_RegionRef) {
    return on(id, time, user, [](Reading&, Location&, int64_t) {});
}

// Reads a batch of the location that is behind, by the corrected time.
std::string read_all(const ClockSources& sources, const Definitions& definitions, HostClocks& hosts) {
    Reading reading(definitions, hosts);
    Callback callback{&reading, {}};
    std::vector<std::unique_ptr<Location>> locations;
    std::vector<File> files;
    std::vector<std::pair<uint64_t, const File*>> framed;
    for (const auto& process : definitions.processes) {
        if (!process.sidecar || !process.maps) continue;
        for (const auto& location : process.locations) {
            if (!location.events) continue;
            files.push_back(sources.event_file(process, location.id));
            locations.push_back(
                std::make_unique<Location>(Location{.process = &process, .id = location.id, .clock = hosts.of(process.rank)}));
            callback.locations[location.id] = locations.back().get();
        }
    }
    for (size_t i = 0; i < files.size(); ++i) framed.emplace_back(locations[i]->id, &files[i]);
    const auto folder = sources.work / "clocks";
    frame_locations(folder, framed);
    Reader reader(OTF2_Reader_Open((folder / "traces.otf2").c_str()));
    if (!reader || OTF2_Reader_SetSerialCollectiveCallbacks(reader.get()) != OTF2_SUCCESS) return "OTF2 cannot read the events";
    for (const auto& location : locations) OTF2_Reader_SelectLocation(reader.get(), location->id);
    if (OTF2_Reader_OpenEvtFiles(reader.get()) != OTF2_SUCCESS) return "OTF2 cannot read the events";
    auto* callbacks = OTF2_EvtReaderCallbacks_New();
    OTF2_EvtReaderCallbacks_SetMpiSendCallback(callbacks, on_send);
    OTF2_EvtReaderCallbacks_SetMpiIsendCallback(callbacks, on_isend);
    OTF2_EvtReaderCallbacks_SetMpiRecvCallback(callbacks, on_receive);
    OTF2_EvtReaderCallbacks_SetMpiIrecvCallback(callbacks, on_ireceive);
    OTF2_EvtReaderCallbacks_SetMpiCollectiveBeginCallback(callbacks, on_collective_begin);
    OTF2_EvtReaderCallbacks_SetMpiCollectiveEndCallback(callbacks, on_collective_end);
    OTF2_EvtReaderCallbacks_SetEnterCallback(callbacks, on_enter);
    OTF2_EvtReaderCallbacks_SetLeaveCallback(callbacks, on_enter);
    using Next = std::pair<int64_t, Location*>;
    std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
    for (const auto& location : locations) {
        location->reader = OTF2_Reader_GetEvtReader(reader.get(), location->id);
        if (!location->reader) return "OTF2 cannot read the events";
        OTF2_Reader_RegisterEvtCallbacks(reader.get(), location->reader, callbacks, &callback);
        queue.emplace(0, location.get());
    }
    OTF2_EvtReaderCallbacks_Delete(callbacks);
    while (!queue.empty() && !reading.stopped()) {
        Location& next = *queue.top().second;
        queue.pop();
        uint64_t read = 0;
        const auto code = OTF2_Reader_ReadLocalEvents(reader.get(), next.reader, batch, &read);
        if (next.backward || (code != OTF2_SUCCESS && code != OTF2_ERROR_INTERRUPTED_BY_CALLBACK)) return "a rank's events cannot be read";
        if (read < batch) continue;
        const auto& correction = hosts.corrections()[next.clock];
        queue.emplace(next.last + (correction ? correction->at(next.last) : 0), &next);
    }
    return reading.end();
}

// From the child to its parent.
void write_pairs(const fs::path& path, const HostClocks& hosts, const std::string& why) {
    FILE* out = std::fopen(path.c_str(), "w");
    if (!out) throw std::runtime_error("no file for the result");
    if (!why.empty()) fmt::print(out, "why {}\n", why);
    for (const auto& [ends, constraints] : hosts.message_pairs())
        for (const auto& point : constraints.points())
            fmt::print(out, "{} {} {} {} {}\n", ends.first, ends.second, point.time, point.offset, point.upper ? 1 : 0);
    fmt::print(out, "end\n");
    if (std::fclose(out) != 0) throw std::runtime_error("no room for the result");
}

std::string read_pairs(const fs::path& path, HostClocks& hosts) {
    std::string why = "OTF2's reader did not come to an end";
    FILE* in = std::fopen(path.c_str(), "r");
    char line[512];
    std::string said;
    std::map<std::pair<uint32_t, uint32_t>, std::vector<clocks::Point>> pairs;
    while (in && std::fgets(line, sizeof line, in)) {
        uint32_t own = 0, reference = 0;
        long long time = 0, offset = 0;
        int upper = 0;
        const std::string text = line;
        if (text.starts_with("why ")) said = text.substr(4, text.size() - 5);
        if (text == "end\n") why = said;
        if (std::sscanf(line, "%u %u %lld %lld %d", &own, &reference, &time, &offset, &upper) == 5)
            pairs[{own, reference}].push_back({time, offset, upper != 0});
    }
    if (in) std::fclose(in);
    if (why.empty())
        for (const auto& [ends, points] : pairs) hosts.add_points(ends.first, ends.second, points);
    return why;
}

}  // namespace

std::string read_clock_messages(const ClockSources& sources, const Definitions& definitions, HostClocks& hosts) {
    uint64_t events = 0;
    for (const auto& process : definitions.processes)
        for (const auto& location : process.locations) events += location.events;
    const auto result = sources.work / "clocks.txt";
    fs::create_directories(sources.work);
    fs::remove(result);
    in_child(least_seconds_to_read + std::chrono::seconds(32 * events / message_bytes_per_second), [&] {
        QuietOtf2 quiet;
        const std::string why = read_all(sources, definitions, hosts);
        if (!why.empty()) hosts.drop_messages();
        write_pairs(result, hosts, why);
    });
    const std::string why = read_pairs(result, hosts);
    fs::remove(result);
    fs::remove_all(sources.work / "clocks");
    return why;
}

}  // namespace polter::seal
