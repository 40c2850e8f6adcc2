// SPDX-License-Identifier: BSD-3-Clause
// OTF2's callbacks: each decodes one record, keeps it for the passes behind this one where there is room, and turns it into an operation
// of the thread that wrote it. What was kept goes the same way from there.
#include "otf2_events.hpp"

#include <otf2/otf2.h>

#include <optional>

#include "event_application.hpp"

namespace polter::replay {

// For a process that only keeps what it decodes.
struct NoApplication {
    static const Definitions& definitions(const Thread& t) { return EventApplication::definitions(t); }
    static OTF2_CallbackCode apply(Thread& t, uint64_t, uint64_t) {
        t.operations.pop_back();
        return OTF2_CALLBACK_SUCCESS;
    }
    static OTF2_CallbackCode apply_other(Thread&, uint64_t) { return OTF2_CALLBACK_SUCCESS; }
    static OTF2_CallbackCode apply_enter(Thread&, uint64_t, uint64_t, uint32_t, uint32_t) { return OTF2_CALLBACK_SUCCESS; }
    static OTF2_CallbackCode apply_leave(Thread&, uint64_t, uint64_t, uint32_t, const LeaveFacts&) { return OTF2_CALLBACK_SUCCESS; }
    static OTF2_CallbackCode apply_of_threads(Thread&, uint64_t, uint64_t, ThreadRecord, uint32_t, uint64_t) {
        return OTF2_CALLBACK_SUCCESS;
    }
    static OTF2_CallbackCode apply_metric(Thread&, uint64_t, uint32_t, std::span<const OTF2_Type>, const OTF2_MetricValue*, uint32_t,
                                          uint64_t) {
        return OTF2_CALLBACK_SUCCESS;
    }
};

template <class Application>
struct EventCallbacks : Application {
    using Application::apply, Application::apply_enter, Application::apply_leave, Application::apply_metric, Application::apply_of_threads,
        Application::apply_other, Application::definitions;

    // Whether the record was taken from what is kept.
    static bool taken(const Thread& t, uint64_t record) { return t.kept && record <= t.kept->behind(); }
    static KeptLocation* keeping(const Thread& t) { return t.kept && t.kept->keeping() ? t.kept : nullptr; }

    static bool has(OTF2_AttributeList* list, uint32_t attribute) {
        return attribute != UINT32_MAX && list && OTF2_AttributeList_GetNumberOfElements(list) > 0 &&
               OTF2_AttributeList_TestAttributeByID(list, attribute);
    }

    static bool get_int32(OTF2_AttributeList* list, uint32_t attribute, int32_t* value) {
        return has(list, attribute) && OTF2_AttributeList_GetInt32(list, attribute, value) == OTF2_SUCCESS;
    }

    static bool get_comm(OTF2_AttributeList* list, uint32_t attribute, uint32_t* value) {
        return has(list, attribute) && OTF2_AttributeList_GetCommRef(list, attribute, value) == OTF2_SUCCESS;
    }

    static uint32_t partitioned(const Thread& t, OTF2_AttributeList* list) {
        uint32_t value = 0;
        const uint32_t attribute = t.engine->faults().ordinary_parts ? UINT32_MAX : definitions(t).partitioned;
        return has(list, attribute) && OTF2_AttributeList_GetUint32(list, attribute, &value) == OTF2_SUCCESS ? value : 0;
    }

    static SendMode mode(const Thread& t, OTF2_AttributeList* list) {
        uint8_t value = 0;
        if (!has(list, definitions(t).mode) || OTF2_AttributeList_GetUint8(list, definitions(t).mode, &value) != OTF2_SUCCESS || value > 3)
            value = 0;
        return static_cast<SendMode>(value);
    }

    // Assigned in place, field by field: a copy of what has just been written waits for it.
    [[gnu::always_inline]] static OTF2_CallbackCode add(Thread& t, uint64_t ticks, uint64_t record, const Operation& operation) {
        if (taken(t, record)) return OTF2_CALLBACK_SUCCESS;
        Operation& added = t.operations.emplace_back();
        added = operation;
        if (KeptLocation* kept = keeping(t)) kept->operation(ticks, record, added);
        return apply(t, ticks, record);
    }

    static OTF2_CallbackCode other(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*) {
        Thread& t = *static_cast<Thread*>(user);
        if (taken(t, record)) return OTF2_CALLBACK_SUCCESS;
        if (KeptLocation* kept = keeping(t)) kept->other(time, record);
        return apply_other(t, time);
    }

