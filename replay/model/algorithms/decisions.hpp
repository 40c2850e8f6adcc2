// SPDX-License-Identifier: BSD-3-Clause
// The public decision rules of MPI libraries: which algorithm they use for which operation, size and number of members.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "schedule.hpp"

namespace polter::replay {

struct CollectiveKind;

enum class Library : uint8_t { unknown, open_mpi, mpich, smpi, none };

// "openmpi", "mpich", "smpi", "none": believe no rule; or "auto": by `version`, the MPI with its version, as the trace names it. Nothing
// for another name.
std::optional<Library> library_named(std::string_view name, std::string_view version);

// What the library uses; of an unknown one, what each of them would. Empty: it has no rule here, or the size is unknown.
std::vector<Pattern> decided(Library, const CollectiveKind&, uint32_t members);

}  // namespace polter::replay
