// SPDX-License-Identifier: BSD-3-Clause
#include "timeline_reader.hpp"

#include <algorithm>
#include <memory>
#include <tuple>
#include <unordered_map>

#include "noise_intervals.hpp"
#include "replay/base/error.hpp"
#include "replay/trace/metric_value.hpp"

namespace polter::exports {

namespace {

using replay::Archive;
using replay::Definitions;
using Callbacks = std::unique_ptr<OTF2_EvtReaderCallbacks, decltype(&OTF2_EvtReaderCallbacks_Delete)>;
using Kind = Record::Kind;

// One location while it is read.
struct Reading {
    const Definitions* definitions = nullptr;
    const Selection* selection = nullptr;
    Sink* sink = nullptr;
    ReadResult* result = nullptr;
    Place place;
    int64_t origin = 0;

    int64_t now = std::numeric_limits<int64_t>::min() / 2, last_call = now;
    bool damaged = false, begun = false, ended = false;  // begun, ended: the window
    std::vector<uint32_t> open = {};                     // regions
    size_t shown = 0;                                    // of them, those that the sink has entered
    NoiseIntervals noise = {};
    std::vector<NoiseSlice> placed = {};                      // since the last call
    std::unordered_map<uint64_t, uint32_t> partitioned = {};  // by request: of receives that are posted
    std::vector<int64_t> totals = {};                         // by account; -1: no record yet
    std::vector<double> counters = {};                        // their values

    // False: no possible time.
    bool advance(uint64_t ticks) {
        const auto distance = static_cast<int64_t>(ticks - definitions->global_offset);
        const int64_t time = replay::ticks_in_ns(distance, definitions->ticks_per_second);
        if (time > replay::most_ns || time < -replay::most_ns) return !(damaged = true);
        now = std::max(now, time - origin);
        if (!begun && now >= selection->begin) {
            begun = true;
            for (const uint32_t region : open) show(selection->begin, region);
        }
        if (!ended && now > selection->end) close(selection->end);
        return true;
    }
    bool inside() const { return begun && !ended; }
    void show(int64_t time, uint32_t region) {
        sink->enter(time, region, definitions->kind(region) != replay::CallKind::not_mpi);
        ++shown;
    }
    // Noise that abuts is told in the order of time, so that on a track one slice ends before the next one begins.
    void give_noise() {
        std::sort(placed.begin(), placed.end(), [](const NoiseSlice& a, const NoiseSlice& b) { return a.begin < b.begin; });
        for (const NoiseSlice& slice : placed) sink->noise(slice);
        placed.clear();
    }
    void close(int64_t time) {
        ended = true;
        for (; shown > 0; --shown) sink->leave(time);
    }
    void enter(uint32_t region) {
        give_noise();
        open.push_back(region);
        last_call = now;
        if (inside()) show(now, region);
    }
    void leave() {
        give_noise();
        last_call = now;
        if (open.empty()) return;
        open.pop_back();
        if (!inside()) return;
        sink->leave(now);
        --shown;
    }

    int32_t world_rank(uint32_t comm, uint32_t peer) const {
        const auto found = definitions->communicators.find(comm);
        if (found == definitions->communicators.end()) return replay::no_rank;
        const replay::Communicator& members = found->second;
        if (members.self) return place.rank;
        // Of an intercommunicator, the group that this rank is not in.
        const bool remote =
            !members.remote.empty() && std::find(members.ranks.begin(), members.ranks.end(), place.rank) != members.ranks.end();
        const auto& list = remote ? members.remote : members.ranks;
        return peer < list.size() ? list[peer] : replay::no_rank;
    }
    void give(Record record) {
        record.time = now;
        record.inside = inside();
        sink->record(record);
    }

