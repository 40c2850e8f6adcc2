// SPDX-License-Identifier: BSD-3-Clause
// Whether programs may be attached where a function of the kernel returns.
#pragma once

namespace polter::exporter {

class KernelTypes;

// Tried with a program that does nothing, and is not attached: kernels refuse it that are built without the means (CONFIG_FUNCTION_TRACER),
// and some that are locked down. `parameters`: how many the function must have, since the program finds them by their place. 0: it may be
// done; else an errno.
int refuses_ends_of(const KernelTypes& types, const char* function, unsigned parameters);

}  // namespace polter::exporter