    static OTF2_CallbackCode enter(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList* list,
                                   OTF2_RegionRef region) {
        Thread& t = *static_cast<Thread*>(user);
        if (taken(t, record)) return OTF2_CALLBACK_SUCCESS;
        uint32_t named = no_call_site;
        KeptLocation* kept = keeping(t);
        if (const uint32_t attribute = definitions(t).call_site; (kept || !t.engine->learning()) && has(list, attribute))
            OTF2_AttributeList_GetCallingContextRef(list, attribute, &named);
        if (kept) kept->enter(time, record, region, named);
        return apply_enter(t, time, record, region, named);
    }

    static LeaveFacts leave_facts(const Thread& t, OTF2_AttributeList* list) {
        const Definitions& d = definitions(t);
        LeaveFacts facts;
        uint32_t polls = 0;
        if (has(list, d.polls) && has(list, d.last_poll) && has(list, d.poll_gap) &&
            OTF2_AttributeList_GetUint32(list, d.polls, &polls) == OTF2_SUCCESS &&
            OTF2_AttributeList_GetUint64(list, d.last_poll, &facts.last_poll) == OTF2_SUCCESS &&
            OTF2_AttributeList_GetUint64(list, d.poll_gap, &facts.poll_gap) == OTF2_SUCCESS)
            facts.polls = polls;
        int32_t source = -1, tag = -1;
        facts.names_comm = get_comm(list, d.comm, &facts.comm);
        facts.names_message = facts.names_comm && get_int32(list, d.source, &source) && get_int32(list, d.tag, &tag) && source >= 0;
        if (!facts.names_message) return facts;
        facts.source = static_cast<uint32_t>(source);
        facts.tag = static_cast<uint32_t>(tag);
        facts.partitioned = partitioned(t, list);
        if (has(list, d.any)) OTF2_AttributeList_GetUint8(list, d.any, &facts.any);
        return facts;
    }

    static OTF2_CallbackCode leave(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList* list,
                                   OTF2_RegionRef region) {
        Thread& t = *static_cast<Thread*>(user);
        if (taken(t, record)) return OTF2_CALLBACK_SUCCESS;
        KeptLocation* kept = keeping(t);
        if (!list || OTF2_AttributeList_GetNumberOfElements(list) == 0) {
            if (kept) kept->leave(time, record, region);
            return apply_leave(t, time, record, region, {});
        }
        const LeaveFacts facts = leave_facts(t, list);
        if (kept) kept->leave(time, record, region, facts);
        return apply_leave(t, time, record, region, facts);
    }

    static OTF2_CallbackCode send(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList* list,
                                  uint32_t receiver, OTF2_CommRef comm, uint32_t tag, uint64_t length) {
        Thread& t = *static_cast<Thread*>(user);
        return add(t, time, record,
                   {.kind = Operation::Kind::send, .mode = mode(t, list), .comm = comm, .peer = receiver, .tag = tag, .size = length});
    }

    static OTF2_CallbackCode isend(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList* list,
                                   uint32_t receiver, OTF2_CommRef comm, uint32_t tag, uint64_t length, uint64_t request) {
        Thread& t = *static_cast<Thread*>(user);
        return add(t, time, record,
                   {.kind = Operation::Kind::isend,
                    .mode = mode(t, list),
                    .comm = comm,
                    .peer = receiver,
                    .tag = tag,
                    .partitioned = partitioned(t, list),
                    .size = length,
                    .request = request});
    }

    static OTF2_CallbackCode isend_complete(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                            uint64_t request) {
        return add(*static_cast<Thread*>(user), time, record, {.kind = Operation::Kind::isend_complete, .request = request});
    }