    void metric(uint32_t metric, uint8_t count, const OTF2_Type* types, const OTF2_MetricValue* values, uint32_t culprit, uint64_t ago);
    void account(const replay::MetricSlot&, int64_t value, uint32_t culprit, uint64_t ago);
};

void Reading::metric(uint32_t metric, uint8_t count, const OTF2_Type* types, const OTF2_MetricValue* values, uint32_t culprit,
                     uint64_t ago) {
    if (const auto found = definitions->metrics.find(metric); found != definitions->metrics.end())
        for (size_t i = 0; i < std::min<size_t>(count, found->second.size()); ++i)
            if (const auto& slot = found->second[i]; slot.account >= 0)
                account(slot, replay::metric_ns(slot, types[i], values[i]), culprit, ago);
    const auto found = definitions->counter_slots.find(metric);
    if (found == definitions->counter_slots.end()) return;
    for (size_t i = 0; i < std::min<size_t>(count, found->second.size()); ++i) {
        if (found->second[i] < 0) continue;
        const auto index = static_cast<size_t>(found->second[i]);
        const replay::Counter& counter = definitions->counters[index];
        const double raw = types[i] == OTF2_TYPE_DOUBLE  ? values[i].floating_point
                           : types[i] == OTF2_TYPE_INT64 ? static_cast<double>(values[i].signed_int)
                                                         : static_cast<double>(values[i].unsigned_int);
        double& value = counters[index];
        value = counter.increment ? value + raw * counter.scale : raw * counter.scale;
        if (inside()) sink->counter(now, index, value);
    }
}

void Reading::account(const replay::MetricSlot& slot, int64_t value, uint32_t culprit, uint64_t ago) {
    if (value < 0) return;
    int64_t ns = value;
    if (!slot.increment) {
        int64_t& before = totals[static_cast<size_t>(slot.account)];
        ns = before < 0 ? 0 : value - before;  // the first record is the baseline
        before = value;
    }
    if (ns <= 0) return;
    const int64_t end = replay::noise_ended(now, ago, definitions->ticks_per_second);
    const bool late = ago > 0 || end <= last_call;
    const int64_t floor = late ? end - ns - NoiseIntervals::remembered_ns : last_call;
    result->noise_without_room_ns += noise.place(end, ns, floor, late, [&](int64_t from, int64_t to) {
        const int64_t cut_from = std::max(from, selection->begin), cut_to = std::min(to, selection->end);
        if (cut_from < cut_to) placed.push_back({cut_from, cut_to, slot.account, culprit});
    });
}

bool has(const OTF2_AttributeList* list, uint32_t attribute) {
    return list && attribute != UINT32_MAX && OTF2_AttributeList_TestAttributeByID(list, attribute);
}

// What OTF2 calls. Each is an ordinary C callback.
struct Events {
    static Reading* at(void* user, OTF2_TimeStamp time) {
        auto* reading = static_cast<Reading*>(user);
        return reading->advance(time) ? reading : nullptr;
    }
    static OTF2_CallbackCode message(void* user, OTF2_TimeStamp time, OTF2_AttributeList* list, Record record, uint32_t peer) {
        Reading* r = at(user, time);
        if (!r) return OTF2_CALLBACK_INTERRUPT;
        record.peer = r->world_rank(record.comm, peer);
        if (has(list, r->definitions->partitioned)) OTF2_AttributeList_GetUint32(list, r->definitions->partitioned, &record.partitioned);
        // The posting says it, and the completion may not.
        if (record.kind == Kind::post && record.partitioned > 0) r->partitioned[record.request] = record.partitioned;
        if (record.kind == Kind::irecv)
            if (const auto posted = r->partitioned.extract(record.request); !posted.empty()) record.partitioned = posted.mapped();
        r->give(record);
        return OTF2_CALLBACK_SUCCESS;
    }
    static OTF2_CallbackCode other(void* user, OTF2_TimeStamp time, const Record& record) {
        Reading* r = at(user, time);
        if (!r) return OTF2_CALLBACK_INTERRUPT;
        r->give(record);
        return OTF2_CALLBACK_SUCCESS;
    }

