// SPDX-License-Identifier: BSD-3-Clause
#include "call.hpp"

namespace polter::mpi {

// From the stamp to here lies one whole clock read, half of either: as much as the unsampled call pays.
void Call::sample() {
    location_->sample((begun_ ? begun_ - (began_ ? began_ : entered_) : 0) + (write::now() - returned_));
}

}  // namespace polter::mpi
