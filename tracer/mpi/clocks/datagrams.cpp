// SPDX-License-Identifier: BSD-3-Clause
#include "datagrams.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "../../clocks/narrowing.hpp"
#include "../../write/clock.hpp"
#include "../../write/own_part.hpp"

namespace polter::mpi {
namespace {

constexpr uint32_t magic_word = 0x706c7431;
constexpr size_t most_addresses = 4;
// How long an answer is polled for before the process sleeps until one comes. A sleeping process answers later by the time that its wake-up
// takes; one that polls keeps a CPU from those who are to answer.
constexpr uint64_t polled_ns = 40'000;
constexpr uint64_t first_patience_ns = 20'000'000, longest_patience_ns = 200'000'000;  // before a question is asked again
constexpr int tries_at_end = 3;               // who is asked last may have got the question, and be gone
constexpr uint64_t silence_ns = 200'000'000;  // of a peer that had begun: its last messages were lost
constexpr int endless = std::numeric_limits<int>::max();

void append(std::string& text, const char* format, unsigned value) {
    char digits[16];
    std::snprintf(digits, sizeof digits, format, value);
    text += digits;
}

unsigned digits(const std::string& text, size_t at, size_t count) {
    return static_cast<unsigned>(std::strtoul(text.substr(at, count).c_str(), nullptr, 16));
}

std::vector<in_addr_t> own_addresses() {
    std::vector<in_addr_t> others, local;
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) return {};
    for (const ifaddrs* each = all; each; each = each->ifa_next) {
        if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET || !(each->ifa_flags & IFF_UP)) continue;
        sockaddr_in address{};
        std::memcpy(&address, each->ifa_addr, sizeof address);
        (each->ifa_flags & IFF_LOOPBACK ? local : others).push_back(address.sin_addr.s_addr);
    }
    freeifaddrs(all);
    auto& out = others.empty() ? local : others;
    out.resize(std::min(out.size(), most_addresses));
    return out;
}

}  // namespace

Datagrams::Peer Datagrams::peer(const std::string& nonce, const std::string& address) {
    Peer out;
    out.nonce = std::strtoull(nonce.c_str(), nullptr, 16);
    for (size_t at = 4; at + 8 <= address.size(); at += 8) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(static_cast<uint16_t>(digits(address, 0, 4)));
        to.sin_addr.s_addr = htonl(digits(address, at, 8));
        out.addresses.push_back(to);
    }
    return out;
}

std::unique_ptr<Datagrams> Datagrams::open(const std::string& nonce) {
    const int made = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return nullptr;
    std::unique_ptr<Datagrams> out(new Datagrams(made, std::strtoull(nonce.c_str(), nullptr, 16)));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    socklen_t size = sizeof any;
    struct stat status {};
    if (bind(made, reinterpret_cast<sockaddr*>(&any), size) != 0 || getsockname(made, reinterpret_cast<sockaddr*>(&any), &size) != 0 ||
        fstat(made, &status) != 0)
        return nullptr;
    out->device_ = status.st_dev;
    out->inode_ = status.st_ino;
    append(out->address_, "%04x", ntohs(any.sin_port));
    for (const in_addr_t address : own_addresses()) append(out->address_, "%08x", ntohl(address));
    return out->address_.size() > 4 ? std::move(out) : nullptr;
}

