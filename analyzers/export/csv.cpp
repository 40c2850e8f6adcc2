// SPDX-License-Identifier: BSD-3-Clause
#include "csv.hpp"

#include <fmt/format.h>

#include "replay/base/printable.hpp"

namespace polter::exports {

std::string csv_field(std::string_view text) {
    std::string out = replay::valid_utf8(text);
    if (out.find_first_of(",\"\r\n") == std::string::npos && !out.starts_with(' ') && !out.ends_with(' ')) return out;
    std::string quoted = "\"";
    for (const char character : out) {
        quoted += character;
        if (character == '"') quoted += '"';
    }
    return quoted + '"';
}

CsvWriter::CsvWriter(Target& target)
    : calls_(target.open("calls.csv")),
      messages_(target.open("messages.csv")),
      noise_(target.open("noise.csv")),
      counters_(target.open("counters.csv")) {
    calls_->write("timeline,rank,thread,call,depth,operation,mpi,begin_ns,end_ns\r\n");
    messages_->write("timeline,rank,thread,message,role,peer_rank,communicator,tag,size_bytes,time_ns\r\n");
    noise_->write("timeline,rank,thread,kind,source,culprit,begin_ns,end_ns\r\n");
    counters_->write("timeline,rank,thread,counter,unit,time_ns,value\r\n");
}

void CsvWriter::start(const Group& group) {
    TimelineWriter::start(group);
    fields_.assign(group.definitions->region_names.size(), "");
}

void CsvWriter::begin(const Place& place) {
    TimelineWriter::begin(place);
    open_.clear();
    next_call_ = 0;
    where_ = fmt::format("{},{},{}", group_.name, place.rank, place.thread);
}

void CsvWriter::enter(int64_t time, uint32_t region, bool mpi) {
    open_.push_back({time, region, mpi, next_call_++});
}

void CsvWriter::leave(int64_t time) {
    const Open call = open_.back();
    open_.pop_back();
    ++counts_.calls;
    std::string unknown;
    std::string& name = call.region < fields_.size() ? fields_[call.region] : unknown;
    if (name.empty()) name = csv_field(definitions().region_name(call.region));
    calls_->write(fmt::format("{},{},{},{},{},{},{}\r\n", where_, call.number, open_.size(), name, call.mpi ? 1 : 0, call.begin, time));
}

void CsvWriter::message(const Record& record, uint64_t number, bool sends) {
    const auto comm = definitions().communicators.find(record.comm);
    messages_->write(fmt::format("{},{},{},{},{},{},{},{}\r\n", where_, number == 0 ? "" : fmt::format("{:016x}", number),
                                 sends ? "send" : "receive", record.peer < 0 ? "" : std::to_string(record.peer),
                                 comm == definitions().communicators.end() ? "" : csv_field(comm->second.name), record.tag, record.bytes,
                                 record.time));
}

void CsvWriter::noise(const NoiseSlice& slice) {
    ++counts_.noise;
    const bool service = is_service(slice.account);
    noise_->write(fmt::format("{},{},{},{},{},{}\r\n", where_, service ? "service" : "noise", csv_field(source(slice.account)),
                              slice.culprit == UINT32_MAX ? "" : csv_field(definitions().culprit_name(slice.culprit)), slice.begin,
                              slice.end));
}

void CsvWriter::counter(int64_t time, size_t counter, double value) {
    ++counts_.counters;
    const CounterName& of = group_.counters[counter];
    counters_->write(fmt::format("{},{},{},{},{}\r\n", where_, csv_field(of.name), csv_field(of.unit), time, value));
}

uint64_t CsvWriter::bytes() const {
    return calls_->bytes() + messages_->bytes() + noise_->bytes() + counters_->bytes();
}

void CsvWriter::finish() {
    for (auto* file : {&calls_, &messages_, &noise_, &counters_}) (*file)->close();
}

namespace {

std::string number_or_nothing(const std::optional<double>& value) {
    return value ? fmt::format("{:.6g}", *value) : "";
}

std::string provenance(const replay::Result& result, const char* name) {
    const auto found = result.provenance.find(name);
    return found == result.provenance.end() ? "" : csv_field(found->second);
}

std::string run_table(const replay::Result& r) {
    const bool measured = replay::not_measured(r).empty();
    return fmt::format(
        "trace,program,hosts,mpi,exporter,ranks,events,measured_ns,approximated_ns,approximated_low_ns,approximated_high_ns,"
        "accumulated_noise_ns,local_noise_mean_ns,local_noise_max_ns,amplification,conditional,noise_measured,warnings\r\n"
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\r\n",
        csv_field(r.trace), provenance(r, "PROGRAM"), provenance(r, "HOSTS"), provenance(r, "MPI"), provenance(r, "EXPORTER"), r.ranks,
        r.events, r.measured_ns, r.approximated_ns, r.bounds_low_ns, r.bounds_high_ns, r.accumulated_noise_ns,
        measured ? fmt::format("{:.0f}", r.local.mean) : "", measured ? std::to_string(r.local.max) : "",
        number_or_nothing(r.amplification), r.conditional ? 1 : 0, measured ? 1 : 0, r.warnings.size());
}

std::string rank_table(const replay::Result& r) {
    const bool measured = replay::not_measured(r).empty();
    std::string out = "rank,measured_by,measured_ns,approximated_ns,accumulated_noise_ns,local_noise_ns\r\n";
    for (const auto& rank : r.per_rank)
        out += fmt::format("{},{},{},{},{},{}\r\n", rank.rank, csv_field(rank.measured_by), rank.measured_ns, rank.approximated_ns,
                           rank.accumulated_noise_ns, !measured || rank.measured_by == "none" ? "" : std::to_string(rank.local_noise_ns));
    return out;
}

std::string source_table(const replay::Result& r) {
    std::string out = "kind,source,removed,local_mean_ns,local_max_ns,alone_ns,without_ns,share_ns,amplification\r\n";
    for (const auto& s : r.sources)
        out += fmt::format("noise,{},{},{:.0f},{},{},{},{},{}\r\n", csv_field(s.name), s.removed ? 1 : 0, s.local.mean, s.local.max,
                           s.alone_ns, s.removed ? std::to_string(s.without_ns) : "", s.removed ? std::to_string(s.share_ns) : "",
                           number_or_nothing(s.amplification));
    for (const auto& s : r.services)
        out += fmt::format("service,{},,{:.0f},{},{},,,\r\n", csv_field(s.name), s.local.mean, s.local.max, s.alone_ns);
    return out;
}

std::string rank_source_table(const replay::Result& r) {
    std::string out = "rank,kind,source,local_ns,alone_ns,share_ns\r\n";
    for (const auto& rank : r.per_rank) {
        for (const auto& [name, s] : rank.sources)
            out += fmt::format("{},noise,{},{},{},{}\r\n", rank.rank, csv_field(name), s.local_ns, s.alone_ns, s.share_ns);
        for (const auto& [name, local_ns] : rank.services)
            out += fmt::format("{},service,{},{},,\r\n", rank.rank, csv_field(name), local_ns);
    }
    return out;
}

}  // namespace

uint64_t write_result_tables(Target& target, const replay::Result& result) {
    uint64_t bytes = 0;
    const auto write = [&](const char* name, const std::string& table) {
        const auto file = target.open(name);
        file->write(table);
        file->close();
        bytes += file->bytes();
    };
    write("runs.csv", run_table(result));
    write("ranks.csv", rank_table(result));
    write("sources.csv", source_table(result));
    write("rank_sources.csv", rank_source_table(result));
    return bytes;
}

}  // namespace polter::exports