    struct PostedAs {
        int32_t source = -1, tag = -1;
        uint32_t comm = 0;
    };
    // One by one, as they are in the list: OTF2 would search it twice for each.
    static std::optional<PostedAs> posted_as(const Definitions& d, OTF2_AttributeList* list) {
        PostedAs posted;
        unsigned known = 0;
        const uint32_t count = list ? OTF2_AttributeList_GetNumberOfElements(list) : 0;
        for (uint32_t i = 0; i < count; ++i) {
            OTF2_AttributeRef attribute = 0;
            OTF2_Type type = OTF2_TYPE_NONE;
            OTF2_AttributeValue value{};
            if (OTF2_AttributeList_GetAttributeByIndex(list, i, &attribute, &type, &value) != OTF2_SUCCESS) continue;
            if (attribute == d.source && type == OTF2_TYPE_INT32) {
                posted.source = value.int32;
                known |= 1;
            } else if (attribute == d.tag && type == OTF2_TYPE_INT32) {
                posted.tag = value.int32;
                known |= 2;
            } else if (attribute == d.comm && type == OTF2_TYPE_COMM) {
                posted.comm = value.commRef;
                known |= 4;
            }
        }
        return known == 7 ? std::optional(posted) : std::nullopt;
    }

    static OTF2_CallbackCode irecv_request(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList* list,
                                           uint64_t request) {
        Thread& t = *static_cast<Thread*>(user);
        Operation operation{.kind = Operation::Kind::irecv_post, .request = request};
        if (const std::optional<PostedAs> posted = posted_as(definitions(t), list)) {
            operation.comm = posted->comm;
            operation.wildcard = posted->source < 0 || posted->tag < 0;
            operation.any_source = posted->source < 0;
            operation.posted_known = !operation.wildcard;
            operation.peer = static_cast<uint32_t>(posted->source);
            operation.tag = static_cast<uint32_t>(posted->tag);
            operation.partitioned = partitioned(t, list);
        }
        return add(t, time, record, operation);
    }

    static OTF2_CallbackCode recv(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList* list,
                                  uint32_t sender, OTF2_CommRef comm, uint32_t tag, uint64_t length) {
        Thread& t = *static_cast<Thread*>(user);
        Operation operation{.kind = Operation::Kind::receive, .comm = comm, .peer = sender, .tag = tag, .size = length};
        int32_t source = 0;
        operation.wildcard = operation.any_source = get_int32(list, definitions(t).source, &source) && source < 0;
        return add(t, time, record, operation);
    }

    static OTF2_CallbackCode irecv(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*, uint32_t sender,
                                   OTF2_CommRef comm, uint32_t tag, uint64_t length, uint64_t request) {
        return add(*static_cast<Thread*>(user), time, record,
                   {.kind = Operation::Kind::irecv_complete, .comm = comm, .peer = sender, .tag = tag, .size = length, .request = request});
    }

    static OTF2_CallbackCode request_test(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                          uint64_t request) {
        return add(*static_cast<Thread*>(user), time, record, {.kind = Operation::Kind::poll_failed, .request = request});
    }

    static OTF2_CallbackCode cancelled(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                       uint64_t request) {
        return add(*static_cast<Thread*>(user), time, record, {.kind = Operation::Kind::cancelled, .request = request});
    }

    static OTF2_CallbackCode collective_end(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                            OTF2_CollectiveOp operation, OTF2_CommRef comm, uint32_t root, uint64_t sent,
                                            uint64_t received) {
        const bool parts_are_received = operation == OTF2_COLLECTIVE_OP_REDUCE_SCATTER || operation == OTF2_COLLECTIVE_OP_SCATTERV;
        return add(*static_cast<Thread*>(user), time, record,
                   {.kind = Operation::Kind::collective,
                    .collective = operation,
                    .comm = comm,
                    .peer = root,
                    .size = std::max(sent, received),
                    .part = parts_are_received ? received : sent,
                    .whole = parts_are_received ? sent : received});
    }

    static bool dropped(const Thread& t, uint8_t operation) { return t.engine->faults().no_notices && operation == operation_file; }

    static OTF2_CallbackCode collective_request(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user,
                                                OTF2_AttributeList* list, uint64_t request) {
        Thread& t = *static_cast<Thread*>(user);
        Operation operation{.kind = Operation::Kind::collective_request, .request = request};
        operation.posted_known = get_comm(list, definitions(t).comm, &operation.comm);
        uint8_t what = 0;
        if (has(list, definitions(t).operation) && OTF2_AttributeList_GetUint8(list, definitions(t).operation, &what) == OTF2_SUCCESS)
            operation.collective = completed_operation(what);
        if (dropped(t, operation.collective)) return other(0, time, record, user, nullptr);
        return add(t, time, record, operation);
    }

