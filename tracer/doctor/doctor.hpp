// SPDX-License-Identifier: BSD-3-Clause
// What `polter doctor` finds on the tracer's side. Library polter-doctor-tracer.
#pragma once

#include <finding.hpp>

namespace polter::doctor {

// Both MPIs: launcher, version, tracer library. Runs the launchers along PATH with --version: here that is what was asked for.
Findings mpis();
// OTF2, PAPI, libpfm4. PAPI is looked at in a child, since libraries that know the hardware may do anything.
Findings libraries();
// Whether this host finds its own name: OTF2 asks for it.
Finding host_name();

}  // namespace polter::doctor
