// SPDX-License-Identifier: BSD-3-Clause
// Makes one OTF2 archive of what the ranks left in an experiment directory.
//
// Can be repeated: an experiment that is sealed is left as it is, one whose sealing was interrupted is sealed again from where it
// stands (the anchor appears last). Not to be called by two processes at once; the launcher holds a lock. Not to be called by a process
// with other threads: it forks.
//
// Others may own the experiment and change it meanwhile: nothing outside of it is written, removed or opened (README.md, Sealing).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace polter::seal {

// No archive could be made: what, where, what to do.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};
// No rank left anything: nothing that calls MPI ran with the tracer in it.
struct NoRanks : Error {
    using Error::Error;
};

// An experiment that another user owns.
enum class Foreign {
    refuse,      // Error, which says how
    as_owner,    // root becomes the owner in a child process, and tells nothing of what it did; others go on with their own rights
    own_rights,  // the caller has just run the job there
};

struct Options {
    std::filesystem::path experiment;
    std::string command;             // for the archive's properties
    uint64_t exporter_ended_ns = 0;  // where the caller saw the exporter end; 0: it did not, or is not known: the ranks tell
    Foreign foreign = Foreign::refuse;
    bool call_sites = true;          // are named, from the program's debugging information
    unsigned workers = 0;            // threads and processes at most; 0: as many as this process has CPUs. The archive is the same
};

// What a rank's own thread lost to one account, through one culprit, by its own sums.
struct LocalNoise {
    uint32_t rank = 0;
    std::string account, culprit;  // no culprit: unknown
    uint64_t ns = 0, events = 0;
};

struct Further;

struct Report {
    bool already_sealed = false;  // nothing was done, and nothing below is set
    uint32_t ranks = 0, size = 0;
    uint64_t events = 0, dropped = 0, dropped_ns = 0;
    std::optional<uint64_t> own_cost_ns;  // unset: a rank did not live to tell
    std::string exporter, exporter_why;   // of most of the ranks that were measured; "none" only where nobody was
    std::vector<std::string> seen;        // accounts that every measured rank's exporter saw
    std::vector<uint32_t> unmeasured;     // ranks without an exporter, where others had one
    std::vector<uint32_t> missing, unfinished;
    std::vector<std::string> warnings;
    uint64_t first_ns = 0, last_ns = 0;             // of all events
    std::map<std::string, std::string> properties;  // of the archive
    std::vector<LocalNoise> noise;                  // of the ranks that lived to tell
    std::map<uint32_t, std::string> measured_by;    // the exporter of each rank that left anything
    std::vector<Further> further;                   // MPI jobs that started after this one
};

// Another MPI job of the same command (several launches, MPI_Comm_spawn): an experiment in a folder of this one.
struct Further {
    std::string folder;
    Report report;
    std::string failed;  // not empty: it could not be sealed, and why
};

Report seal(const Options&);

// Whether there is a sealed archive in the directory.
bool is_sealed(const std::filesystem::path& experiment);

}  // namespace polter::seal
