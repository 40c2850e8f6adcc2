// SPDX-License-Identifier: BSD-3-Clause
#include "perfetto_decode.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <protozero/pbf_reader.hpp>

namespace polter::test {

namespace {

using protozero::pbf_reader;

struct Sequence {
    bool cleared = false;
    uint64_t default_track = 0;
    std::map<int, std::map<uint64_t, std::string>> names;  // by field of InternedData
};

struct Decoder {
    PerfettoTrace trace;
    std::map<uint32_t, Sequence> sequences;

    std::string name(Sequence& sequence, int field, uint64_t number) {
        const auto found = sequence.names[field].find(number);
        if (found != sequence.names[field].end()) return found->second;
        trace.faults.push_back("name " + std::to_string(number) + " of kind " + std::to_string(field) + " was not defined before");
        return "";
    }

    static void interned(Sequence& sequence, pbf_reader data) {
        while (data.next()) {
            const auto field = static_cast<int>(data.tag());
            pbf_reader entry = data.get_message();
            uint64_t number = 0;
            std::string text;
            while (entry.next()) {
                if (entry.tag() == 1)
                    number = entry.get_uint64();
                else if (entry.tag() == 2)
                    text = entry.get_string();
                else
                    entry.skip();
            }
            sequence.names[field][number] = text;
        }
    }

    void track(pbf_reader data) {
        uint64_t uuid = 0;
        PerfettoTrack track;
        while (data.next()) {
            switch (data.tag()) {
                case 1:
                    uuid = data.get_uint64();
                    break;
                case 2:
                    track.name = data.get_string();
                    break;
                case 5:
                    track.parent = data.get_uint64();
                    break;
                case 3:
                    for (pbf_reader process = data.get_message(); process.next();) {
                        if (process.tag() == 1)
                            track.process_id = process.get_int32();
                        else if (process.tag() == 6)
                            track.process = process.get_string();
                        else
                            process.skip();
                    }
                    break;
                case 4:
                    for (pbf_reader thread = data.get_message(); thread.next();) {
                        if (thread.tag() == 1)
                            track.process_id = thread.get_int32();
                        else if (thread.tag() == 2)
                            track.thread_id = thread.get_int32();
                        else if (thread.tag() == 5)
                            track.thread = thread.get_string();
                        else
                            thread.skip();
                    }
                    break;
                case 8:
                    track.counter = true;
                    for (pbf_reader counter = data.get_message(); counter.next();)
                        if (counter.tag() == 6)
                            track.unit = counter.get_string();
                        else
                            counter.skip();
                    break;
                default:
                    data.skip();
            }
        }
        if (uuid == 0 || trace.tracks.contains(uuid)) trace.faults.push_back("a track without a number of its own");
        if (track.parent != 0 && !trace.tracks.contains(track.parent)) trace.faults.push_back("a track whose parent does not exist yet");
        trace.tracks[uuid] = track;
    }

    void event(Sequence& sequence, int64_t time, pbf_reader data) {
        PerfettoEvent event;
        event.time = time;
        event.track = sequence.default_track;
        while (data.next()) {
            switch (data.tag()) {
                case 3:
                    event.category = name(sequence, 1, data.get_uint64());
                    break;
                case 4: {
                    std::string key;
                    for (pbf_reader annotation = data.get_message(); annotation.next();) {
                        if (annotation.tag() == 1)
                            key = name(sequence, 3, annotation.get_uint64());
                        else if (annotation.tag() == 3)
                            event.annotations[key] = annotation.get_uint64();
                        else if (annotation.tag() == 17)
                            event.culprit = name(sequence, 29, annotation.get_uint64());
                        else
                            annotation.skip();
                    }
                    break;
                }
                case 9:
                    event.type = data.get_enum();
                    break;
                case 10:
                    event.name = name(sequence, 2, data.get_uint64());
                    break;
                case 11:
                    event.track = data.get_uint64();
                    break;
                case 44:
                    event.value = data.get_double();
                    break;
                case 47:
                    event.flows.push_back(data.get_fixed64());
                    break;
                case 48:
                    event.ending_flows.push_back(data.get_fixed64());
                    break;
                default:
                    data.skip();
            }
        }
        if (!trace.tracks.contains(event.track)) trace.faults.push_back("an event on a track that does not exist yet");
        if ((event.type == 4) != trace.tracks[event.track].counter)
            trace.faults.push_back("a counter's event elsewhere, or another on its track");
        trace.events.push_back(std::move(event));
    }

