// SPDX-License-Identifier: BSD-3-Clause
// The errors of reading: what, where, what to do about it.
#pragma once

#include <stdexcept>

namespace polter::replay {

// An input that cannot be read, or an output that cannot be written.
struct InputError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace polter::replay
