// SPDX-License-Identifier: BSD-3-Clause
// What two rules of the literature say, for programs that meet in collectives of all ranks. Both scale the measured accumulated noise.
//
// EMMA: Sun and Peterson, J. Supercomputing 2012: the typical maximum on m times as many ranks is the 0.5704^(1/m) quantile of the measured
// maxima's distribution. Tsafrir, Etsion, Feitelson, Kirkpatrick, ICS 2005: N ranks are delayed with the probability 1 - (1 - p)^N, where a
// single one is with p.
#pragma once

#include <vector>

#include "prediction.hpp"

namespace polter::prediction {

// The stretches between collectives of all ranks.
struct Intervals {
    std::vector<double> longest, longest_quiet;  // of all ranks, with noise and without
    std::vector<double> noise;                   // of each rank in each interval, rising; zeros are left out
    uint64_t cells = 0;                          // ranks times intervals
    std::string why;                             // there are too few; empty: enough
};
Intervals intervals_of(const replay::Programs&);

Method emma(const Intervals&, double measured_ns, double factor);
Method tsafrir(const Intervals&, double measured_ns, int64_t measured_ranks, int64_t ranks);

}  // namespace polter::prediction
