// SPDX-License-Identifier: BSD-3-Clause
// The replay's interface: one trace in, one result out.
//
// Units: integer nanoseconds. Errors: an input that cannot be read throws InputError (what, where, what to do); flawed data is
// counted in Result::warnings. Source of the method: Nataraj, Morris, Malony, Sottile, Beckman, "The Ghost in the Machine", SC'07.
#pragma once

#include "replay/base/error.hpp"
#include "replay/base/options.hpp"
#include "replay/result/result.hpp"

namespace polter::replay {

Result replay(const Options&);

}  // namespace polter::replay