    static OTF2_CallbackCode collective_complete(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                                 OTF2_CollectiveOp operation, OTF2_CommRef comm, uint32_t root, uint64_t sent,
                                                 uint64_t received, uint64_t request) {
        if (dropped(*static_cast<Thread*>(user), completed_operation(operation))) return other(0, time, record, user, nullptr);
        return add(*static_cast<Thread*>(user), time, record,
                   {.kind = Operation::Kind::collective_complete,
                    .collective = completed_operation(operation),
                    .comm = comm,
                    .peer = root,
                    .size = std::max(sent, received),
                    .request = request});
    }

    static OTF2_CallbackCode rma_collective_end(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                                OTF2_CollectiveOp operation, OTF2_RmaSyncLevel level, OTF2_RmaWinRef window, uint32_t,
                                                uint64_t, uint64_t) {
        return add(*static_cast<Thread*>(user), time, record,
                   {.kind = Operation::Kind::rma_collective,
                    .collective = operation,
                    .synchronises = (level & OTF2_RMA_SYNC_LEVEL_PROCESS) != 0,
                    .comm = window});
    }

    static OTF2_CallbackCode rma_sync(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                      OTF2_RmaWinRef window, uint32_t remote, OTF2_RmaSyncType type) {
        if (type != OTF2_RMA_SYNC_TYPE_NOTIFY_IN && type != OTF2_RMA_SYNC_TYPE_NOTIFY_OUT) return other(0, time, record, user, nullptr);
        const auto kind = type == OTF2_RMA_SYNC_TYPE_NOTIFY_IN ? Operation::Kind::rma_in : Operation::Kind::rma_out;
        return add(*static_cast<Thread*>(user), time, record, {.kind = kind, .comm = window, .peer = remote});
    }

    static OTF2_CallbackCode rma_group_sync(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                            OTF2_RmaSyncLevel, OTF2_RmaWinRef window, OTF2_GroupRef group) {
        return add(*static_cast<Thread*>(user), time, record, {.kind = Operation::Kind::rma_group, .comm = window, .peer = group});
    }

    static OTF2_CallbackCode rma_lock(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                      OTF2_RmaWinRef window, uint32_t remote, uint64_t, OTF2_LockType type) {
        return add(*static_cast<Thread*>(user), time, record,
                   {.kind = Operation::Kind::rma_lock, .synchronises = type == OTF2_LOCK_EXCLUSIVE, .comm = window, .peer = remote});
    }

    static OTF2_CallbackCode rma_unlock(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                        OTF2_RmaWinRef window, uint32_t remote, uint64_t) {
        return add(*static_cast<Thread*>(user), time, record, {.kind = Operation::Kind::rma_unlock, .comm = window, .peer = remote});
    }

    static OTF2_CallbackCode rma_complete(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                          OTF2_RmaWinRef window, uint64_t id) {
        return add(*static_cast<Thread*>(user), time, record, {.kind = Operation::Kind::rma_complete, .comm = window, .request = id});
    }

    static OTF2_CallbackCode rma_request_complete(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                                  OTF2_RmaWinRef window, uint64_t id) {
        return add(*static_cast<Thread*>(user), time, record,
                   {.kind = Operation::Kind::rma_request_complete, .comm = window, .request = id});
    }

    static OTF2_CallbackCode rma_test(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                      OTF2_RmaWinRef, uint64_t id) {
        return add(*static_cast<Thread*>(user), time, record, {.kind = Operation::Kind::poll_failed, .request = id});
    }

    static OTF2_CallbackCode rma_put(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                     OTF2_RmaWinRef window, uint32_t remote, uint64_t bytes, uint64_t id) {
        return add(*static_cast<Thread*>(user), time, record,
                   {.kind = Operation::Kind::rma_data, .comm = window, .peer = remote, .size = bytes, .request = id, .part = bytes});
    }

    static OTF2_CallbackCode rma_get(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                     OTF2_RmaWinRef window, uint32_t remote, uint64_t bytes, uint64_t id) {
        return add(*static_cast<Thread*>(user), time, record,
                   {.kind = Operation::Kind::rma_data, .comm = window, .peer = remote, .size = bytes, .request = id, .whole = bytes});
    }

    static OTF2_CallbackCode rma_atomic(OTF2_LocationRef at, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList* list,
                                        OTF2_RmaWinRef window, uint32_t remote, OTF2_RmaAtomicType, uint64_t sent, uint64_t received,
                                        uint64_t id) {
        return rma_put(at, time, record, user, list, window, remote, sent + received, id);
    }

