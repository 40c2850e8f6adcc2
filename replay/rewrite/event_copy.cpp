// SPDX-License-Identifier: BSD-3-Clause
#include "event_copy.hpp"

#include <algorithm>
#include <exception>

#include "replay/trace/metric_value.hpp"
#include "replay/trace/otf2_records.hpp"

// OTF2 has deprecated these OpenMP records for recorders, but a trace may contain them.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace polter::replay {

ApproximatedClock::ApproximatedClock(DelayFile::Reader* delays, bool faulty) : delays_(delays), faulty_(faulty) {
    advance();
}

void ApproximatedClock::advance() {
    more_ = delays_ && delays_->next(&after_, &read_cuts_);
    for (const NoiseCut& cut : read_cuts_) cuts_[{cut.recorded, cut.account}] += cut.ns;
    read_cuts_.clear();
}

void ApproximatedClock::pass() {
    before_ = after_;
    passed_.push_back(before_);
    if (passed_.size() > most_passed) {
        passed_.pop_front();
        dropped_ = true;
    }
    advance();
}

int64_t ApproximatedClock::at(uint64_t record, int64_t ticks, bool begins) {
    while (more_ && after_.record == 0 && ticks > after_.ticks) pass();
    int64_t time = ticks - before_.delay;
    if (more_ && after_.record > 0 && record >= after_.record) {
        time = faulty_ ? ticks - before_.delay : after_.ticks - after_.delay;
        pass();
    } else if (more_ && after_.delay != before_.delay) {
        const bool at_enter = ticks == before_.ticks && ticks < after_.ticks;
        const bool keeps_begin = !before_.in_call || at_enter || (begins && (ticks < after_.ticks || ticks == before_.ticks));
        if (keeps_begin)
            time = std::min(ticks - before_.delay, after_.ticks - after_.delay);
        else
            time = std::max(before_.ticks - before_.delay, ticks - after_.delay);
    }
    // Delays are rounded to whole ticks, and so may differ by one.
    return last_ = std::max(last_, time);
}

int64_t ApproximatedClock::ago(int64_t ticks, int64_t placed, int64_t ago) {
    const int64_t ended = ticks - ago;
    const auto later = std::lower_bound(passed_.begin(), passed_.end(), ended, [](const DelayPoint& p, int64_t t) { return p.ticks < t; });
    if (later == passed_.begin() && dropped_) {
        ++forgotten_;
        return ago;
    }
    const DelayPoint start, &before = later == passed_.begin() ? start : *std::prev(later);
    const bool known = later != passed_.end() || more_;
    const DelayPoint& after = later != passed_.end() ? *later : after_;
    int64_t time = ended - before.delay;
    if (known && before.in_call)
        time = std::max(before.ticks - before.delay, ended - after.delay);
    else if (known)
        time = std::min(time, after.ticks - after.delay);
    return std::max<int64_t>(0, placed - time);
}

int64_t ApproximatedClock::cut(int64_t recorded, uint16_t account, int64_t ns) {
    const auto found = cuts_.find({recorded, account});
    if (found == cuts_.end()) return 0;
    const int64_t less = std::min(ns, found->second);
    found->second -= less;
    if (found->second == 0) cuts_.erase(found);
    return less;
}

