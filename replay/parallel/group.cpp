// SPDX-License-Identifier: BSD-3-Clause
#include "group.hpp"

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace polter::replay {

namespace {

constexpr size_t full_batch = 64 * 1024;  // bytes
constexpr auto patience = std::chrono::seconds(10);

}  // namespace

Group::Group(std::unique_ptr<Transport> transport) : transport_(std::move(transport)), batches_(static_cast<size_t>(size())) {
    wave_ = gather_ = {std::vector<Bytes>(static_cast<size_t>(size())), size()};
}

void Group::send(int to, Kind kind, const Bytes& bytes) {
    std::vector<uint8_t> message;
    message.reserve(bytes.data.size() + 1);
    message.push_back(static_cast<uint8_t>(kind));
    message.insert(message.end(), bytes.data.begin(), bytes.data.end());
    transport_->send(to, std::move(message));
}

void Group::written(int process) {
    Bytes& batch = to(process);
    if (batch.data.size() < full_batch) return;
    send(process, Kind::records, batch);
    batch.data.clear();
    ++sent_;
}

void Group::flush() {
    for (int process = 0; process < size(); ++process) {
        Bytes& batch = to(process);
        if (batch.data.empty()) continue;
        send(process, Kind::records, batch);
        batch.data.clear();
        ++sent_;
    }
}

bool Group::deliver(const std::function<void(int, const Bytes&)>& handle) {
    while (poll()) {
    }
    if (inbox_.empty()) return false;
    idle_ = 0;
    while (!inbox_.empty()) {
        const auto [from, bytes] = std::move(inbox_.front());
        inbox_.pop_front();
        ++received_;
        handle(from, bytes);
    }
    return true;
}

bool Group::poll() {
    int from = 0;
    std::vector<uint8_t> message;
    if (!transport_->receive(&from, &message)) return false;
    const Kind kind = static_cast<Kind>(message.front());
    Bytes bytes;
    bytes.data.assign(message.begin() + 1, message.end());
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
        send(0, kind, mine);
}

void Group::heard(Kind kind, int from, Bytes bytes) {
    Round& round = kind == Kind::wave ? wave_ : gather_;
    round.said[static_cast<size_t>(from)] = std::move(bytes);
    if (--round.missing > 0) return;
    round.missing = size();
    Bytes result;
    for (const Bytes& said : round.said) result.put(said);
    const Kind answer = kind == Kind::wave ? Kind::wave_result : Kind::gather_result;
    for (int process = 1; process < size(); ++process) send(process, answer, result);
    (kind == Kind::wave ? wave_result_ : gather_result_) = split(result);
}

std::vector<Bytes> Group::split(const Bytes& result) {
    std::vector<Bytes> said;
    for (Input input(result); !input.empty();) input.get(said.emplace_back());
    return said;
}

std::vector<Bytes> Group::quiet(const Bytes& mine) {
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
    while (ended_ < size() - 1) {
        if (poll()) continue;
        if (failed && std::chrono::steady_clock::now() > until) transport_->abort(1);
        usleep(50);
    }
    transport_->close();
}

}  // namespace polter::replay
