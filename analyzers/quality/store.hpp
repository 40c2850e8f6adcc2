// SPDX-License-Identifier: BSD-3-Clause
// The history of jobs: a folder with a file for each job, and an index of them.
//
// A job's file is a SQLite database that is written under another name, synchronised and renamed: once add() returns, the job is there, and
// a writer that dies or finds the disk full leaves no job. Writers share no file, so they need no locks, and network file systems will do.
// The index only saves time: it is made anew from the jobs' files where it is missing, damaged, locked or of another version.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "job.hpp"

namespace polter::quality {

inline constexpr int schema_version = 3;  // of job files and index; 1 had no number of nodes, 2 no series

// What, where, and what to do.
class StoreError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class Store {
  public:
    // Made if it does not exist and `create`. Throws StoreError.
    Store(std::string folder, bool create);

    // The job's id: of the time, the host and the process, unless it has one. Throws StoreError; then the job is not in the store.
    std::string add(Job job);

    // Of one application (empty: of all), in the order of their start. Jobs whose files cannot be read are left out, with a warning.
    std::vector<Job> jobs(const std::string& application, std::vector<std::string>& warnings) const;

    // Of all jobs, by their index; also brings the index up to date.
    struct Entry {
        std::string id, application;
        int64_t started_s = 0;
    };
    std::vector<Entry> entries(std::vector<std::string>& warnings) const;

    const std::string& folder() const { return folder_; }

  private:
    std::string folder_;
};

// Throws StoreError.
Job read_job(const std::string& file);

}  // namespace polter::quality
