// SPDX-License-Identifier: BSD-3-Clause
// What one message costs the two calls that it connects, in LogGP's terms: L + G · bytes under way, and the receiver's own work o. A
// rendezvous message is under way from the later of its send and its posting, an eager one from its send.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "model.hpp"

namespace polter::replay {

// Own work that a message costs a processor, at most, where the network does the transfer: the call, and a copy at 5 GB/s.
inline int64_t own_work_ns(uint64_t bytes) {
    return 1000 + static_cast<int64_t>(std::min<uint64_t>(bytes, uint64_t{1} << 40) / 5);
}

struct MessageCosts {
    bool rendezvous = false;
    Cost after_send, after_post;  // to the end of the receive
    Cost own;                     // the receiver's own work, if it did not have to wait for anything
};

struct SendCosts {
    Cost after_send, after_post;  // of a rendezvous: to the end of the send
    Cost own;                     // its own work in it
};

// `of`: the class of the message; its kind does not matter.
MessageCosts receive_costs(const Model&, CostClass of);
SendCosts send_costs(const Model&, CostClass of);

// What a model that no longer learns has answered lately: programs send messages of the same few sizes again and again.
class MessageCostCache {
  public:
    const MessageCosts& receive(const Model& model, const CostClass& of) { return ask(receive_, model, of, receive_costs); }
    const SendCosts& send(const Model& model, const CostClass& of) { return ask(send_, model, of, send_costs); }
    // Whether a standard send of that size waits for its receiver.
    bool rendezvous(const Model& model, bool same_host, bool partitioned, uint64_t size) {
        Protocol& entry = protocols_[(size * 4 + same_host * 2 + partitioned) * 0x9e3779b97f4a7c15u >> (64 - place_bits)];
        if (!entry.known || entry.size != size || entry.same_host != same_host || entry.partitioned != partitioned)
            entry = {size, true, same_host, partitioned, model.rendezvous(same_host, partitioned, size)};
        return entry.rendezvous;
    }
    // Of a call that completes so many whose messages are there.
    const Cost& completing(const Model& model, uint32_t completions) {
        const CostClass of{CostKind::wait_own, true, false, 0, completions};
        if (completions >= completing_.size()) return model.cost(of);
        if (!completing_[completions]) completing_[completions] = model.cost(of);
        return *completing_[completions];
    }

  private:
    static constexpr int place_bits = 8;
    static constexpr size_t places = size_t{1} << place_bits;
    struct Protocol {
        uint64_t size = 0;
        bool known = false, same_host = false, partitioned = false, rendezvous = false;
    };
    template <class Costs>
    struct Entry {
        CostClass of{};
        bool known = false;
        Costs costs{};
    };
    template <class Costs>
    static const Costs& ask(std::array<Entry<Costs>, places>& entries, const Model& model, const CostClass& of,
                            Costs (*answer)(const Model&, CostClass)) {
        const uint64_t which = of.size ^ static_cast<uint64_t>(of.operation) << 40 ^ static_cast<uint64_t>(of.same_host) << 41 ^
                               static_cast<uint64_t>(of.synchronous) << 42;
        Entry<Costs>& entry = entries[which * 0x9e3779b97f4a7c15u >> (64 - place_bits)];
        const bool same = entry.known && entry.of.size == of.size && entry.of.same_host == of.same_host &&
                          entry.of.synchronous == of.synchronous && entry.of.operation == of.operation;
        if (!same) entry = {of, true, answer(model, of)};
        return entry.costs;
    }

    std::array<Entry<MessageCosts>, places> receive_{};
    std::array<Entry<SendCosts>, places> send_{};
    std::array<Protocol, places> protocols_{};
    std::array<std::optional<Cost>, 32> completing_;
};

}  // namespace polter::replay
