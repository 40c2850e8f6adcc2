// SPDX-License-Identifier: BSD-3-Clause
// What the operating system does on this node, by the eBPF object node.bpf.c.
#pragma once

#include "../observation/observation.hpp"

namespace polter::node {

// Needs CAP_BPF and CAP_PERFMON. The reason, where it cannot be had: what, where, what to do.
std::variant<std::unique_ptr<Observer>, std::string> bpf_observer();

}  // namespace polter::node
