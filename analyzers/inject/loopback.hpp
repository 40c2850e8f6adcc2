// SPDX-License-Identifier: BSD-3-Clause
// A loopback device whose packets are received on a chosen CPU.
#pragma once

namespace polter::inject {

// Gives the calling thread a network and a mount namespace of its own, whose loopback device steers what it receives to this CPU. Both end
// with the thread, so the machine's own network stays as it is. False: not allowed here; the thread has what it had.
bool own_loopback(int cpu);

// Two connected UDP sockets of the thread's loopback device. Returns 0 or an errno; then neither is open.
int loopback_sockets(int& from, int& to);

}  // namespace polter::inject
