// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Loads of a whole node, of fixed length: CPU seconds that all CPUs together are busy with one, idle time left out.

// Groups of processes that send each other messages over sockets (as hackbench does): mostly switches and wake-ups.
double messages_seconds();
// Datagrams over the loopback interface as fast as they go: mostly NET_RX softirqs.
double packets_seconds();
