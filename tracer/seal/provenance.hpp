// SPDX-License-Identifier: BSD-3-Clause
// What an archive says of the run itself, in its properties: who measured which rank until when, what was lost, what tracing cost.
// The same goes into the report, for whoever sealed it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "definitions.hpp"
#include "seal.hpp"
#include "sidecar.hpp"

namespace polter::seal {

// `exporter_ended`: when the launcher saw the exporter end, CLOCK_MONOTONIC in ns; 0: the ranks' own records tell.
void add_end(const std::vector<Sidecar>& ranks, uint64_t exporter_ended, Definitions&, Report&);
void add_totals(const std::vector<Sidecar>& ranks, Report&, std::map<std::string, std::string>& properties);
// Program, MPI and hosts, for the head of a result.
void add_names(const std::vector<Sidecar>& ranks, std::map<std::string, std::string>& properties);
// What the ranks, or the program, switched off.
void add_detail_off(const std::vector<Sidecar>& ranks, Report& report, std::map<std::string, std::string>& properties);

}  // namespace polter::seal
