// SPDX-License-Identifier: BSD-3-Clause
#include "chrome.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "replay/base/printable.hpp"

namespace polter::exports {

namespace {

constexpr const char* mark = "\"writer\":\"polter export\"";
// Threads of a rank: its calls are thread 0, further threads follow, noise and services of thread T are beyond these.
constexpr int32_t noise_threads = 100'000, service_threads = 200'000;

std::string quoted(const std::string& text) {
    return nlohmann::json(replay::valid_utf8(text)).dump();
}

std::string microseconds(int64_t ns) {
    return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

}  // namespace

Target::Kind ChromeWriter::kind() {
    return {"Chrome trace", mark, false};
}

ChromeWriter::ChromeWriter(OutputFile& out, const std::string& trace, std::function<void(uint64_t)> check)
    : out_(out), check_(std::move(check)) {
    out_.write(fmt::format("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{{},\"trace\":{}}},\"traceEvents\":[", mark, quoted(trace)));
}

void ChromeWriter::event(char phase, const std::string& name, int64_t time, int32_t thread, const std::string& rest) {
    out_.write(fmt::format("{}\n{{\"ph\":\"{}\",\"name\":{},\"pid\":{},\"tid\":{},\"ts\":{}{}}}", first_ ? "" : ",", phase, name,
                           process_number(), thread, microseconds(time), rest));
    first_ = false;
    check_(out_.bytes());
}

void ChromeWriter::name_thread(int32_t thread, const std::string& name) {
    if (!named_.emplace(process_number(), thread).second) return;
    event('M', "\"thread_name\"", 0, thread, fmt::format(",\"args\":{{\"name\":{}}}", quoted(name)));
    event('M', "\"thread_sort_index\"", 0, thread, fmt::format(",\"args\":{{\"sort_index\":{}}}", thread));
}

void ChromeWriter::start(const Group& group) {
    TimelineWriter::start(group);
    quoted_.assign(group.definitions->region_names.size(), "");
}

void ChromeWriter::begin(const Place& place) {
    TimelineWriter::begin(place);
    open_.clear();
    if (named_.emplace(process_number(), -1).second) {
        event('M', "\"process_name\"", 0, 0,
              fmt::format(",\"args\":{{\"name\":{}}}", quoted(fmt::format("{}: rank {}", group_.name, place.rank))));
        event('M', "\"process_sort_index\"", 0, 0, fmt::format(",\"args\":{{\"sort_index\":{}}}", process_number()));
    }
    name_thread(place.thread, place.thread == 0 ? "MPI calls" : fmt::format("thread {}", place.thread));
}

void ChromeWriter::enter(int64_t time, uint32_t region, bool mpi) {
    open_.push_back({time, region, mpi});
}

void ChromeWriter::leave(int64_t time) {
    const Open call = open_.back();
    open_.pop_back();
    ++counts_.calls;
    std::string unknown;
    std::string& name = call.region < quoted_.size() ? quoted_[call.region] : unknown;
    if (name.empty()) name = quoted(definitions().region_name(call.region));
    event('X', name, call.begin, place_.thread,
          fmt::format(",\"dur\":{},\"cat\":\"{}\"", microseconds(time - call.begin), call.mpi ? "MPI" : "code"));
}

void ChromeWriter::message(const Record& record, uint64_t number, bool sends) {
    if (number == 0) return;  // a flow has two ends
    const std::string to = record.peer < 0 ? "" : fmt::format("\"peer rank\":{},", record.peer);
    event(sends ? 's' : 'f', "\"message\"", record.time, place_.thread,
          fmt::format(",\"cat\":\"message\",\"id\":\"0x{:x}\"{},\"args\":{{{}\"bytes\":{},\"tag\":{}}}", number ^ group_.number,
                      sends ? "" : ",\"bp\":\"e\"", to, record.bytes, record.tag));
}

int32_t ChromeWriter::noise_thread(bool services) {
    const int32_t thread = (services ? service_threads : noise_threads) + place_.thread;
    const char* name = services ? "OS services" : "OS noise";
    name_thread(thread, place_.thread == 0 ? name : fmt::format("{}, thread {}", name, place_.thread));
    return thread;
}

void ChromeWriter::noise(const NoiseSlice& slice) {
    ++counts_.noise;
    const bool service = is_service(slice.account);
    const std::string by =
        slice.culprit == UINT32_MAX ? "" : fmt::format(",\"args\":{{\"culprit\":{}}}", quoted(definitions().culprit_name(slice.culprit)));
    event('X', quoted(source(slice.account)), slice.begin, noise_thread(service),
          fmt::format(",\"dur\":{},\"cat\":\"{}\"{}", microseconds(slice.end - slice.begin), service ? "service" : "noise", by));
}

void ChromeWriter::counter(int64_t time, size_t counter, double value) {
    ++counts_.counters;
    const CounterName& of = group_.counters[counter];
    const std::string name = place_.thread == 0 ? of.name : fmt::format("{}, thread {}", of.name, place_.thread);
    // JSON has neither infinities nor NaN: dump() writes null for them.
    event('C', quoted(name), time, place_.thread,
          fmt::format(",\"args\":{{{}:{}}}", quoted(of.unit.empty() ? "value" : of.unit), nlohmann::json(value).dump()));
}

void ChromeWriter::finish() {
    out_.write("\n]}\n");
}

}  // namespace polter::exports
