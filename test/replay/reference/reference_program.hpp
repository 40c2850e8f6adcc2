// SPDX-License-Identifier: BSD-3-Clause
// Random traces for the comparison with the reference: everything that it covers, in orders and at times that no real machine
// would choose. They need not be what a program would have done; they are well-formed, and what waits ends after what it waits for.
#pragma once

#include <cstdint>

#include "../support/trace_spec.hpp"

namespace polter::test {

TraceSpec reference_program(uint64_t seed);

}  // namespace polter::test