    // Threads of one process. Where a record names no team, that of the thread is meant.
    static OTF2_CallbackCode of_threads(void* user, OTF2_TimeStamp time, uint64_t record, ThreadRecord kind, uint32_t a, uint64_t b) {
        Thread& t = *static_cast<Thread*>(user);
        if (taken(t, record)) return OTF2_CALLBACK_SUCCESS;
        if (KeptLocation* kept = keeping(t)) kept->of_threads(time, record, kind, a, b);
        return apply_of_threads(t, time, record, kind, a, b);
    }
    static OTF2_CallbackCode fork(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*, OTF2_Paradigm,
                                  uint32_t) {
        return of_threads(user, time, record, ThreadRecord::fork, 0, 0);
    }
    static OTF2_CallbackCode join(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*, OTF2_Paradigm) {
        return of_threads(user, time, record, ThreadRecord::join, 0, 0);
    }
    static OTF2_CallbackCode team_begin(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                        OTF2_CommRef team) {
        return of_threads(user, time, record, ThreadRecord::team_begin, team, 0);
    }
    static OTF2_CallbackCode team_end(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                      OTF2_CommRef team) {
        return of_threads(user, time, record, ThreadRecord::team_end, team, 0);
    }
    static OTF2_CallbackCode create(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                    OTF2_CommRef all, uint64_t number) {
        return of_threads(user, time, record, ThreadRecord::create, all, number);
    }
    static OTF2_CallbackCode thread_begin(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                          OTF2_CommRef all, uint64_t number) {
        return of_threads(user, time, record, ThreadRecord::begin, all, number);
    }
    static OTF2_CallbackCode thread_end(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                        OTF2_CommRef all, uint64_t number) {
        return of_threads(user, time, record, ThreadRecord::end, all, number);
    }
    static OTF2_CallbackCode thread_wait(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*,
                                         OTF2_CommRef all, uint64_t number) {
        return of_threads(user, time, record, ThreadRecord::wait, all, number);
    }
    static OTF2_CallbackCode acquire(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*, OTF2_Paradigm,
                                     uint32_t lock, uint32_t order) {
        return of_threads(user, time, record, ThreadRecord::acquire, lock, order);
    }
    static OTF2_CallbackCode release(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList*, OTF2_Paradigm,
                                     uint32_t lock, uint32_t order) {
        return of_threads(user, time, record, ThreadRecord::release, lock, order);
    }

