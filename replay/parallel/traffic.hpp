// SPDX-License-Identifier: BSD-3-Clause
// Whether several analysis processes are faster than one, from a sample of the trace.
#pragma once

#include "replay/trace/archive.hpp"

namespace polter::replay {

// Of the first records of some locations, those that one process would have to send to another, if so many share the trace: sends to ranks
// that another one reads, and arrivals at collectives with members elsewhere. Opens the event files, and closes them. Throws InputError.
double crossing_part(Archive& archive, int processes);

// Beyond it several processes are slower than one. To send a record, wait for it and take it costs some eight times as much as to read one:
// measured with two processes, where 64 ranks of a stencil took 0.76 of the time of one process, and two ranks of LAMMPS 2.1 times as long.
inline constexpr double most_crossing_part = 1.0 / 20;

}  // namespace polter::replay
