// SPDX-License-Identifier: BSD-3-Clause
#include "group.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace polter::replay {

namespace {

constexpr size_t full_batch = 64 * 1024;  // bytes
constexpr size_t awaited_batch = 1024;    // with larger ones the receiver waits; with smaller ones sending costs more than the records
constexpr size_t most_spare = 64;         // batches
constexpr int polls_before_wave = 32;     // mostly a record is under way: asking all whether any is takes longer
constexpr auto patience = std::chrono::seconds(10);

}  // namespace

Group::Group(std::unique_ptr<Transport> transport)
    : transport_(std::move(transport)), batches_(static_cast<size_t>(size())), awaited_(batches_.size(), false) {
    wave_ = gather_ = {std::vector<Bytes>(static_cast<size_t>(size())), size()};
}

namespace {

// With room for the kind, which is put behind it.
Bytes copied(const Bytes& bytes) {
    Bytes copy;
    copy.data.reserve(bytes.data.size() + 1);
    copy.data.assign(bytes.data.begin(), bytes.data.end());
    return copy;
}

}  // namespace

void Group::send(int to, Kind kind, Bytes bytes) {
    bytes.data.push_back(static_cast<uint8_t>(kind));
    transport_->send(to, std::move(bytes.data));
}

// Memory of batches that were received, for the next ones.
Bytes Group::spare() {
    Bytes bytes;
    if (spare_.empty()) {
        bytes.data.reserve(2 * awaited_batch);
    } else {
        bytes = std::move(spare_.back());
        spare_.pop_back();
        bytes.data.clear();
    }
    return bytes;
}

void Group::send_batch(int to) {
    send(to, Kind::records, std::exchange(batches_[static_cast<size_t>(to)], spare()));
    awaited_[static_cast<size_t>(to)] = false;
    ++sent_;
}

void Group::written(int process, bool awaited) {
    if (awaited) awaited_[static_cast<size_t>(process)] = true;
    if (to(process).data.size() >= (awaited ? awaited_batch : full_batch)) send_batch(process);
}

void Group::flush(bool all) {
    for (int process = 0; process < size(); ++process)
        if (!to(process).data.empty() && (all || awaited_[static_cast<size_t>(process)])) send_batch(process);
}

bool Group::deliver(const std::function<void(int, const Bytes&)>& handle) {
    while (poll()) {
    }
    if (inbox_.empty()) return false;
    idle_ = 0;
    while (!inbox_.empty()) {
        auto [from, bytes] = std::move(inbox_.front());
        inbox_.pop_front();
        ++received_;
        handle(from, bytes);
        if (spare_.size() < most_spare) spare_.push_back(std::move(bytes));
    }
    return true;
}

bool Group::poll() {
    int from = 0;
    if (spare_.empty()) spare_.push_back(spare());
    if (!transport_->receive(&from, &spare_.back().data)) return false;
    Bytes bytes = std::move(spare_.back());
    spare_.pop_back();
    const Kind kind = static_cast<Kind>(bytes.data.back());
    bytes.data.pop_back();
    switch (kind) {
        case Kind::records:
            if (!closing_) inbox_.emplace_back(from, std::move(bytes));
            break;
        case Kind::wave:
        case Kind::gather:
            heard(kind, from, std::move(bytes));
            break;
        case Kind::wave_result:
            wave_result_ = split(bytes);
            break;
        case Kind::gather_result:
            gather_result_ = split(bytes);
            break;
        case Kind::error:
            if (!closing_) throw PeerError(std::string(bytes.data.begin(), bytes.data.end()));
            break;
        case Kind::end:
            ++ended_;
            break;
    }
    return true;
}

// Process 0 collects the contributions and sends the result to all.
void Group::say(Kind kind, const Bytes& mine) {
    if (rank() == 0)
        heard(kind, 0, mine);
    else
        send(0, kind, copied(mine));
}

void Group::heard(Kind kind, int from, Bytes bytes) {
    Round& round = kind == Kind::wave ? wave_ : gather_;
    round.said[static_cast<size_t>(from)] = std::move(bytes);
    if (--round.missing > 0) return;
    round.missing = size();
    Bytes result;
    for (const Bytes& said : round.said) result.put(said);
    const Kind answer = kind == Kind::wave ? Kind::wave_result : Kind::gather_result;
    for (int process = 1; process < size(); ++process) send(process, answer, copied(result));
    (kind == Kind::wave ? wave_result_ : gather_result_) = split(result);
}

std::vector<Bytes> Group::split(const Bytes& result) {
    std::vector<Bytes> said;
    for (Input input(result); !input.empty();) input.get(said.emplace_back());
    return said;
}

std::vector<Bytes> Group::quiet(const Bytes& mine) {
    if (!waving_ && idle_ < polls_before_wave) {
        rest(++idle_);
        return {};
    }
    if (!waving_) {
        waving_ = true;
        Bytes counted;
        counted.put(sent_);
        counted.put(received_);
        counted.put(mine);
        say(Kind::wave, counted);
    }
    if (wave_result_.empty()) {
        rest(++idle_);
        return {};
    }
    waving_ = false;
    idle_ = 0;
    uint64_t sent = 0, received = 0;
    std::vector<Bytes> said;
    for (const Bytes& one : std::exchange(wave_result_, {})) {
        Input input(one);
        sent += input.get<uint64_t>();
        received += input.get<uint64_t>();
        input.get(said.emplace_back());
    }
    const bool over = sent == received_before_;
    received_before_ = received;
    if (!over) said.clear();
    return said;
}

void Group::rest(int idle) {
    if (idle > 64) sched_yield();
    if (idle > 4096) usleep(50);
}

std::vector<Bytes> Group::gather(const Bytes& mine) {
    say(Kind::gather, mine);
    for (int idle = 0; gather_result_.empty(); ++idle) {
        if (poll()) continue;
        rest(idle);
    }
    return std::exchange(gather_result_, {});
}

void Group::fail(const std::string& why) {
    Bytes text;
    text.put(why.data(), why.size());
    for (int process = 0; process < size(); ++process)
        if (process != rank()) send(process, Kind::error, text);
}

void Group::close(bool failed) {
    closing_ = true;
    inbox_.clear();
    for (int process = 0; process < size(); ++process)
        if (process != rank()) send(process, Kind::end, {});
    const auto until = std::chrono::steady_clock::now() + patience;
    for (unsigned us = 50; ended_ < size() - 1;) {
        if (poll()) continue;
        if (failed && std::chrono::steady_clock::now() > until) transport_->abort(1);
        usleep(us);
        us = std::min(2 * us, 2000u);  // one process may replay alone: the others leave it the cores
    }
    transport_->close();
}

}  // namespace polter::replay
