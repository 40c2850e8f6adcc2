// SPDX-License-Identifier: BSD-3-Clause
#include "segments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analyzers/export/timeline_reader.hpp"
#include "assemble.hpp"
#include "replay/base/error.hpp"
#include "replay/base/printable.hpp"

namespace polter::interference {

namespace {

using exports::Record;
using replay::CallKind;
using replay::Definitions;

// All members wait for all, by MPI's semantics or by what an implementation cannot avoid.
bool joins_all(uint8_t operation) {
    switch (operation) {
        case OTF2_COLLECTIVE_OP_BARRIER:
        case OTF2_COLLECTIVE_OP_ALLREDUCE:
        case OTF2_COLLECTIVE_OP_ALLGATHER:
        case OTF2_COLLECTIVE_OP_ALLGATHERV:
        case OTF2_COLLECTIVE_OP_ALLTOALL:
        case OTF2_COLLECTIVE_OP_ALLTOALLV:
        case OTF2_COLLECTIVE_OP_ALLTOALLW:
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER:
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK:
            return true;
        default:
            return false;
    }
}

bool is_poll(CallKind kind) {
    return kind == CallKind::poll || kind == CallKind::poll_matched || kind == CallKind::part_arrived || kind == CallKind::poll_any;
}

uint64_t mixed(uint64_t x) {  // splitmix64's finaliser
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// The counter that tells how much was computed: floating-point operations where there are any, else instructions.
int32_t computing_counter(const Definitions& definitions) {
    for (const char* wanted : {"FP_OPS", "FP_INS", "FP_ARITH", "DP_OPS", "SP_OPS", "TOT_INS", "INSTRUCTIONS", "instructions"})
        for (size_t i = 0; i < definitions.counters.size(); ++i)
            if (definitions.counters[i].name.find(wanted) != std::string::npos) return static_cast<int32_t>(i);
    return -1;
}

// Cuts one rank's events at the collectives. Derived classes take what they need of a segment.
class Cutter : public exports::Sink {
  public:
    explicit Cutter(const Definitions& definitions) : definitions_(definitions) {}
    void begin(const exports::Place& place) override {
        skipped_ = place.thread > 0;
        rank_ = place.rank;
        open_.clear();
        ends_here_ = begun_ = false;
    }
    void enter(int64_t time, uint32_t region, bool mpi) override {
        last_ = time;
        if (!skipped_) called(region, mpi && depth() == 0);
        if (mpi && depth() == 0) entered_ = time;
        open_.push_back(mpi);
    }
    void leave(int64_t time) override {
        last_ = time;
        if (open_.empty()) return;
        const bool mpi = open_.back();
        open_.pop_back();
        if (skipped_ || !mpi || depth() > 0) return;
        left();
        if (!std::exchange(ends_here_, false)) return;
        ended(time, begun_);
        begun_ = true;
    }
    void record(const Record& record) override {
        if (skipped_) return;
        communicated(record);
        ends_here_ = ends_here_ || (record.kind == Record::Kind::collective && joins_all(record.operation) && is_global(record.comm));
    }

  protected:
    virtual void called(uint32_t /*region*/, bool /*outermost MPI call*/) {}
    virtual void left() {}  // an outermost MPI call
    virtual void communicated(const Record&) {}
    virtual void ended(int64_t time, bool whole) = 0;  // whole: false for what lies before the first collective
    int64_t depth() const { return std::count(open_.begin(), open_.end(), true); }

    const Definitions& definitions_;
    int32_t rank_ = 0;
    int64_t entered_ = 0, last_ = 0;
    bool skipped_ = false;

  private:
    bool is_global(uint32_t comm) const {
        const auto found = definitions_.communicators.find(comm);
        return found != definitions_.communicators.end() && !found->second.self && found->second.remote.empty() &&
               found->second.ranks.size() == static_cast<size_t>(definitions_.ranks);
    }
    std::vector<bool> open_;
    bool ends_here_ = false, begun_ = false;
};

class Collector : public Cutter {
  public:
    explicit Collector(const Definitions& definitions)
        : Cutter(definitions), counter_(computing_counter(definitions)), ranks_(static_cast<size_t>(definitions.ranks)) {}

    void begin(const exports::Place& place) override {
        Cutter::begin(place);
        reset();
        value_ = base_ = 0;
        counted_ = false;
    }
    void counter(int64_t, size_t index, double value) override {
        if (skipped_ || static_cast<int32_t>(index) != counter_) return;
        if (!std::isfinite(value))
            throw replay::InputError(fmt::format("rank {}: the counter {} is no number; record the run again, or without that counter",
                                                 rank_, replay::printable(definitions_.counters[index].name)));
        if (!std::exchange(counted_, true)) base_ = value;
        value_ = value;
    }
    void end() override {
        if (!skipped_) ranks_[static_cast<size_t>(rank_)].last = last_;
    }
    std::vector<RankSegments>& ranks() { return ranks_; }
    std::vector<Features> calls() const {
        std::vector<Features> list(known_.size());
        for (const auto& [features, id] : known_) list[id] = features;
        return list;
    }
    std::string counter_name() const { return counter_ < 0 ? "" : definitions_.counters[static_cast<size_t>(counter_)].name; }

  protected:
    void called(uint32_t region, bool outermost) override {
        if (outermost) computing_ += value_ - base_;
        if (is_poll(definitions_.kind(region))) return;
        if (called_.insert(region).second) now_[functions] ^= mixed(region);
        if (!outermost) return;
        const std::string name = region < definitions_.region_names.size() ? definitions_.region_name(region) : "";
        if (!name.starts_with("MPI_File_")) return;
        if (name == "MPI_File_open" || name == "MPI_File_close") ++now_[files_opened];
        if (name.find("read") != std::string::npos) ++now_[file_reads];
        if (name.find("write") != std::string::npos) ++now_[file_writes];
    }
    void left() override { base_ = value_; }
    void communicated(const Record& record) override {
        switch (record.kind) {
            case Record::Kind::send:
                ++now_[sends];
                now_[bytes_sent] += record.bytes;
                break;
            case Record::Kind::isend:
                ++now_[sends_begun];
                now_[bytes_sent] += record.bytes;
                break;
            case Record::Kind::receive:
                ++now_[receives];
                now_[bytes_received] += record.bytes;
                break;
            case Record::Kind::post:
                ++now_[receives_begun];
                break;
            case Record::Kind::irecv:
                now_[bytes_received] += record.bytes;
                break;
            case Record::Kind::collective:
            case Record::Kind::collective_complete:
                ++now_[class_of(record.operation)];
                now_[bytes_sent] += record.bytes;
                now_[bytes_received] += record.received;
                break;
            default:
                break;
        }
    }
    void ended(int64_t time, bool whole) override {
        RankSegments& rank = ranks_[static_cast<size_t>(rank_)];
        if (whole) {
            rank.ends.push_back(time);
            rank.entered.push_back(entered_);
            rank.computing.push_back(computing_);
            rank.calls.push_back(known_.try_emplace(now_, static_cast<uint32_t>(known_.size())).first->second);
        } else {
            rank.first = time;
        }
        reset();
    }

  private:
    static Feature class_of(uint8_t operation) {
        switch (replay::collective_waits(operation)) {
            case replay::Waits::n_to_n:
            case replay::Waits::n_to_n_likely:
                return collectives_all;
            case replay::Waits::one_to_n:
                return collectives_from_one;
            case replay::Waits::n_to_one:
                return collectives_to_one;
            default:
                return collectives_other;
        }
    }
    void reset() {
        now_ = {};
        called_.clear();
        computing_ = 0;
    }
    int32_t counter_;
    std::vector<RankSegments> ranks_;
    std::map<Features, uint32_t> known_;
    Features now_{};
    std::set<uint32_t> called_;
    double value_ = 0, base_ = 0, computing_ = 0;
    bool counted_ = false;
};

}  // namespace

Run read_segments(const std::string& trace, int64_t origin) {
    replay::Archive archive(trace);
    const Definitions& definitions = archive.definitions();
    Run run;
    run.trace = trace;
    run.ranks = definitions.ranks;
    run.provenance = definitions.properties;
    run.resolution_ns = std::max<int64_t>(1, static_cast<int64_t>(1'000'000'000 / std::max<uint64_t>(1, definitions.ticks_per_second)));
    const std::string name = archive.anchor();
    if (definitions.ranks < 2)
        throw replay::InputError(name + ": has one rank; interference shows where ranks wait for each other, so trace two or more");
    Collector collector(definitions);
    const exports::ReadResult read = exports::read_timeline(archive, origin, {}, collector);
    if (read.damaged_locations + read.unreadable_locations > 0)
        run.warnings.push_back(
            fmt::format("the events of {} locations are damaged or cannot be read: segments end where the first of them "
                        "does",
                        read.damaged_locations + read.unreadable_locations));
    run.counter = collector.counter_name();
    assemble(run, name, collector.ranks(), collector.calls());
    return run;
}

namespace {

class NoiseCollector : public Cutter {
  public:
    using Causes = std::map<std::pair<int32_t, uint32_t>, int64_t>;
    struct OfRank {
        int64_t entered = 0;
        Causes causes;
    };
    NoiseCollector(const Definitions& definitions, const std::vector<size_t>& wanted)
        : Cutter(definitions), wanted_(wanted.begin(), wanted.end()) {}
    void begin(const exports::Place& place) override {
        Cutter::begin(place);
        segment_ = 0;
        now_.clear();
    }
    void noise(const exports::NoiseSlice& slice) override {
        if (!skipped_ && !definitions_.accounts[static_cast<size_t>(slice.account)].service)
            now_[{slice.account, slice.culprit}] += slice.end - slice.begin;
    }
    std::map<size_t, std::vector<OfRank>> found;  // by segment, in the order of ranks

  protected:
    void ended(int64_t, bool whole) override {
        if (whole) {
            if (wanted_.contains(segment_)) found[segment_].push_back({entered_, std::move(now_)});
            ++segment_;
        }
        now_.clear();
    }

  private:
    std::set<size_t> wanted_;
    size_t segment_ = 0;
    Causes now_;
};

}  // namespace

std::map<size_t, SegmentNoise> read_noise(const std::string& trace, int64_t origin, const Run& run, const std::vector<size_t>& wanted) {
    replay::Archive archive(trace);
    const Definitions& definitions = archive.definitions();
    NoiseCollector collector(definitions, wanted);
    exports::read_timeline(archive, origin, {}, collector);
    std::map<size_t, SegmentNoise> noise;
    for (const auto& [segment, ranks] : collector.found) {
        if (segment >= run.segments.size() || ranks.empty()) continue;
        NoiseCollector::Causes causes =
            std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.entered < b.entered; })->causes;
        if (causes.empty())
            for (const auto& rank : ranks)
                for (const auto& [cause, ns] : rank.causes) causes[cause] += ns;
        for (const auto& [cause, ns] : causes)
            noise[segment].by_cause[{replay::display_name(definitions.accounts[static_cast<size_t>(cause.first)]),
                                     definitions.culprit_name(cause.second)}] += ns;
    }
    return noise;
}

}  // namespace polter::interference