    void packet(pbf_reader data) {
        int64_t time = -1;
        uint32_t sequence_number = 0, flags = 0;
        std::optional<pbf_reader> event_data;
        std::vector<pbf_reader> interned_data, tracks;
        std::optional<uint64_t> default_track;
        while (data.next()) {
            switch (data.tag()) {
                case 8:
                    time = static_cast<int64_t>(data.get_uint64());
                    break;
                case 10:
                    sequence_number = data.get_uint32();
                    break;
                case 11:
                    event_data = data.get_message();
                    break;
                case 12:
                    interned_data.push_back(data.get_message());
                    break;
                case 13:
                    flags = data.get_uint32();
                    break;
                case 59:
                    for (pbf_reader defaults = data.get_message(); defaults.next();) {
                        if (defaults.tag() != 11) {
                            defaults.skip();
                            continue;
                        }
                        for (pbf_reader events = defaults.get_message(); events.next();)
                            if (events.tag() == 11)
                                default_track = events.get_uint64();
                            else
                                events.skip();
                    }
                    break;
                case 60:
                    tracks.push_back(data.get_message());
                    break;
                default:
                    data.skip();
            }
        }
        Sequence& sequence = sequences[sequence_number];
        if (sequence_number == 0) trace.faults.push_back("a packet without a sequence");
        if (flags & 1) sequence = {true, 0, {}};
        if (default_track) sequence.default_track = *default_track;
        for (const auto& names : interned_data) interned(sequence, names);
        for (const auto& one : tracks) track(one);
        if (!event_data) return;
        if (!(flags & 2) || !sequence.cleared)
            trace.faults.push_back("an event that does not say that it needs names, or before they are reset");
        if (time < 0) trace.faults.push_back("an event without a time");
        event(sequence, time, *event_data);
    }
};

}  // namespace

std::vector<uint64_t> PerfettoTrace::tracks_of(const std::string& process, const std::string& name) const {
    std::vector<uint64_t> found;
    int32_t process_id = -1;
    for (const auto& [uuid, track] : tracks)
        if (track.process == process) process_id = track.process_id;
    for (const auto& [uuid, track] : tracks) {
        const auto parent = tracks.find(track.parent);
        const int32_t of = track.parent == 0 ? track.process_id : parent->second.process_id;
        if (of == process_id && (track.thread == name || track.name == name) && track.process.empty()) found.push_back(uuid);
    }
    return found;
}

std::vector<PerfettoSlice> PerfettoTrace::slices(uint64_t track) const {
    std::vector<const PerfettoEvent*> list;
    for (const auto& event : events)
        if (event.track == track && (event.type == 1 || event.type == 2)) list.push_back(&event);
    // As trace processor does: by time, in the file's order where times are equal.
    std::stable_sort(list.begin(), list.end(), [](const auto* a, const auto* b) { return a->time < b->time; });
    std::vector<PerfettoSlice> slices;
    std::vector<size_t> open;
    for (const auto* event : list) {
        if (event->type == 1) {
            open.push_back(slices.size());
            slices.push_back({event->time, -1, event->name, event->category, event->culprit, open.size() - 1});
        } else if (open.empty()) {
            slices.push_back({-1, event->time, "end without a begin", "", "", 0});
        } else {
            slices[open.back()].end = event->time;
            open.pop_back();
        }
    }
    return slices;
}

PerfettoTrace decode_perfetto(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    Decoder decoder;
    for (pbf_reader file(bytes); file.next();) {
        if (file.tag() == 1)
            decoder.packet(file.get_message());
        else
            decoder.trace.faults.push_back("something that is no packet");
    }
    for (const auto& [uuid, track] : decoder.trace.tracks)
        for (const PerfettoSlice& slice : decoder.trace.slices(uuid))
            if (slice.end < slice.begin || slice.begin < 0) decoder.trace.faults.push_back("a slice that does not end: " + slice.name);
    return std::move(decoder.trace);
}

}  // namespace polter::test
