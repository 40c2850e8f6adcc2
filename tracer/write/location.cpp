// SPDX-License-Identifier: BSD-3-Clause
#include "location.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <mpi_regions.hpp>

#include "archive.hpp"

namespace polter::write {

Location::Location(Archive& archive, uint64_t id, std::unique_ptr<NoiseFeed> noise)
    : archive_(archive), stopped_(&archive.stopped_), noise_(std::move(noise)), call_sites_(archive.call_site_ids_), id_(id) {}

namespace {

// No sample is suspected below this: what a call records takes a fraction of a microsecond for each of its requests.
constexpr uint64_t suspicious_ns = 5'000;

// In the event files.
uint32_t region_of_program(uint32_t region) {
    return trace::region_count + region;
}

long involuntary_switches() {
    rusage used{};
    return getrusage(RUSAGE_THREAD, &used) == 0 ? used.ru_nivcsw : 0;
}

}  // namespace

void Location::next_sample() {
    calls_in_sample_ = period_;
    if (samples_ >= samples_in_short) period_ = long_sample_period;
    until_sample_ = period_;
}

void Location::begin_sample() {
    flush_in_sample_ns_ = 0;
    switches_ = involuntary_switches();
}

void Location::sample(uint64_t part_ns) {
    part_ns -= std::min(part_ns, flush_in_sample_ns_);
    flush_in_sample_ns_ = 0;
    samples_++;
    if (part_ns > suspicious_ns && involuntary_switches() != switches_) {
        calls_left_out_ += calls_in_sample_;
        return;
    }
    sampled_ns_ += 2 * part_ns * calls_in_sample_;
    sampled_calls_ += calls_in_sample_;
}

uint64_t Location::own_cost_ns() const {
    const double left_out = sampled_calls_ ? static_cast<double>(calls_left_out_) / static_cast<double>(sampled_calls_) : 0;
    return flush_ns_ + sampled_ns_ + static_cast<uint64_t>(static_cast<double>(sampled_ns_) * left_out);
}

OTF2_AttributeList* Location::call_site_attribute(const void* from) {
    if (archive_.stopped()) return nullptr;
    OTF2_AttributeList_AddCallingContextRef(attributes_, trace::attribute_call_site, call_sites_.id(from));
    return attributes_;
}

void Location::failed(OTF2_ErrorCode code) {
    archive_.broken_ = true;
    flushing_.emplace();
    archive_.stop(std::string("writing events failed: ") + OTF2_Error_GetDescription(code), last_);
    archive_.abandon_files();
    flushing_.reset();
}

void Location::end_run() {
    const PollRun run = run_;
    const auto held = held_;
    run_.polls = 0;
    held_.time = 0;
    OTF2_AttributeList* attributes = nullptr;
    if (run.polls > 1 && !archive_.stopped()) {
        OTF2_AttributeList_AddUint32(attributes_, trace::attribute_polls, run.polls);
        OTF2_AttributeList_AddUint64(attributes_, trace::attribute_last_poll, run.last_leave - run.last_enter);
        OTF2_AttributeList_AddUint64(attributes_, trace::attribute_poll_gap, run.longest_gap);
        attributes = attributes_;
    }
    put(OTF2_EvtWriter_Leave, attributes, run.last_leave, run.region);
    if (held.time != 0) enter(held.time, run.region, held.from);
}

uint64_t Location::begin_region(uint32_t region, bool detailed, const void* from) {
    open_.push_back({region, Open::region, detailed});
    if (!detailed) return 0;
    const uint64_t time = event_counters_ ? stamp_before() : early_stamp();
    enter(time, region_of_program(region), from);
    return time;
}

uint64_t Location::end_region(uint32_t region, const char* name, bool detailed) {
    const bool innermost = !open_.empty() && open_.back().kind == Open::region && open_.back().id == region;
    if (!innermost) [[unlikely]] {
        const size_t at = find_open(Open::region, region);
        if (at == open_.size() || std::any_of(open_.begin() + static_cast<ptrdiff_t>(at) + 1, open_.end(), Open::nests))
            archive_.warn(std::string("the region ") + (name ? name : "") +
                          (at < open_.size() ? " ended before regions that began in it: these were ended with it"
                                             : " ended where it was not open (it began before MPI_Init, in another thread, or never)"));
        if (at == open_.size()) return 0;
        const bool any =
            std::any_of(open_.begin() + static_cast<ptrdiff_t>(at), open_.end(), [](const Open& open) { return open.written; });
        const uint64_t time = !any ? 0 : event_counters_ && detailed ? stamp_after() : early_stamp();
        close_from(at, time);
        return time;
    }
    const bool written = open_.back().written;
    open_.pop_back();
    if (!written) return 0;
    const uint64_t time = event_counters_ && detailed ? stamp_after() : early_stamp();
    leave(time, region_of_program(region));
    return time;
}

size_t Location::find_open(Open::Kind kind, uint32_t id) const {
    for (size_t at = open_.size(); at-- > 0;)
        if (open_[at].kind == kind && open_[at].id == id) return at;
    return open_.size();
}

// Teams and forks begin and end beside the regions in which they are.
void Location::close_from(size_t at, uint64_t time) {
    for (size_t i = open_.size(); i-- > at;) {
        if (!Open::nests(open_[i])) continue;
        close(open_[i], time);
        open_.erase(open_.begin() + static_cast<ptrdiff_t>(i));
    }
}

bool Location::closes_early(Open::Kind kind, uint32_t id, uint64_t time) {
    const size_t at = find_open(kind, id);
    if (at == open_.size()) return false;
    if (Open::nests(open_[at])) close_from(at + 1, time);
    open_.erase(open_.begin() + static_cast<ptrdiff_t>(at));
    return true;
}

void Location::close(const Open& open, uint64_t time) {
    if (!open.written) return;
    if (open.kind == Open::region) return leave(time, region_of_program(open.id));
    if (open.kind == Open::openmp) return leave(time, open.id);
    if (open.kind == Open::team) return put(OTF2_EvtWriter_ThreadTeamEnd, nullptr, time, open.id);
    put(OTF2_EvtWriter_ThreadJoin, nullptr, time, OTF2_Paradigm{OTF2_PARADIGM_OPENMP});
}

bool Location::close_regions() {
    settle();
    bool openmp = false;
    for (; !open_.empty(); open_.pop_back()) {
        openmp = openmp || open_.back().kind != Open::region;
        close(open_.back(), last_);
    }
    return openmp;
}

void Location::leave_probe(uint64_t time, uint32_t region, int source, int tag, uint32_t comm, uint8_t any, uint32_t partitioned) {
    settle();
    OTF2_AttributeList_AddInt32(attributes_, trace::attribute_source, source);
    OTF2_AttributeList_AddInt32(attributes_, trace::attribute_tag, tag);
    OTF2_AttributeList_AddCommRef(attributes_, trace::attribute_comm, comm);
    if (any) OTF2_AttributeList_AddUint8(attributes_, trace::attribute_any, any);
    if (partitioned) OTF2_AttributeList_AddUint32(attributes_, trace::attribute_partitioned, partitioned);
    put(OTF2_EvtWriter_Leave, attributes_, time, region);
}

void Location::recv_wildcard(uint64_t time, const Message& m, int source, int tag) {
    OTF2_AttributeList_AddInt32(attributes_, trace::attribute_source, source);
    OTF2_AttributeList_AddInt32(attributes_, trace::attribute_tag, tag);
    put(OTF2_EvtWriter_MpiRecv, attributes_, time, m.peer, m.comm, m.tag, m.bytes);
}

void Location::irecv_request(uint64_t time, uint64_t request, int source, int tag, uint32_t comm, uint32_t partitioned) {
    OTF2_AttributeList_AddInt32(attributes_, trace::attribute_source, source);
    OTF2_AttributeList_AddInt32(attributes_, trace::attribute_tag, tag);
    OTF2_AttributeList_AddCommRef(attributes_, trace::attribute_comm, comm);
    if (partitioned) OTF2_AttributeList_AddUint32(attributes_, trace::attribute_partitioned, partitioned);
    put(OTF2_EvtWriter_MpiIrecvRequest, attributes_, time, request);
}

void Location::collective_request(uint64_t time, uint64_t request, uint32_t comm, uint8_t operation) {
    OTF2_AttributeList_AddCommRef(attributes_, trace::attribute_comm, comm);
    if (operation) OTF2_AttributeList_AddUint8(attributes_, trace::attribute_operation, operation);
    put(OTF2_EvtWriter_NonBlockingCollectiveRequest, attributes_, time, request);
}

void Location::metric(uint64_t time, unsigned account, uint64_t value, const char* culprit) {
    settle();
    OTF2_AttributeList* attributes = nullptr;
    uint32_t by = no_culprit;
    if (culprit && *culprit) {
        by = archive_.string_id(culprit);
        OTF2_AttributeList_AddStringRef(attributes_, trace::attribute_culprit, by);
        attributes = attributes_;
    }
    if (begins_again_) [[unlikely]]
        before_[account] = counters_[account].value_or(0) - value;
    value += before_[account];
    if (auto& counter = counters_[account]; !counter) {
        counter = value;  // the baseline
    } else if (!begins_again_) {
        Taken& taken = taken_[{account, by}];
        taken.ns += value - std::min(*counter, value);
        taken.events++;
        counter = value;
    }
    if (time < last_) {  // records of a location are in order of time; when it was stands beside it
        OTF2_AttributeList_AddUint64(attributes_, trace::attribute_ago, last_ - time);
        attributes = attributes_;
        time = last_;
    }
    const OTF2_Type type = OTF2_TYPE_UINT64;
    OTF2_MetricValue metric;
    metric.unsigned_int = value;
    put(OTF2_EvtWriter_Metric, attributes, time, trace::metric_class_of(account), uint8_t{1}, &type, &metric);
}

bool Location::resume(std::unique_ptr<NoiseFeed> noise) {
    bool is_free = true;
    if (!abandoned_.compare_exchange_strong(is_free, false, std::memory_order_acquire)) return false;
    noise_ = std::move(noise);
    begins_again_ = true;
    if (noise_) noise_->write_baseline(now(), *this);
    begins_again_ = false;
    return true;
}

uint64_t Location::end_startup() {
    uint64_t time = stamp();
    if (!noise_) return time;
    // Until all of what was lost is in a record.
    for (int i = 0; i < 100 && noise_->moved(UINT64_MAX); i++) time = stamp();
    return time;
}

void Location::close_noise() {
    // The thread at its end and MPI_Finalize may both want it.
    const std::lock_guard lock(archive_.mutex_);
    settle();
    if (!noise_) return;
    noise_->close();
    dropped_ += noise_->dropped();
    dropped_ns_ += noise_->dropped_ns();
    exporter_ended_ns_ = noise_->exporter_ended_ns();
    noise_.reset();
}

}  // namespace polter::write