    static OTF2_CallbackCode metric(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList* list,
                                    OTF2_MetricRef metric, uint8_t count, const OTF2_Type* types, const OTF2_MetricValue* values) {
        Thread& t = *static_cast<Thread*>(user);
        if (taken(t, record)) return OTF2_CALLBACK_SUCCESS;
        uint32_t culprit = UINT32_MAX;
        if (has(list, definitions(t).culprit)) OTF2_AttributeList_GetStringRef(list, definitions(t).culprit, &culprit);
        uint64_t ago = 0;
        if (has(list, definitions(t).ago)) OTF2_AttributeList_GetUint64(list, definitions(t).ago, &ago);
        if (KeptLocation* kept = keeping(t)) kept->metric(time, record, metric, {types, count}, values, culprit, ago);
        return apply_metric(t, time, metric, {types, count}, values, culprit, ago);
    }
};

Archive::Progress read_events(Archive& archive, Thread& thread) {
    KeptLocation* kept = thread.kept;
    if (!kept || !kept->rewound()) return archive.read(thread.index, &thread.events);
    if (kept->more() || kept->complete()) return EventApplication::read_kept(thread, *kept);
    if (kept->skips()) archive.skip(thread.index, kept->records());
    return archive.read(thread.index, &thread.events);
}

template <class Events>
static OTF2_EvtReaderCallbacks* callbacks_of() {
    OTF2_EvtReaderCallbacks* callbacks = OTF2_EvtReaderCallbacks_New();
    OTF2_EvtReaderCallbacks_SetUnknownCallback(callbacks, Events::other);
    OTF2_EvtReaderCallbacks_SetEnterCallback(callbacks, Events::enter);
    OTF2_EvtReaderCallbacks_SetLeaveCallback(callbacks, Events::leave);
    OTF2_EvtReaderCallbacks_SetMpiSendCallback(callbacks, Events::send);
    OTF2_EvtReaderCallbacks_SetMpiIsendCallback(callbacks, Events::isend);
    OTF2_EvtReaderCallbacks_SetMpiIsendCompleteCallback(callbacks, Events::isend_complete);
    OTF2_EvtReaderCallbacks_SetMpiIrecvRequestCallback(callbacks, Events::irecv_request);
    OTF2_EvtReaderCallbacks_SetMpiRecvCallback(callbacks, Events::recv);
    OTF2_EvtReaderCallbacks_SetMpiIrecvCallback(callbacks, Events::irecv);
    OTF2_EvtReaderCallbacks_SetMpiRequestTestCallback(callbacks, Events::request_test);
    OTF2_EvtReaderCallbacks_SetMpiRequestCancelledCallback(callbacks, Events::cancelled);
    OTF2_EvtReaderCallbacks_SetMpiCollectiveBeginCallback(callbacks, Events::other);
    OTF2_EvtReaderCallbacks_SetMpiCollectiveEndCallback(callbacks, Events::collective_end);
    OTF2_EvtReaderCallbacks_SetNonBlockingCollectiveRequestCallback(callbacks, Events::collective_request);
    OTF2_EvtReaderCallbacks_SetNonBlockingCollectiveCompleteCallback(callbacks, Events::collective_complete);
    OTF2_EvtReaderCallbacks_SetRmaCollectiveEndCallback(callbacks, Events::rma_collective_end);
    OTF2_EvtReaderCallbacks_SetRmaSyncCallback(callbacks, Events::rma_sync);
    OTF2_EvtReaderCallbacks_SetRmaGroupSyncCallback(callbacks, Events::rma_group_sync);
    OTF2_EvtReaderCallbacks_SetRmaRequestLockCallback(callbacks, Events::rma_lock);
    OTF2_EvtReaderCallbacks_SetRmaAcquireLockCallback(callbacks, Events::rma_lock);
    OTF2_EvtReaderCallbacks_SetRmaReleaseLockCallback(callbacks, Events::rma_unlock);
    OTF2_EvtReaderCallbacks_SetRmaOpCompleteRemoteCallback(callbacks, Events::rma_complete);
    OTF2_EvtReaderCallbacks_SetRmaOpCompleteBlockingCallback(callbacks, Events::rma_complete);
    OTF2_EvtReaderCallbacks_SetRmaOpCompleteNonBlockingCallback(callbacks, Events::rma_request_complete);
    OTF2_EvtReaderCallbacks_SetRmaOpTestCallback(callbacks, Events::rma_test);
    OTF2_EvtReaderCallbacks_SetRmaPutCallback(callbacks, Events::rma_put);
    OTF2_EvtReaderCallbacks_SetRmaGetCallback(callbacks, Events::rma_get);
    OTF2_EvtReaderCallbacks_SetRmaAtomicCallback(callbacks, Events::rma_atomic);
    OTF2_EvtReaderCallbacks_SetThreadForkCallback(callbacks, Events::fork);
    OTF2_EvtReaderCallbacks_SetThreadJoinCallback(callbacks, Events::join);
    OTF2_EvtReaderCallbacks_SetThreadTeamBeginCallback(callbacks, Events::team_begin);
    OTF2_EvtReaderCallbacks_SetThreadTeamEndCallback(callbacks, Events::team_end);
    OTF2_EvtReaderCallbacks_SetThreadCreateCallback(callbacks, Events::create);
    OTF2_EvtReaderCallbacks_SetThreadBeginCallback(callbacks, Events::thread_begin);
    OTF2_EvtReaderCallbacks_SetThreadEndCallback(callbacks, Events::thread_end);
    OTF2_EvtReaderCallbacks_SetThreadWaitCallback(callbacks, Events::thread_wait);
    OTF2_EvtReaderCallbacks_SetThreadAcquireLockCallback(callbacks, Events::acquire);
    OTF2_EvtReaderCallbacks_SetThreadReleaseLockCallback(callbacks, Events::release);
    OTF2_EvtReaderCallbacks_SetMetricCallback(callbacks, Events::metric);
    return callbacks;
}

OTF2_EvtReaderCallbacks* event_callbacks() {
    return callbacks_of<EventCallbacks<EventApplication>>();
}

OTF2_EvtReaderCallbacks* decoding_callbacks() {
    return callbacks_of<EventCallbacks<NoApplication>>();
}

}  // namespace polter::replay
