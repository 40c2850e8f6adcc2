// SPDX-License-Identifier: BSD-3-Clause
// Which processes and threads are registered, on which pages, in which job. Knows no sockets.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../backend.hpp"
#include "peer.hpp"
#include "protocol.h"

namespace polter::daemon {

// POLTER_OK, or the refusal with its reason.
struct Outcome {
    polter_reply_status status = POLTER_OK;
    std::string text;
    unsigned slot = 0;
};

class Registry {
  public:
    explicit Registry(exporter::Backend& backend) : backend_(backend) {}

    // `names`: whether its pages may name other users' tasks.
    Outcome add_process(const Peer&, std::uint64_t job, unsigned slots, bool names = false);
    void remove_process(pid_t pid);
    bool has_process(pid_t pid) const { return processes_.contains(pid); }

    // `tid` as the peer knows it.
    Outcome add_thread(const Peer&, pid_t tid);
    Outcome remove_thread(const Peer&, pid_t tid, unsigned slot);

    unsigned processes() const { return static_cast<unsigned>(processes_.size()); }
    unsigned threads() const { return threads_; }

  private:
    using JobKey = std::pair<uid_t, std::uint64_t>;
    struct Job {
        std::uint64_t number;
        unsigned processes;
    };
    struct Slot {
        pid_t tid = 0;  // here; 0: free
        pid_t own = 0;  // as the peer knows it
    };
    struct Process {
        JobKey key;  // {0, 0}: a job of its own
        bool shared_job;
        std::vector<Slot> slots;
    };

    std::uint64_t enter_job(const JobKey& key);

    exporter::Backend& backend_;
    std::map<pid_t, Process> processes_;
    std::map<JobKey, Job> jobs_;
    std::uint64_t jobs_made_ = 0;
    unsigned threads_ = 0;
};

}  // namespace polter::daemon
