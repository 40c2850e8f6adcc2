// SPDX-License-Identifier: BSD-3-Clause
// What one message costs the two calls that it connects, in LogGP's terms: L + G · bytes under way, and the receiver's own work o. A
// rendezvous message is under way from the later of its send and its posting, an eager one from its send.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

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

  private:
    static constexpr size_t places = 64;
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
        Entry<Costs>& entry = entries[which * 0x9e3779b97f4a7c15u >> 58];
        const bool same = entry.known && entry.of.size == of.size && entry.of.same_host == of.same_host &&
                          entry.of.synchronous == of.synchronous && entry.of.operation == of.operation;
        if (!same) entry = {of, true, answer(model, of)};
        return entry.costs;
    }

    std::array<Entry<MessageCosts>, places> receive_{};
    std::array<Entry<SendCosts>, places> send_{};
};

}  // namespace polter::replay
