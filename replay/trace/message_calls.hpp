// SPDX-License-Identifier: BSD-3-Clause
// Of traces without records of requests: the calls that begin and complete non-blocking messages, which only their names tell.
#pragma once

#include <cstdint>
#include <set>

#include "definitions.hpp"

namespace polter::replay {

// Region references.
struct MessageCalls {
    std::set<uint32_t> post_receive, begin_send, complete_all;
};

MessageCalls message_calls(const Definitions&);  // mpi_calls.cpp

}  // namespace polter::replay