namespace {

EventCopy& copy_of(void* user) {
    return *static_cast<EventCopy*>(user);
}

// The record's new time; false: neither it nor any later record is written.
bool place(EventCopy& copy, uint64_t record, OTF2_TimeStamp time, bool begins, OTF2_TimeStamp* placed) {
    const auto ticks = static_cast<int64_t>(time - copy.definitions.global_offset);
    if (copy.code != OTF2_SUCCESS || record > copy.most_records || (copy.last != INT64_MIN && ticks < copy.last)) return false;
    int64_t approximated = 0;
    try {
        approximated = copy.clock.at(record, ticks, begins);
    } catch (const std::exception& error) {  // OTF2 is C: exceptions must not leave the callback
        copy.error = error.what();
        return false;
    }
    copy.first = std::min(copy.first, ticks);
    copy.last = ticks;
    copy.approximated_last = approximated;
    *placed = static_cast<OTF2_TimeStamp>(approximated) + copy.definitions.global_offset;
    return true;
}

OTF2_CallbackCode written(EventCopy& copy, OTF2_ErrorCode code) {
    copy.code = code;
    ++copy.records;
    return code == OTF2_SUCCESS ? OTF2_CALLBACK_SUCCESS : OTF2_CALLBACK_INTERRUPT;
}

// The reader's callback and the writer take the same arguments.
template <auto Write, bool Begins>
struct PlainRecord;
template <class... Values, OTF2_ErrorCode (*Write)(OTF2_EvtWriter*, OTF2_AttributeList*, OTF2_TimeStamp, Values...), bool Begins>
struct PlainRecord<Write, Begins> {
    static OTF2_CallbackCode copy(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList* list,
                                  Values... values) {
        EventCopy& copy = copy_of(user);
        OTF2_TimeStamp placed = 0;
        if (!place(copy, record, time, Begins, &placed)) return OTF2_CALLBACK_INTERRUPT;
        return written(copy, Write(copy.writer, list, placed, values...));
    }
};

OTF2_CallbackCode buffer_flush(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList* list,
                               OTF2_TimeStamp stop) {
    EventCopy& copy = copy_of(user);
    OTF2_TimeStamp placed = 0;
    if (!place(copy, record, time, false, &placed)) return OTF2_CALLBACK_INTERRUPT;
    return written(copy, OTF2_EvtWriter_BufferFlush(copy.writer, list, placed, placed + (stop - time)));
}

// A metric record; `ended`: the time at which its noise ended, in ns.
struct MetricRecord {
    OTF2_MetricRef metric;
    const OTF2_Type* types;
    int64_t ended;
    std::vector<OTF2_MetricValue> values;
};

// Cuts what does not fit any more from the record of a kept account, and from its total from there on. True: this record was cut.
bool cut(EventCopy& copy, const MetricSlot& slot, const MetricRecord& record, size_t member, OTF2_MetricValue& value) {
    EventCopy::Counter& counter = copy.counters[static_cast<size_t>(slot.account)];
    const int64_t ns = metric_ns(slot, record.types[member], value);
    if (ns < 0) return false;
    const int64_t increment = slot.increment ? ns : counter.read < 0 ? 0 : ns - counter.read;
    if (!slot.increment) counter.read = ns;
    const int64_t less = increment > 0 ? copy.clock.cut(record.ended, static_cast<uint16_t>(slot.account), increment) : 0;
    counter.cut += less;
    lessen(slot, record.types[member], value, slot.increment ? less : std::min(counter.cut, ns));
    copy.cut_records += less > 0;
    copy.cut_ns += less;
    return less > 0;
}

// Members of removed accounts keep their first value; false: only such members have changed, so the record is omitted.
bool strip(EventCopy& copy, MetricRecord& record) {
    std::vector<OTF2_MetricValue>& values = record.values;
    const auto slots = copy.definitions.metrics.find(record.metric);
    if (slots == copy.definitions.metrics.end()) return true;
    EventCopy::Metric& known = copy.metrics[record.metric];
    const bool first = known.baseline.size() != values.size();
    if (first) known.baseline = known.written = values;
    bool kept_moved = first, gone = false;
    for (size_t i = 0; i < values.size(); ++i) {
        const MetricSlot slot = i < slots->second.size() ? slots->second[i] : MetricSlot{};
        if (slot.account < 0) {
            kept_moved = true;  // a counter of another kind: keep each of its records
            continue;
        }
        OTF2_MetricValue still = known.baseline[i];
        if (slot.increment) still.unsigned_int = 0;  // the same bits for a floating-point 0
        if (copy.removed[static_cast<size_t>(slot.account)]) {
            gone = gone || values[i].unsigned_int != still.unsigned_int;
            values[i] = still;
            continue;
        }
        gone = cut(copy, slot, record, i, values[i]) || gone;
        kept_moved = kept_moved || values[i].unsigned_int != (slot.increment ? 0 : known.written[i].unsigned_int);
    }
    if (!kept_moved && gone) return false;
    known.written = values;
    return true;
}

OTF2_CallbackCode metric_record(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t record, void* user, OTF2_AttributeList* list,
                                OTF2_MetricRef metric, uint8_t count, const OTF2_Type* types, const OTF2_MetricValue* values) {
    EventCopy& copy = copy_of(user);
    OTF2_TimeStamp placed = 0;
    if (!place(copy, record, time, false, &placed)) return OTF2_CALLBACK_INTERRUPT;
    const auto ticks = static_cast<int64_t>(time - copy.definitions.global_offset);
    const uint64_t per_second = copy.definitions.ticks_per_second;
    uint64_t ago = 0;
    const OTF2_AttributeRef attribute = copy.definitions.ago;
    const bool late = attribute != UINT32_MAX && list && OTF2_AttributeList_TestAttributeByID(list, attribute) &&
                      OTF2_AttributeList_GetUint64(list, attribute, &ago) == OTF2_SUCCESS;
    MetricRecord kept{metric, types, noise_ended(ticks_in_ns(ticks, per_second), late ? ago : 0, per_second), {values, values + count}};
    if (!strip(copy, kept)) return OTF2_CALLBACK_SUCCESS;
    if (late && !copy.keep_ago && ago <= INT64_MAX / 4) {
        const auto at = static_cast<int64_t>(placed - copy.definitions.global_offset);
        ago = static_cast<uint64_t>(copy.clock.ago(ticks, at, static_cast<int64_t>(ago)));
        OTF2_AttributeList_RemoveAttribute(list, attribute);
        OTF2_AttributeList_AddUint64(list, attribute, ago);
    }
    return written(copy, OTF2_EvtWriter_Metric(copy.writer, list, placed, metric, count, types, kept.values.data()));
}

OTF2_CallbackCode unknown_event(OTF2_LocationRef, OTF2_TimeStamp, uint64_t, void* user, OTF2_AttributeList*) {
    ++copy_of(user).unknown;
    return OTF2_CALLBACK_SUCCESS;
}

}  // namespace

OTF2_EvtReaderCallbacks* copying_callbacks() {
    OTF2_EvtReaderCallbacks* callbacks = OTF2_EvtReaderCallbacks_New();
#define POLTER_BEGINNING(Kind) OTF2_EvtReaderCallbacks_Set##Kind##Callback(callbacks, PlainRecord<OTF2_EvtWriter_##Kind, true>::copy);
#define POLTER_OTHER(Kind) OTF2_EvtReaderCallbacks_Set##Kind##Callback(callbacks, PlainRecord<OTF2_EvtWriter_##Kind, false>::copy);
    POLTER_BEGINNING_EVENTS(POLTER_BEGINNING)
    POLTER_OTHER_EVENTS(POLTER_OTHER)
#undef POLTER_BEGINNING
#undef POLTER_OTHER
    OTF2_EvtReaderCallbacks_SetBufferFlushCallback(callbacks, buffer_flush);
    OTF2_EvtReaderCallbacks_SetMetricCallback(callbacks, metric_record);
    OTF2_EvtReaderCallbacks_SetUnknownCallback(callbacks, unknown_event);
    return callbacks;
}
}  // namespace polter::replay
