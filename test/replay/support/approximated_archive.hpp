// SPDX-License-Identifier: BSD-3-Clause
// An approximated archive is written, and read again without the replay: for the tests of both.
#pragma once

#include <doctest/doctest.h>
#include <otf2/otf2.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "invariants.hpp"
#include "replay/trace/otf2_records.hpp"

// Every kind of record is written and read in these tests, the deprecated ones too.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace polter::test {

inline replay::Result write(const std::string& trace, const std::string& to, std::optional<std::vector<std::string>> remove = std::nullopt,
                            replay::Faults faults = {}) {
    replay::Options options;
    options.trace = trace;
    options.remove = std::move(remove);
    options.write_approximated = to;
    replay::Hooks hooks;
    hooks.faults = faults;
    return replay::replay_with(options, hooks);
}

inline replay::Result read(const std::string& trace) {
    replay::Options options;
    options.trace = trace;
    return replay::replay(options);
}

enum class Kind {
#define POLTER_NAME(Name) Name,
    POLTER_BEGINNING_EVENTS(POLTER_NAME) POLTER_OTHER_EVENTS(POLTER_NAME) BufferFlush,
    Metric
#undef POLTER_NAME
};

struct Event {
    Kind kind;
    uint64_t time, value;  // value: of a metric's first member
    bool operator==(const Event&) const = default;
};
using Timeline = std::vector<std::vector<Event>>;  // by location, in the definitions' order

template <Kind K, auto Write>
struct Seen;
template <Kind K, class... Values, OTF2_ErrorCode (*Write)(OTF2_EvtWriter*, OTF2_AttributeList*, OTF2_TimeStamp, Values...)>
struct Seen<K, Write> {
    static OTF2_CallbackCode call(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, Values...) {
        static_cast<std::vector<Event>*>(user)->push_back({K, time, 0});
        return OTF2_CALLBACK_SUCCESS;
    }
    static void write(OTF2_EvtWriter* writer, OTF2_TimeStamp time) { CHECK(Write(writer, nullptr, time, Values{}...) == OTF2_SUCCESS); }
};
inline OTF2_CallbackCode metric(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*, OTF2_MetricRef, uint8_t,
                                const OTF2_Type*, const OTF2_MetricValue* values) {
    static_cast<std::vector<Event>*>(user)->push_back({Kind::Metric, time, values[0].unsigned_int});
    return OTF2_CALLBACK_SUCCESS;
}
inline OTF2_CallbackCode buffer_flush(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* user, OTF2_AttributeList*,
                                      OTF2_TimeStamp stop) {
    static_cast<std::vector<Event>*>(user)->push_back({Kind::BufferFlush, time, stop});
    return OTF2_CALLBACK_SUCCESS;
}

inline OTF2_EvtReaderCallbacks* all_kinds() {
    OTF2_EvtReaderCallbacks* callbacks = OTF2_EvtReaderCallbacks_New();
#define POLTER_SEEN(Name) OTF2_EvtReaderCallbacks_Set##Name##Callback(callbacks, Seen<Kind::Name, OTF2_EvtWriter_##Name>::call);
    POLTER_BEGINNING_EVENTS(POLTER_SEEN)
    POLTER_OTHER_EVENTS(POLTER_SEEN)
#undef POLTER_SEEN
    OTF2_EvtReaderCallbacks_SetMetricCallback(callbacks, metric);
    OTF2_EvtReaderCallbacks_SetBufferFlushCallback(callbacks, buffer_flush);
    return callbacks;
}

inline Timeline timeline(const std::string& trace) {
    replay::Archive archive(trace);
    Timeline result(archive.definitions().locations.size());
    std::vector<void*> users;
    for (auto& location : result) users.push_back(&location);
    OTF2_EvtReaderCallbacks* callbacks = all_kinds();
    std::vector<replay::Warning> warnings;
    archive.open_events(callbacks, users, warnings);
    OTF2_EvtReaderCallbacks_Delete(callbacks);
    for (size_t i = 0; i < result.size(); ++i) {
        uint64_t events = 0;
        while (archive.read(i, &events) == replay::Archive::Progress::more) {
        }
    }
    CHECK(warnings.empty());
    return result;
}

inline std::vector<uint64_t> enters_and_leaves(const std::vector<Event>& events) {
    std::vector<uint64_t> times;
    for (const Event& event : events)
        if (event.kind == Kind::Enter || event.kind == Kind::Leave) times.push_back(event.time);
    return times;
}

inline Program program_of(uint64_t seed) {
    ProgramOptions options;
    options.seed = seed;
    options.ranks = 2 + seed % 6;
    options.accounts = 1 + seed % 3;
    options.structured = seed % 4 == 1;
    return random_program(options);
}

inline constexpr uint64_t programs = programs_of(24);

}  // namespace polter::test
