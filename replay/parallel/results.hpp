// SPDX-License-Identifier: BSD-3-Clause
// What each process has found becomes what all know: behind each of these, every process has the same.
#pragma once

#include "group.hpp"
#include "replay/trace/archive.hpp"

namespace polter::replay {

class Engine;
class Injection;
class Model;
class Payment;
class Recorder;
struct Faults;

Archive::Opened gather_opened(Group&, const Archive::Opened&);
// Before freeze(): all statistics; freezes with the structures looked for by all.
void gather_statistics(Group&, Model&, const Faults&);
void freeze_together(Group&, Model&, bool noise_placed);
// Where the threads of all have come, what was counted.
void gather_results(Group&, Engine&);
// Injected noise that hit, of all ranks in one lane.
void gather_injected(Group&, const Engine&, Injection&, size_t lane);
// What the recorders know of their own threads; returns `written`, the bytes of their event graphs, by process.
std::vector<int64_t> gather_recorded(Group&, const Engine&, Recorder&, int64_t written);
void gather_late_noise(Group&, Engine& learner);  // of all ranks' threads, for a pass that each process does alone
void gather_payment(Group&, Payment&);            // kept by the process of the rank that pays

}  // namespace polter::replay
