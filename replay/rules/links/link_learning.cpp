// SPDX-License-Identifier: BSD-3-Clause
#include "link_learning.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "chosen_transfers.hpp"
#include "hosts.hpp"
#include "replay/engine/state.hpp"
#include "replay/model/model.hpp"

namespace polter::replay {

namespace {

constexpr size_t most_awaited = 2 * LinkLearning::most_learned;  // at either end

// When transfers began.
class Dates {
  public:
    explicit Dates(const Model& model) : model_(model) {}

    DatedTransfer operator()(const LearnedTransfer& of) {
        const bool later = waits(of);
        return {of, later ? std::max(of.sent, of.posted) : of.sent, later};
    }

  private:
    bool waits(const LearnedTransfer& of) {
        if (of.synchronous) return true;
        const auto [at, fresh] = rendezvous_.try_emplace(of.bytes);
        if (fresh) at->second = model_.rendezvous(false, false, of.bytes);
        return at->second;
    }

    const Model& model_;
    std::map<uint64_t, bool> rendezvous_;  // by bytes: of many messages few
};

uint64_t key(uint32_t thread, uint32_t number) {
    return static_cast<uint64_t>(thread) << 32 | number;
}

void put_in_order(std::vector<DatedTransfer>& transfers) {
    std::sort(transfers.begin(), transfers.end(), [](const DatedTransfer& a, const DatedTransfer& b) {
        return std::tuple(a.at, a.of.thread, a.of.number) < std::tuple(b.at, b.of.thread, b.of.number);
    });
}

}  // namespace

void LinkLearning::learn(const Thread& receiver, const Match& match) {
    if (!match.posted || too_many_) return;
    if (learned_.size() == most_learned) {
        too_many_ = true;
        learned_ = {};
        calls_ = {};
        awaited_ = {};
        return;
    }
    learned_.push_back({match.size, match.sender->index, match.transfer, match.sender->host, receiver.host, match.send_time,
                        match.post_time, match.synchronous_mode, match.send_noise > 0 || match.post_noise > 0});
}

// Calls with noise do not tell.
void LinkLearning::learn_call(const Thread& thread) {
    if (too_many_ || !thread.pieces.empty() || awaited_.size() >= most_awaited) return;
    const auto followed = [](const Match* match) { return match && match->transfer > 0; };
    const auto& [dependencies, watched] = std::tie(thread.dependencies, thread.watched);
    if (!std::all_of(dependencies.begin(), dependencies.end(), [&](const Dependency& one) { return followed(one.match); })) return;
    if (!std::all_of(watched.begin(), watched.end(), followed)) return;
    const auto awaits = [&](const Match& match) { awaited_.push_back({match.sender->index, match.transfer}); };
    for (const Dependency& one : dependencies) awaits(*one.match);
    for (const Match* match : watched) awaits(*match);
    calls_.push_back({thread.index, static_cast<uint32_t>(dependencies.size() + watched.size()), thread.enter, thread.leave});
}

// Of this process.
std::vector<SeenCall> LinkLearning::calls_seen(const std::vector<DatedTransfer>& looked_at) const {
    std::unordered_map<uint64_t, uint32_t> places;
    for (const DatedTransfer& one : looked_at)
        places.insert_or_assign(key(one.of.thread, one.of.number), static_cast<uint32_t>(&one - looked_at.data()));
    std::vector<SeenCall> calls;
    const Awaited* next = awaited_.data();
    for (const Call& call : calls_) {
        SeenCall waited{call.enter, call.leave, {}};
        bool tells = true;
        for (const Awaited* const end = next + call.messages; next != end; ++next) {
            if (!tells) continue;
            const auto place = places.find(key(next->thread, next->number));
            tells = place != places.end() && !looked_at[place->second].of.noisy;
            if (!tells) continue;
            const bool eager_send = next->thread == call.thread && !looked_at[place->second].waits;  // what it sends is not waited for
            if (!eager_send) waited.messages.push_back(place->second);
        }
        if (tells && !waited.messages.empty()) calls.push_back(std::move(waited));
    }
    return calls;
}

std::optional<Network> LinkLearning::network(const Model& model, const LinkSearch& search) const {
    Dates dated(model);
    std::vector<TransferKey> mine;
    mine.reserve(learned_.size());
    for (const LearnedTransfer& one : learned_) mine.push_back({dated(one).at, one.thread, one.number, one.bytes});
    Bytes bytes;
    for (const size_t place : chosen_transfers(mine, Network::most_seen, search)) bytes.put(dated(learned_[place]));
    std::vector<DatedTransfer> looked_at;
    for (const Bytes& one : search.of_all(bytes))
        for (Input input(one); !input.empty();) looked_at.push_back(input.get<DatedTransfer>());
    put_in_order(looked_at);

    Hosts hosts;
    Seen seen;
    for (const DatedTransfer& one : looked_at) seen.transfers.push_back({hosts[one.of.from], hosts[one.of.to], one.of.bytes, one.at});
    bytes = {};
    for (const SeenCall& call : calls_seen(looked_at)) {
        bytes.put(call.enter);
        bytes.put(call.leave);
        bytes.put(call.messages);
    }
    for (const Bytes& one : search.of_all(bytes))
        for (Input input(one); !input.empty();) {
            SeenCall& call = seen.calls.emplace_back();
            call.enter = input.get<int64_t>();
            call.leave = input.get<int64_t>();
            input.get(call.messages);
        }
    // The same in whichever order, and by however many processes, they were read.
    std::sort(seen.calls.begin(), seen.calls.end(), [](const SeenCall& a, const SeenCall& b) {
        return std::tie(a.leave, a.enter, a.messages) < std::tie(b.leave, b.enter, b.messages);
    });
    return Network::found(seen, search);
}

std::vector<DatedTransfer> LinkLearning::all(const Model& model, const LinkSearch& search) const {
    Bytes bytes;
    bytes.put(learned_);
    Dates dated(model);
    std::vector<DatedTransfer> transfers;
    for (const Bytes& one : search.of_all(bytes)) {
        std::vector<LearnedTransfer> theirs;
        Input(one).get(theirs);
        for (const LearnedTransfer& transfer : theirs) transfers.push_back(dated(transfer));
    }
    put_in_order(transfers);
    return transfers;
}

}  // namespace polter::replay
