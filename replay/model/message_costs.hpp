// SPDX-License-Identifier: BSD-3-Clause
// What one message costs the two calls that it connects, in LogGP's terms: L + G · bytes under way, and the receiver's own work o. A
// rendezvous message is under way from the later of its send and its posting, an eager one from its send.
#pragma once

#include <algorithm>
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

}  // namespace polter::replay
