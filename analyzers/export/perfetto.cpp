// SPDX-License-Identifier: BSD-3-Clause
#include "perfetto.hpp"

#include <fmt/format.h>

#include <protozero/pbf_writer.hpp>

#include "replay/base/printable.hpp"

namespace polter::exports {

namespace {

using protozero::pbf_writer;

// Field numbers: protos/perfetto/trace/{trace_packet,trace_packet_defaults,track_event/*,interned_data/interned_data}.proto of Perfetto.
// They never change.
namespace trace {
constexpr int packet = 1;
}
namespace packet_field {
constexpr int timestamp = 8, sequence = 10, event = 11, interned = 12, flags = 13, defaults = 59, track = 60;
}
namespace track_field {
constexpr int uuid = 1, name = 2, process = 3, thread = 4, parent = 5, counter = 8;
}
namespace event_field {
constexpr int categories = 3, annotations = 4, type = 9, name = 10, track = 11, double_counter = 44, flows = 47, ending_flows = 48;
}
constexpr uint32_t state_cleared = 1, needs_state = 2;
constexpr int process_id = 1, process_command = 2, process_name = 6, thread_process = 1, thread_id = 2, thread_name = 5, counter_unit = 6;
constexpr int default_event = 11, default_track = 11, interned_number = 1, interned_name = 2;
constexpr int annotation_name = 1, annotation_number = 3, annotation_text = 17;
constexpr const char* writer_name = "polter export";

enum Category : uint64_t { mpi = 1, code, messages, noise, service };
enum Annotation : uint64_t { peer = 1, size, tag, culprit };
// Numbers of event names: the two of messages, accounts, then regions.
constexpr uint64_t sends_name = 1, receives_name = 2, first_account = 3;

template <class Fill>
std::string filled(Fill fill) {
    std::string bytes;
    pbf_writer writer(bytes);
    fill(writer);
    return bytes;
}

}  // namespace

Target::Kind PerfettoWriter::kind() {
    return {"Perfetto trace", writer_name, false};
}

// One TracePacket; with the names that it needs first.
void PerfettoWriter::packet(const std::string& body, int64_t time) {
    std::string head;
    pbf_writer fields(head);
    if (time >= 0) fields.add_uint64(packet_field::timestamp, static_cast<uint64_t>(time));
    fields.add_uint32(packet_field::sequence, sequence_);
    if (!new_names_.empty()) fields.add_message(packet_field::interned, new_names_);
    new_names_.clear();
    head += body;
    out_.write(filled([&](pbf_writer& writer) { writer.add_message(trace::packet, head); }));
    check_(out_.bytes());
}

void PerfettoWriter::event(int64_t time, const std::string& fields) {
    packet(filled([&](pbf_writer& writer) {
               writer.add_uint32(packet_field::flags, needs_state);
               writer.add_message(packet_field::event, fields);
           }),
           time);
}

uint64_t PerfettoWriter::interned(Intern kind, uint64_t number, const std::string& name) {
    if (!interned_.emplace(kind, number).second) return number;
    const std::string entry = filled([&](pbf_writer& writer) {
        writer.add_uint64(interned_number, number);
        writer.add_string(interned_name, name);
    });
    new_names_ += filled([&](pbf_writer& writer) { writer.add_message(static_cast<uint32_t>(kind), entry); });
    return number;
}

void PerfettoWriter::start(const Group& group) {
    TimelineWriter::start(group);
    processes_.assign(static_cast<size_t>(group.definitions->ranks), 0);
}

void PerfettoWriter::describe_process() {
    const auto rank = static_cast<size_t>(place_.rank);
    if (processes_[rank] != 0) return;
    processes_[rank] = next_track_++;
    const std::string process = filled([&](pbf_writer& writer) {
        writer.add_int32(process_id, process_number());
        writer.add_string(process_command, writer_name);
        writer.add_string(process_name, fmt::format("{}: rank {}", group_.name, place_.rank));
    });
    const std::string track = filled([&](pbf_writer& writer) {
        writer.add_uint64(track_field::uuid, processes_[rank]);
        writer.add_message(track_field::process, process);
    });
    packet(filled([&](pbf_writer& writer) { writer.add_message(packet_field::track, track); }), -1);
}

void PerfettoWriter::begin(const Place& place) {
    TimelineWriter::begin(place);
    ++sequence_;
    interned_.clear();
    counter_tracks_.clear();
    noise_track_ = service_track_ = 0;
    describe_process();
    const uint64_t calls = next_track_++;
    const int32_t process = process_number();
    const std::string thread = filled([&](pbf_writer& writer) {
        writer.add_int32(thread_process, process);
        writer.add_int32(thread_id, place.thread == 0 ? process : next_thread_++);
        writer.add_string(thread_name, place.thread == 0 ? "MPI calls" : fmt::format("thread {}", place.thread));
    });
    const std::string track = filled([&](pbf_writer& writer) {
        writer.add_uint64(track_field::uuid, calls);
        writer.add_message(track_field::thread, thread);
    });
    packet(filled([&](pbf_writer& writer) {
               writer.add_uint32(packet_field::flags, state_cleared);
               writer.add_message(packet_field::track, track);
               // Events of this sequence without a track are on this one.
               writer.add_message(packet_field::defaults, filled([&](pbf_writer& defaults) {
                                      defaults.add_message(default_event, filled([&](pbf_writer& of_events) {
                                                               of_events.add_uint64(default_track, calls);
                                                           }));
                                  }));
           }),
           -1);
}

uint64_t PerfettoWriter::child_track(const std::string& name, const CounterName* counter) {
    const uint64_t uuid = next_track_++;
    const std::string track = filled([&](pbf_writer& writer) {
        writer.add_uint64(track_field::uuid, uuid);
        writer.add_uint64(track_field::parent, processes_[static_cast<size_t>(place_.rank)]);
        writer.add_string(track_field::name, place_.thread == 0 ? name : fmt::format("{}, thread {}", name, place_.thread));
        if (counter)
            writer.add_message(track_field::counter, filled([&](pbf_writer& unit) {
                                   if (!counter->unit.empty()) unit.add_string(counter_unit, replay::valid_utf8(counter->unit));
                               }));
    });
    packet(filled([&](pbf_writer& writer) { writer.add_message(packet_field::track, track); }), -1);
    return uuid;
}

void PerfettoWriter::enter(int64_t time, uint32_t region, bool in_mpi) {
    ++counts_.calls;
    const uint64_t number = first_account + definitions().accounts.size() + region;
    // Names are made only where they are new: this is the most frequent event.
    const bool known = interned_.contains({Intern::event, number});
    if (!known) interned(Intern::event, number, replay::valid_utf8(definitions().region_name(region)));
    const uint64_t category = interned(Intern::category, in_mpi ? mpi : code, in_mpi ? "MPI" : "code");
    event(time, filled([&](pbf_writer& writer) {
              writer.add_uint64(event_field::categories, category);
              writer.add_enum(event_field::type, static_cast<int>(Type::begin));
              writer.add_uint64(event_field::name, number);
          }));
}

void PerfettoWriter::leave(int64_t time) {
    event(time, filled([&](pbf_writer& writer) { writer.add_enum(event_field::type, static_cast<int>(Type::end)); }));
}

void PerfettoWriter::message(const Record& record, uint64_t number, bool sends) {
    const uint64_t name = interned(Intern::event, sends ? sends_name : receives_name, sends ? "send" : "receive");
    const uint64_t category = interned(Intern::category, messages, "message");
    const auto annotation = [&](Annotation what, const char* text, uint64_t value) {
        const uint64_t key = interned(Intern::annotation, what, text);
        return filled([&](pbf_writer& writer) {
            writer.add_uint64(annotation_name, key);
            writer.add_uint64(annotation_number, value);
        });
    };
    const std::string other = record.peer < 0 ? "" : annotation(peer, "peer rank", static_cast<uint64_t>(record.peer));
    const std::string bytes = annotation(size, "bytes", record.bytes), label = annotation(tag, "tag", record.tag);
    event(record.time, filled([&](pbf_writer& writer) {
              writer.add_uint64(event_field::categories, category);
              for (const auto* text : {&other, &bytes, &label})
                  if (!text->empty()) writer.add_message(event_field::annotations, *text);
              writer.add_enum(event_field::type, static_cast<int>(Type::instant));
              writer.add_uint64(event_field::name, name);
              // The second group has flows of its own.
              if (number != 0) writer.add_fixed64(sends ? event_field::flows : event_field::ending_flows, number ^ group_.number);
          }));
}

void PerfettoWriter::noise(const NoiseSlice& slice) {
    ++counts_.noise;
    const bool serves = is_service(slice.account);
    uint64_t& track = serves ? service_track_ : noise_track_;
    if (track == 0) track = child_track(serves ? "OS services" : "OS noise");
    const uint64_t name =
        interned(Intern::event, first_account + static_cast<uint64_t>(slice.account), replay::valid_utf8(source(slice.account)));
    const uint64_t category = interned(Intern::category, serves ? service : polter::exports::noise, serves ? "service" : "noise");
    std::string by;
    if (slice.culprit != UINT32_MAX) {
        const uint64_t key = interned(Intern::annotation, culprit, "culprit");
        const uint64_t text = uint64_t{slice.culprit} + 1;
        if (!interned_.contains({Intern::text, text}))
            interned(Intern::text, text, replay::valid_utf8(definitions().culprit_name(slice.culprit)));
        by = filled([&](pbf_writer& writer) {
            writer.add_uint64(annotation_name, key);
            writer.add_uint64(annotation_text, text);
        });
    }
    event(slice.begin, filled([&](pbf_writer& writer) {
              writer.add_uint64(event_field::categories, category);
              if (!by.empty()) writer.add_message(event_field::annotations, by);
              writer.add_enum(event_field::type, static_cast<int>(Type::begin));
              writer.add_uint64(event_field::name, name);
              writer.add_uint64(event_field::track, track);
          }));
    event(slice.end, filled([&](pbf_writer& writer) {
              writer.add_enum(event_field::type, static_cast<int>(Type::end));
              writer.add_uint64(event_field::track, track);
          }));
}

void PerfettoWriter::counter(int64_t time, size_t counter, double value) {
    ++counts_.counters;
    uint64_t& track = counter_tracks_[counter];
    if (track == 0) track = child_track(replay::valid_utf8(group_.counters[counter].name), &group_.counters[counter]);
    event(time, filled([&](pbf_writer& writer) {
              writer.add_enum(event_field::type, static_cast<int>(Type::counter));
              writer.add_uint64(event_field::track, track);
              writer.add_double(event_field::double_counter, value);
          }));
}

}  // namespace polter::exports
