// SPDX-License-Identifier: BSD-3-Clause
// Where the trace was taken: what the commands need to name. What is not known is empty.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "replay/result/result.hpp"

namespace polter::advice {

struct Place {
    std::vector<std::string> hosts;
    std::vector<std::string> host_of;  // by rank; empty where there are several hosts and no names
    int64_t ranks = 0;
    std::string mpi, command, program;
    bool here = false;                                 // the trace is of this machine
    std::optional<int64_t> cpus;                       // of this machine, if `here`
    std::vector<std::set<int64_t>> allowed;            // by rank, the CPUs that it may use; empty: unknown
    std::string rank_cpus, other_cpus;                 // of one host: those that ranks may use; the others, if `here`: "0-3,8"
    std::map<std::string, int64_t> interrupt_numbers;  // by name, as /proc/interrupts has them now, if `here`
};

Place place_of(const replay::Result&);
// Whether each rank can have a CPU of its own; unset where it is not known what ranks may use.
std::optional<bool> each_has_own(const Place&);
std::set<int64_t> cpus_in(const std::string& list);  // "0-3,8"; what is not a number counts for nothing
std::string cpu_list(const std::set<int64_t>&);
// Of the text of /proc/interrupts: name of the device → number. Names that several interrupts share are left out.
std::map<std::string, int64_t> interrupts_in(const std::string& text);

}  // namespace polter::advice
