// SPDX-License-Identifier: BSD-3-Clause
// Rank folders as the tracer leaves them, written with the OTF2 API: of ranks that finished, and of ranks that were killed.
#pragma once

#include <otf2/otf2.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace seal_test {

// A temporary experiment directory, removed with the object.
struct Experiment {
    std::filesystem::path path;
    Experiment();
    ~Experiment();
    Experiment(const Experiment&) = delete;
    Experiment& operator=(const Experiment&) = delete;
};

struct RankSpec {
    uint32_t rank = 0, size = 2;
    std::string host = "n1";
    unsigned calls = 100;  // each is Enter, MpiSend to the next rank, Leave; and one metric record every tenth
    uint64_t start_ns = 1'000'000;
    bool finishes = true;  // else it is killed after its last call, inside one more region
    uint64_t own_cost_ns = 7;
    bool times = true;                     // final line tells first and last
    std::vector<std::string> extra_lines;  // into the sidecar, before the final line
    std::string world;
    std::string final_fields;  // more of the final line: "key":value,
};

// Returns the rank's folder.
std::filesystem::path write_rank(const std::filesystem::path& experiment, const RankSpec&);

// Reads a whole archive with OTF2, bounded; throws on any error that OTF2 reports.
struct Contents {
    std::map<uint64_t, uint64_t> events, defined_events;  // by location
    std::map<uint64_t, std::vector<uint64_t>> times;      // by location, all events
    std::map<uint64_t, std::vector<std::string>> culprits;
    std::map<uint64_t, std::vector<uint32_t>> send_comms;  // archive ids
    std::map<uint64_t, int> depth;                         // open regions at the end
    std::map<uint32_t, std::string> strings, comm_names, region_names, metric_names;
    std::map<uint32_t, std::vector<uint64_t>> groups;
    std::map<uint32_t, uint32_t> comm_groups;
    std::map<std::string, std::string> properties;
    uint64_t offset = 0, length = 0;
};
Contents read_archive(const std::filesystem::path& experiment);

}  // namespace seal_test
