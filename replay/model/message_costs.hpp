// SPDX-License-Identifier: BSD-3-Clause
// What one message costs the two calls that it connects, in LogGP's terms: L + G · bytes under way, and the receiver's own work o. A
// rendezvous message is under way from the later of its send and its posting, an eager one from its send.
#pragma once

#include "model.hpp"

namespace polter::replay {

struct MessageCosts {
    bool rendezvous = false;
    Cost after_send, after_post;  // to the end of the receive
    Cost own;                     // the receiver's own work, if it did not have to wait for anything
};

struct SendCosts {
    Cost after_send, after_post;  // of a rendezvous: to the end of the send
};

// `of`: the class of the message; its kind does not matter.
MessageCosts receive_costs(const Model&, CostClass of);
SendCosts send_costs(const Model&, CostClass of);

}  // namespace polter::replay
