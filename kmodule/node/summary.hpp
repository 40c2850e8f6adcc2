// SPDX-License-Identifier: BSD-3-Clause
// An observation, added up: by source, and within a source by culprit.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "../observation/observation.hpp"

namespace polter::node {

struct Culprit {
    std::string name;
    Stats stats;
};

struct Source {
    unsigned account = 0;  // enum polter_account, or `ran`
    Stats all;
    Stats idle;                     // of it, what hit CPUs that ran no task: it harmed nobody
    std::vector<Culprit> culprits;  // the one with the most time first, then the most events, then by name
};

// How the time of an account is to be read.
enum class Kind {
    interruption,  // time of the CPU: on one CPU they add up, with what ran, to at most wall time
    wait,          // time of tasks: several may wait at once
    counted,       // no times
    task           // time of the CPU that a task had
};
Kind kind_of(unsigned account);
const char* name_of(unsigned account);

// Of all CPUs, or of one. In the order of the accounts; those without events are left out.
std::vector<Source> sources_of(const Observation&, std::optional<unsigned> cpu = {});

struct Times {
    std::uint64_t wall_ns = 0;  // of all CPUs together
    std::uint64_t idle_ns = 0;  // in which they ran no task, net of interruptions
    std::uint64_t steal_ns = 0;
};
Times times_of(const Observation&, std::optional<unsigned> cpu = {});

// What happened between two readings of one observer.
Observation between(const Observation& earlier, const Observation& later);

// What makes the sums less than whole, in words.
std::vector<std::string> warnings_of(const Observation&);

struct TextOptions {
    std::size_t top = 5;  // culprits a source
    bool per_cpu = false;
    bool histogram = false;
    std::size_t columns = 80;  // of the terminal; fewer than 114 leave out the number of events and the median, fewer than 80 more
};
std::string to_text(const Observation&, const char* measured_by, const TextOptions&);
nlohmann::json to_json(const Observation&, const char* measured_by);

}  // namespace polter::node