// A program may close what it does not know, and open something else by that number.
bool Datagrams::ours() const {
    struct stat status {};
    return fstat(socket_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

Datagrams::~Datagrams() {
    if (inode_ == 0 || ours()) close(socket_);
}

void Datagrams::send(Message message, const sockaddr_in& to) const {
    message.magic = magic_word;
    message.from = nonce_;
    (void)!sendto(socket_, &message, sizeof message, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

bool Datagrams::take() {
    Message message;
    sockaddr_in from{};
    socklen_t size = sizeof from;
    const ssize_t got = recvfrom(socket_, &message, sizeof message, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&from), &size);
    const uint64_t stamp = write::now();
    if (got < 0) return false;
    if (got != sizeof message || message.magic != magic_word || message.to != nonce_) return true;
    if (message.kind == news) {
        news_ = true;
    } else if (message.kind != answer) {
        reply(message, from, stamp);
    } else if (message.sequence == sequence_ && !answer_) {
        answer_ = message;
        answered_from_ = from;
        answered_at_ns_ = stamp;
    }
    return true;
}

void Datagrams::reply(const Message& question, const sockaddr_in& to, uint64_t stamp) {
    Heard& heard = heard_[question.from];
    heard.at_ns = stamp;
    if (question.kind == last) heard.compared = std::max(heard.compared, question.round);
    if (question.kind == known) heard.decided = std::max(heard.decided, question.round);
    if (question.kind == which && question.round != number_) return;  // not decided here yet
    Message out{};
    out.kind = answer;
    out.to = question.from;
    out.round = question.round;
    out.sequence = question.sequence;
    out.stamp = stamp;
    out.words[0] = decision_.compares;
    out.words[1] = decision_.next;
    send(out, to);
}

void Datagrams::wait(uint64_t until_ns, bool soon) {
    const uint64_t began = write::now();
    if (began >= until_ns) return;
    if (soon)
        for (uint64_t polled = 0; polled < std::min(polled_ns, until_ns - began); polled = write::now() - began) {
            if (take()) return;
            sched_yield();  // who is to answer may be waiting for this CPU
        }
    const uint64_t now = write::now();
    if (now >= until_ns) return;
    pollfd event{socket_, POLLIN, 0};
    const timespec left{static_cast<time_t>((until_ns - now) / 1'000'000'000), static_cast<long>((until_ns - now) % 1'000'000'000)};
    if (ppoll(&event, 1, &left, nullptr) > 0) take();
}

bool Datagrams::serve(uint64_t until_ns) {
    const write::NoCancel no_cancel;
    if (!ours()) {
        const uint64_t now = write::now();
        const timespec left{0, static_cast<long>(std::min<uint64_t>(until_ns - std::min(now, until_ns), 999'999'999))};
        nanosleep(&left, nullptr);
        return false;
    }
    while (!news_ && write::now() < until_ns) wait(until_ns, false);
    return std::exchange(news_, false);
}

void Datagrams::tell_news(const std::vector<Peer>& peers) const {
    if (!ours()) return;
    for (const Peer& peer : peers) {
        Message message{};
        message.kind = news;
        message.to = peer.nonce;
        for (const sockaddr_in& address : peer.addresses) send(message, address);
    }
}

bool Datagrams::ask(Peer& peer, Kind kind, uint64_t round, uint64_t until_ns, int tries, ClockStamps& stamps) {
    uint64_t patience = first_patience_ns;
    for (uint64_t now; tries-- > 0 && (now = write::now()) < until_ns; patience = std::min(2 * patience, longest_patience_ns)) {
        Message question{};
        question.kind = kind;
        question.to = peer.nonce;
        question.round = round;
        question.sequence = ++sequence_;
        answer_.reset();
        stamps.sent = write::now();
        for (const sockaddr_in& address : peer.addresses) send(question, address);
        for (const uint64_t again = std::min(stamps.sent + patience, until_ns); !answer_ && write::now() < again;) wait(again, true);
        if (!answer_ || answer_->from != peer.nonce) continue;
        peer.addresses.assign(1, answered_from_);
        stamps.there = answer_->stamp;
        stamps.back = answered_at_ns_;
        return true;
    }
    return false;
}

// The first question only brings both together.
std::vector<ClockStamps> Datagrams::compare(Peer& peer, uint64_t round, uint64_t limit_ns) {
    const write::NoCancel no_cancel;
    std::vector<ClockStamps> out;
    ClockStamps stamps{};
    if (!ours() || !ask(peer, another, round, write::now() + limit_ns, endless, stamps)) return out;
    const uint64_t met = stamps.back, until = met + limit_ns;
    clocks::Narrowing interval;
    for (Kind kind = another; kind != last;) {
        kind = interval.enough() ? last : another;
        if (!ask(peer, kind, round, until, kind == last ? tries_at_end : endless, stamps)) break;
        out.push_back(stamps);
        interval.add(static_cast<int64_t>(stamps.sent), static_cast<int64_t>(stamps.there), static_cast<int64_t>(stamps.back));
    }
    spent_ns_ += write::now() - met;
    return out;
}

template <class Done>
bool Datagrams::serve_until(const std::vector<Peer>& peers, uint64_t limit_ns, const Done& done) {
    const write::NoCancel no_cancel;
    if (!ours()) return false;
    for (const uint64_t began = write::now();;) {
        const uint64_t now = write::now();
        bool all = true, came = true, silent = true;
        for (const Peer& peer : peers) {
            const Heard& heard = heard_[peer.nonce];
            if (done(heard)) continue;
            all = false;
            came &= heard.at_ns >= began;
            silent &= heard.at_ns >= began && now - heard.at_ns > silence_ns;
        }
        if (all || (came && silent)) return true;
        if (now - began > limit_ns) return false;
        wait(std::min(began + limit_ns + 1, now + silence_ns), true);
    }
}

bool Datagrams::serve_all(const std::vector<Peer>& peers, uint64_t round, uint64_t limit_ns) {
    return serve_until(peers, limit_ns, [&](const Heard& heard) { return heard.compared >= round; });
}

void Datagrams::decide(uint64_t number, Decision decision) {
    number_ = number;
    decision_ = decision;
}

std::optional<Datagrams::Decision> Datagrams::ask_decision(Peer& peer, uint64_t number, uint64_t limit_ns) {
    const write::NoCancel no_cancel;
    ClockStamps stamps{};
    if (!ours() || !ask(peer, which, number, write::now() + limit_ns, endless, stamps)) return {};
    const Decision decision{answer_->words[0], answer_->words[1]};
    ask(peer, known, number, write::now() + limit_ns, tries_at_end, stamps);
    return decision;
}

bool Datagrams::serve_decision(const std::vector<Peer>& peers, uint64_t number, uint64_t limit_ns) {
    return serve_until(peers, limit_ns, [&](const Heard& heard) { return heard.decided >= number; });
}

uint64_t Datagrams::take_spent_ns() {
    return std::exchange(spent_ns_, 0);
}

}  // namespace polter::mpi
