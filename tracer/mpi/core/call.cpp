// SPDX-License-Identifier: BSD-3-Clause
#include "call.hpp"

namespace polter::mpi {

void Call::choose_sample() {
    sampled_ = location_->samples_end() ? Sampled::end : Sampled::begin;
    if (sampled_ == Sampled::end) return;
    location_->begin_sample();
    if (location_->counts()) began_ = location_->read_clock();  // the counters are read before the stamp
}

// From the stamp to here lies one whole clock read, half of either: as much as the unsampled call pays.
void Call::sample_begin() {
    location_->sample(location_->read_clock() - (began_ ? began_ : entered_));
    sampled_ = Sampled::no;
}

void Call::sample_end() {
    // A handler that does nothing before the call itself does not say that it has begun.
    location_->sample(sampled_ == Sampled::end ? location_->read_clock() - returned_ : 0);
    sampled_ = Sampled::no;
}

}  // namespace polter::mpi
