// SPDX-License-Identifier: BSD-3-Clause
#include "program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "replay/base/printable.hpp"

namespace polter::exports {

namespace {

using Kind = Record::Kind;

constexpr uint32_t own_tags = 1u << 20;         // tags on the communicator of all ranks that stay as they are
constexpr uint32_t collective_tags = 1u << 31;  // and above; the last one stands for any tag

// LogGOPSim charges size − 1 bytes.
uint64_t message_size(double bytes) {
    return bytes < 1 ? 1 : static_cast<uint64_t>(std::llround(bytes));
}

}  // namespace

GoalWriter::GoalWriter(OutputFile& out, const std::string& trace, const replay::Definitions& definitions, const GoalSurvey& survey,
                       GoalAlgorithms& algorithms)
    : out_(out), definitions_(definitions), survey_(survey), algorithms_(algorithms) {
    out_.write(
        fmt::format("{} program of {}\n// computation without noise in ns; messages of collectives have tags from {} on\nnum_ranks {}\n",
                    kind().mark, replay::printable(trace), collective_tags, definitions.ranks));
}

void GoalWriter::begin(const Place& place) {
    place_ = place;
    numbers_.clear();
    ops_.clear();
    dependencies_.clear();
    chain_ = {};
    requests_.clear();
    collective_requests_.clear();
    call_.clear();
    open_.clear();
    since_ = noise_ns_ = last_call_ = 0;
    in_mpi_ = next_late_ = 0;
    started_ = false;
}

uint32_t GoalWriter::add(const Op& op, bool blocks) {
    const auto label = static_cast<uint32_t>(ops_.size());
    ops_.push_back(op);
    auto& awaited = chain_.waits_for;
    std::sort(awaited.begin(), awaited.end());
    awaited.erase(std::unique(awaited.begin(), awaited.end()), awaited.end());
    const bool last_too = std::binary_search(awaited.begin(), awaited.end(), chain_.last);
    if (chain_.last != none) dependencies_.push_back({label, chain_.last, !chain_.blocks && !last_too});
    for (const uint32_t on : awaited)
        if (on != chain_.last) dependencies_.push_back({label, on, false});
    chain_ = {label, blocks, {}};
    return label;
}

// The call ends with it. All that a call does is under way at once, as in MPI_Sendrecv.
void GoalWriter::block(uint32_t label) {
    (in_mpi_ > 0 ? call_ : chain_.waits_for).push_back(label);
}

// The computation since the last MPI call, without its noise.
void GoalWriter::compute(int64_t until) {
    int64_t ns = until - since_ - noise_ns_;
    const auto& late = survey_.late_noise(place_.rank);
    while (next_late_ < late.size() && late[next_late_].second <= since_) ++next_late_;
    for (size_t i = next_late_; i < late.size() && late[i].first < until; ++i)
        ns -= std::min(until, late[i].second) - std::max(since_, late[i].first);
    noise_ns_ = 0;
    if (ns <= 0) return;
    ++counts_.computations;
    add({.type = Op::Type::calc, .size = static_cast<uint64_t>(ns), .channel = {}}, true);
}

void GoalWriter::enter(int64_t time, uint32_t, bool mpi) {
    if (place_.thread > 0) return;
    if (!started_) since_ = time;
    started_ = true;
    last_call_ = time;
    if (mpi && in_mpi_++ == 0) compute(time);
    open_.push_back(mpi);
}

void GoalWriter::leave(int64_t time) {
    if (place_.thread > 0) return;
    last_call_ = time;
    const bool mpi = open_.back();
    open_.pop_back();
    if (!mpi || --in_mpi_ > 0) return;
    chain_.waits_for.insert(chain_.waits_for.end(), call_.begin(), call_.end());
    call_.clear();
    since_ = time;
    noise_ns_ = 0;
}

void GoalWriter::noise(const NoiseSlice& slice) {
    const bool service = definitions_.accounts[static_cast<size_t>(slice.account)].service;
    if (place_.thread > 0 || in_mpi_ > 0 || service || slice.end <= last_call_) return;
    noise_ns_ += slice.end - std::max(slice.begin, since_);
}

void GoalWriter::record(const Record& record) {
    if (place_.thread > 0) {
        counts_.left_out_records += record.kind != Kind::isend_complete;
        return;
    }
    const Channel sent{place_.rank, record.peer, record.comm, record.tag, record.partitioned};
    const Channel received{record.peer, place_.rank, record.comm, record.tag, record.partitioned};
    const uint64_t size = message_size(static_cast<double>(record.bytes));
    switch (record.kind) {
        case Kind::send:
            block(add({.type = Op::Type::send, .size = size, .channel = sent}, false));
            return;
        case Kind::isend:
            requests_[record.request] = add({.type = Op::Type::send, .size = size, .channel = sent}, false);
            return;
        case Kind::receive:
            block(add({.type = Op::Type::receive, .size = size, .channel = received}, false));
            return;
        case Kind::post:
            requests_[record.request] = add({.type = Op::Type::receive, .pending = true, .size = 1, .channel = received}, false);
            return;
        case Kind::isend_complete:
        case Kind::irecv:
        case Kind::cancelled: {
            const auto found = requests_.find(record.request);
            if (found != requests_.end()) {
                if (record.kind == Kind::irecv) ops_[found->second] = {.type = Op::Type::receive, .size = size, .channel = received};
                if (record.kind != Kind::cancelled) chain_.waits_for.push_back(found->second);
                requests_.erase(found);
            } else if (record.kind == Kind::irecv) {  // posted without a record
                block(add({.type = Op::Type::receive, .size = size, .channel = received}, false));
            }
            return;
        }
        case Kind::collective_request:
            numbers_.request(record);
            collective_requests_[record.request] = chain_;
            return;
        case Kind::collective:
        case Kind::collective_complete:
        case Kind::window_collective:
            return collective(record);
        case Kind::unknown:
            ++counts_.left_out_records;
            return;
    }
}

void GoalWriter::collective(const Record& record) {
    const auto comm = definitions_.communicators.find(record.comm);
    if (comm == definitions_.communicators.end() || comm->second.self) return;
    const uint64_t number = numbers_.number(record);
    const auto members = static_cast<uint32_t>(comm->second.ranks.size());
    if (members < 2 && comm->second.remote.empty()) return;
    const GoalSurvey::Collective* one = survey_.collective(record.comm, number);
    if (!comm->second.remote.empty() || !one || one->members != members) {
        ++counts_.left_out_collectives;
        return;
    }
    const uint64_t data = GoalSurvey::data(*one, members);
    const bool nonblocking = record.kind == Kind::collective_complete;
    const auto& choice = algorithms_.of(one->operation, nonblocking, members, data);
    if (!choice.pattern) return;
    ++counts_.collectives;
    counts_.by_learned_algorithm += choice.learned;
    const auto begun = collective_requests_.find(record.request);
    if (!nonblocking || begun == collective_requests_.end()) return expand(*choice.pattern, record.comm, one->root, data, number);
    // Its messages follow what came before its start; what comes behind its completion waits for them.
    Chain now = std::exchange(chain_, begun->second);
    collective_requests_.erase(begun);
    const size_t before = ops_.size();
    expand(*choice.pattern, record.comm, one->root, data, number);
    if (ops_.size() > before && chain_.last != none) now.waits_for.push_back(chain_.last);
    now.waits_for.insert(now.waits_for.end(), chain_.waits_for.begin(), chain_.waits_for.end());
    chain_ = std::move(now);
}

// This member's steps.
void GoalWriter::expand(const replay::Pattern& pattern, uint32_t comm, uint32_t root, uint64_t data, uint64_t number) {
    const auto& ranks = definitions_.communicators.at(comm).ranks;
    const auto members = static_cast<uint32_t>(ranks.size());
    const auto self = std::find(ranks.begin(), ranks.end(), place_.rank);
    if (self == ranks.end()) return;
    if (root >= members) root = 0;
    const uint32_t first = replay::first_member(pattern, root);
    const auto place = (static_cast<uint32_t>(self - ranks.begin()) + members - first) % members;
    const replay::Schedule& schedule = replay::schedule(pattern, members, root, true);
    const auto tag = collective_tags + static_cast<uint32_t>((uint64_t{comm} * 0x9e3779b97f4a7c15 + number) % (collective_tags - 1));
    std::unordered_map<uint32_t, uint32_t> labels;  // by message
    const auto operation = [&](const replay::Schedule::Step& step, Op::Type type) {
        const int32_t peer = ranks[(step.peer + first) % members];
        const Channel channel = type == Op::Type::send ? Channel{place_.rank, peer, comm, tag} : Channel{peer, place_.rank, comm, tag};
        const uint64_t size = message_size(schedule.shares[step.message] * static_cast<double>(data));
        labels[step.message] = add({.type = type, .collective = true, .size = size, .channel = channel}, false);
    };
    using Step = replay::Schedule::Kind;
    for (const auto& step : schedule.steps[place]) {
        if (step.kind == Step::send) operation(step, Op::Type::send);
        if (step.kind == Step::post || (step.kind == Step::receive && !labels.contains(step.message))) operation(step, Op::Type::receive);
        if (step.kind == Step::receive || step.kind == Step::complete) chain_.waits_for.push_back(labels.at(step.message));
    }
}

uint32_t GoalWriter::written_tag(const Op& op) {
    const Channel& channel = op.channel;
    if (op.collective || (channel.comm == definitions_.world && channel.partitioned == 0 && channel.tag < own_tags)) return channel.tag;
    const auto next = own_tags + static_cast<uint32_t>(tags_.size());
    return tags_.try_emplace({channel.comm, channel.tag, channel.partitioned}, next).first->second;
}

void GoalWriter::open_rank() {
    for (; next_rank_ < place_.rank; ++next_rank_) out_.write(fmt::format("rank {} {{\nl0: calc 0\n}}\n", next_rank_));
    out_.write(fmt::format("rank {} {{\n", next_rank_++));
}

void GoalWriter::write_rank() {
    std::map<Channel, uint64_t> written[2];  // received, sent: a rank may send to itself
    size_t next = 0;
    for (size_t label = 0; label < ops_.size(); ++label) {
        const Op& op = ops_[label];
        // A message with one end only would wait for ever. Its place in the order stays.
        const bool message = op.type != Op::Type::calc;
        const bool whole = message && !op.pending &&
                           (op.collective || written[op.type == Op::Type::send][op.channel]++ < survey_.whole_messages(op.channel));
        if (!message) {
            out_.write(fmt::format("l{}: calc {}\n", label, op.size));
        } else if (!whole) {
            out_.write(fmt::format("l{}: calc 0\n", label));
        } else if (op.type == Op::Type::send) {
            ++counts_.sends;
            out_.write(fmt::format("l{}: send {}b to {} tag {}\n", label, op.size, op.channel.to, written_tag(op)));
        } else {
            ++counts_.receives;
            out_.write(fmt::format("l{}: recv {}b from {} tag {}\n", label, op.size, op.channel.from, written_tag(op)));
        }
        for (; next < dependencies_.size() && dependencies_[next].of == label; ++next)
            out_.write(fmt::format("l{} {} l{}\n", label, dependencies_[next].start ? "irequires" : "requires", dependencies_[next].on));
    }
    if (ops_.empty()) out_.write("l0: calc 0\n");
}

void GoalWriter::end() {
    if (place_.thread > 0) return;
    if (in_mpi_ == 0) compute(last_call_);
    open_rank();
    write_rank();
    out_.write("}\n");
}

void GoalWriter::finish() {
    for (; next_rank_ < definitions_.ranks; ++next_rank_) out_.write(fmt::format("rank {} {{\nl0: calc 0\n}}\n", next_rank_));
}

}  // namespace polter::exports
