// SPDX-License-Identifier: BSD-3-Clause
// Makes each process's findings known to all: after each of these functions, every process has the same.
#pragma once

#include "group.hpp"
#include "replay/model/algorithms/decisions.hpp"
#include "replay/rules/links/network.hpp"
#include "replay/trace/archive.hpp"

namespace polter::replay {

class Engine;
class Injection;
class Model;
class Payment;
class Postings;
class Recorder;
struct Faults;

Archive::Opened gather_opened(Group&, const Archive::Opened&);
// Before freeze(): all statistics; freezes with the structures looked for by all.
void gather_statistics(Group&, Model&, const Faults&);
LinkSearch search_together(Group* group);  // none: one process
void freeze_together(Group&, Model&, bool noise_placed, Library);
// How far all threads have been read, and the flaws counted.
void gather_results(Group&, Engine&);
// Injected noise that has hit, by rank, in one lane.
void gather_injected(Group&, const Engine&, Injection&, size_t lane);
// What the recorders know of their own threads. Returns the bytes of each process's event graph (`written`), by process.
std::vector<int64_t> gather_recorded(Group&, const Engine&, Recorder&, int64_t written);
void gather_late_noise(Group&, Engine& learner);  // of all ranks, for a pass that each process replays in full
std::shared_ptr<const Postings> gather_postings(Group&, const Engine& learner);  // the same of what receives were posted for
void gather_payment(Group&, Payment&);                                           // the process of the rank that ends last has it

}  // namespace polter::replay