    static OTF2_CallbackCode enter(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, uint32_t region) {
        Reading* r = at(user, time);
        if (!r) return OTF2_CALLBACK_INTERRUPT;
        r->enter(region);
        return OTF2_CALLBACK_SUCCESS;
    }
    static OTF2_CallbackCode leave(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList* list, uint32_t region) {
        Reading* r = at(user, time);
        if (!r) return OTF2_CALLBACK_INTERRUPT;
        // Collectives of files and neighbours have no record but this.
        const auto kind = r->definitions->kind(region);
        if ((kind == replay::CallKind::file || kind == replay::CallKind::neighbourhood) && has(list, r->definitions->comm))
            r->give({.kind = Kind::unknown});
        r->leave();
        return OTF2_CALLBACK_SUCCESS;
    }
    static OTF2_CallbackCode send(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList* list, uint32_t peer,
                                  OTF2_CommRef comm, uint32_t tag, uint64_t bytes) {
        return message(user, time, list, {.kind = Kind::send, .comm = comm, .tag = tag, .bytes = bytes}, peer);
    }
    static OTF2_CallbackCode isend(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList* list, uint32_t peer,
                                   OTF2_CommRef comm, uint32_t tag, uint64_t bytes, uint64_t request) {
        return message(user, time, list, {.kind = Kind::isend, .comm = comm, .tag = tag, .bytes = bytes, .request = request}, peer);
    }
    static OTF2_CallbackCode isend_complete(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*,
                                            uint64_t request) {
        return other(user, time, {.kind = Kind::isend_complete, .request = request});
    }
    static OTF2_CallbackCode post(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList* list, uint64_t request) {
        const Definitions& d = *static_cast<Reading*>(user)->definitions;
        Record record{.kind = Kind::post, .request = request};
        int32_t source = -1, tag = -1;
        if (has(list, d.source) && has(list, d.tag) && has(list, d.comm)) {
            OTF2_AttributeList_GetInt32(list, d.source, &source);
            OTF2_AttributeList_GetInt32(list, d.tag, &tag);
            OTF2_AttributeList_GetCommRef(list, d.comm, &record.comm);
        }
        record.known = source >= 0 && tag >= 0;
        record.tag = static_cast<uint32_t>(tag);
        return message(user, time, list, record, static_cast<uint32_t>(source));
    }
    static OTF2_CallbackCode receive(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList* list, uint32_t peer,
                                     OTF2_CommRef comm, uint32_t tag, uint64_t bytes) {
        return message(user, time, list, {.kind = Kind::receive, .comm = comm, .tag = tag, .bytes = bytes}, peer);
    }
    static OTF2_CallbackCode irecv(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList* list, uint32_t peer,
                                   OTF2_CommRef comm, uint32_t tag, uint64_t bytes, uint64_t request) {
        return message(user, time, list, {.kind = Kind::irecv, .comm = comm, .tag = tag, .bytes = bytes, .request = request}, peer);
    }
    static OTF2_CallbackCode cancelled(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, uint64_t request) {
        return other(user, time, {.kind = Kind::cancelled, .request = request});
    }
    static OTF2_CallbackCode collective(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*,
                                        OTF2_CollectiveOp operation, OTF2_CommRef comm, uint32_t root, uint64_t sent, uint64_t received) {
        return other(user, time,
                     {.kind = Kind::collective, .operation = operation, .comm = comm, .root = root, .bytes = sent, .received = received});
    }
    static OTF2_CallbackCode collective_request(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList* list,
                                                uint64_t request) {
        const Definitions& d = *static_cast<Reading*>(user)->definitions;
        Record record{.kind = Kind::collective_request, .request = request};
        record.known = has(list, d.comm) && OTF2_AttributeList_GetCommRef(list, d.comm, &record.comm) == OTF2_SUCCESS;
        if (has(list, d.operation)) OTF2_AttributeList_GetUint8(list, d.operation, &record.operation);
        return other(user, time, record);
    }
    static OTF2_CallbackCode collective_complete(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*,
                                                 OTF2_CollectiveOp operation, OTF2_CommRef comm, uint32_t root, uint64_t sent,
                                                 uint64_t received, uint64_t request) {
        return other(user, time,
                     {.kind = Kind::collective_complete,
                      .operation = operation,
                      .comm = comm,
                      .root = root,
                      .bytes = sent,
                      .received = received,
                      .request = request});
    }
    static OTF2_CallbackCode window_collective(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*,
                                               OTF2_CollectiveOp operation, OTF2_RmaSyncLevel level, OTF2_RmaWinRef window, uint32_t,
                                               uint64_t, uint64_t) {
        const auto& windows = static_cast<Reading*>(user)->definitions->windows;
        const auto comm = windows.find(window);
        const bool waits = (level & OTF2_RMA_SYNC_LEVEL_PROCESS) != 0 && comm != windows.end();
        return other(user, time,
                     {.kind = waits ? Kind::window_collective : Kind::unknown, .operation = operation, .comm = waits ? comm->second : 0});
    }
    static OTF2_CallbackCode rma_sync(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, OTF2_RmaWinRef,
                                      uint32_t, OTF2_RmaSyncType) {
        return other(user, time, {.kind = Kind::unknown});
    }
    static OTF2_CallbackCode rma_data(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, OTF2_RmaWinRef,
                                      uint32_t, uint64_t, uint64_t) {
        return other(user, time, {.kind = Kind::unknown});
    }
    static OTF2_CallbackCode rma_atomic(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, OTF2_RmaWinRef,
                                        uint32_t, OTF2_RmaAtomicType, uint64_t, uint64_t, uint64_t) {
        return other(user, time, {.kind = Kind::unknown});
    }
    static OTF2_CallbackCode metric(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList* list,
                                    OTF2_MetricRef metric, uint8_t count, const OTF2_Type* types, const OTF2_MetricValue* values) {
        Reading* r = at(user, time);
        if (!r) return OTF2_CALLBACK_INTERRUPT;
        uint32_t culprit = UINT32_MAX;
        uint64_t ago = 0;
        if (has(list, r->definitions->culprit)) OTF2_AttributeList_GetStringRef(list, r->definitions->culprit, &culprit);
        if (has(list, r->definitions->ago)) OTF2_AttributeList_GetUint64(list, r->definitions->ago, &ago);
        r->metric(metric, count, types, values, culprit, ago);
        return OTF2_CALLBACK_SUCCESS;
    }
};

Callbacks all_callbacks() {
    Callbacks callbacks(OTF2_EvtReaderCallbacks_New(), OTF2_EvtReaderCallbacks_Delete);
    auto* c = callbacks.get();
    OTF2_EvtReaderCallbacks_SetEnterCallback(c, Events::enter);
    OTF2_EvtReaderCallbacks_SetLeaveCallback(c, Events::leave);
    OTF2_EvtReaderCallbacks_SetMpiSendCallback(c, Events::send);
    OTF2_EvtReaderCallbacks_SetMpiIsendCallback(c, Events::isend);
    OTF2_EvtReaderCallbacks_SetMpiIsendCompleteCallback(c, Events::isend_complete);
    OTF2_EvtReaderCallbacks_SetMpiIrecvRequestCallback(c, Events::post);
    OTF2_EvtReaderCallbacks_SetMpiRecvCallback(c, Events::receive);
    OTF2_EvtReaderCallbacks_SetMpiIrecvCallback(c, Events::irecv);
    OTF2_EvtReaderCallbacks_SetMpiRequestCancelledCallback(c, Events::cancelled);
    OTF2_EvtReaderCallbacks_SetMpiCollectiveEndCallback(c, Events::collective);
    OTF2_EvtReaderCallbacks_SetNonBlockingCollectiveRequestCallback(c, Events::collective_request);
    OTF2_EvtReaderCallbacks_SetNonBlockingCollectiveCompleteCallback(c, Events::collective_complete);
    OTF2_EvtReaderCallbacks_SetRmaCollectiveEndCallback(c, Events::window_collective);
    OTF2_EvtReaderCallbacks_SetRmaSyncCallback(c, Events::rma_sync);
    OTF2_EvtReaderCallbacks_SetRmaPutCallback(c, Events::rma_data);
    OTF2_EvtReaderCallbacks_SetRmaGetCallback(c, Events::rma_data);
    OTF2_EvtReaderCallbacks_SetRmaAtomicCallback(c, Events::rma_atomic);
    OTF2_EvtReaderCallbacks_SetMetricCallback(c, Events::metric);
    return callbacks;
}

// Opens one location, so that OTF2 keeps the buffers of one only. False: it cannot be read.
bool open_one(Archive& archive, size_t location, const Callbacks& callbacks, void* user, ReadResult* result) {
    const size_t count = archive.definitions().locations.size();
    std::vector<void*> users(count, nullptr);
    std::vector<bool> own(count, false);
    users[location] = user;
    own[location] = true;
    const Archive::Opened opened = archive.open_events(callbacks.get(), users, own);
    if (result) result->damaged_locations += opened.damaged > 0;
    if (result && opened.files == 0) ++result->unreadable_locations;
    return opened.files > 0;
}

struct First {
    const Definitions* definitions;
    int64_t at = std::numeric_limits<int64_t>::max();
    static OTF2_CallbackCode found(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, uint32_t) {
        auto& first = *static_cast<First*>(user);
        const auto ticks = static_cast<int64_t>(time - first.definitions->global_offset);
        first.at = std::min(first.at, replay::ticks_in_ns(ticks, first.definitions->ticks_per_second));
        return OTF2_CALLBACK_INTERRUPT;
    }
};

std::vector<Place> places(const Definitions& definitions, const Selection& selection) {
    std::vector<Place> list;
    std::vector<int32_t> threads(static_cast<size_t>(definitions.ranks), 0);
    for (size_t i = 0; i < definitions.locations.size(); ++i) {
        const auto& location = definitions.locations[i];
        if (!selection.wants(location.rank)) continue;
        list.push_back({i, location.rank, location.carries_rank ? 0 : ++threads[static_cast<size_t>(location.rank)]});
    }
    std::stable_sort(list.begin(), list.end(), [](const Place& a, const Place& b) {
        return std::tuple(a.thread > 0, a.rank, a.thread) < std::tuple(b.thread > 0, b.rank, b.thread);
    });
    return list;
}

}  // namespace

int64_t first_event(const std::string& trace) {
    Archive archive(trace);
    const Callbacks callbacks(OTF2_EvtReaderCallbacks_New(), OTF2_EvtReaderCallbacks_Delete);
    OTF2_EvtReaderCallbacks_SetEnterCallback(callbacks.get(), First::found);
    OTF2_EvtReaderCallbacks_SetLeaveCallback(callbacks.get(), First::found);
    First first{&archive.definitions()};
    for (size_t i = 0; i < archive.definitions().locations.size(); ++i) {
        if (!archive.definitions().locations[i].carries_rank || !open_one(archive, i, callbacks, &first, nullptr)) continue;
        uint64_t events = 0;
        while (archive.read(i, &events) == Archive::Progress::more && events < archive.event_file_bytes(i)) {
        }
        archive.close_events();
    }
    if (first.at == std::numeric_limits<int64_t>::max())
        throw replay::InputError(archive.anchor() + ": no rank has entered or left a call; there is nothing to export");
    return first.at;
}

ReadResult read_timeline(Archive& archive, int64_t origin, const Selection& selection, Sink& sink) {
    const Callbacks callbacks = all_callbacks();
    const Definitions& definitions = archive.definitions();
    ReadResult result;
    for (const Place& place : places(definitions, selection)) {
        Reading reading{&definitions, &selection, &sink, &result, place, origin};
        reading.totals.assign(definitions.accounts.size(), -1);
        reading.counters.assign(definitions.counters.size(), 0);
        if (!open_one(archive, place.location, callbacks, &reading, &result)) continue;
        sink.begin(place);
        uint64_t events = 0;
        const uint64_t most = archive.event_file_bytes(place.location);
        while (archive.read(place.location, &events) == Archive::Progress::more && (most == 0 || events < most)) {
        }
        archive.close_events();
        reading.give_noise();
        reading.close(reading.now);
        sink.end();
        result.events += events;
        result.damaged_locations += reading.damaged;
    }
    return result;
}

}  // namespace polter::exports
