// SPDX-License-Identifier: BSD-3-Clause
// Traces that any OTF2 tool would read and that no program could have made: unknown ids, messages nobody takes, requests used twice,
// calls left without being entered, times and numbers at the ends of their ranges. OTF2 survives these; they go straight to the rules.
#pragma once

#include "archive_bytes.hpp"
#include "trace_spec.hpp"

namespace polter::test {

// One piece of nonsense; what was done is appended to `told`.
void add_nonsense(TraceSpec&, Random&, std::string& told);

}  // namespace polter::test
