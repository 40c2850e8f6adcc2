// SPDX-License-Identifier: BSD-3-Clause
// Which processes and threads are registered, on which pages, in which job. Knows no sockets.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../backend.hpp"
#include "accounts.hpp"
#include "peer.hpp"
#include "../protocol.h"

namespace polter::daemon {

// POLTER_OK, or a refusal with its reason, or neither: ask again.
struct Outcome {
    enum class Again { no, soon, with_page, after_look };
    polter_reply_status status = POLTER_OK;
    std::string text = "";
    unsigned slot = 0;
    int page = -1;            // the caller's descriptor
    Again again = Again::no;  // soon: there is more of the search to do; with_page: when the backend has one; after_look: at next_look()
};

class Registry {
  public:
    using Clock = std::chrono::steady_clock;
    explicit Registry(exporter::Backend& backend) : backend_(backend) {}

    // `names`: whether its pages may name other users' tasks.
    Outcome add_process(const Peer&, std::uint64_t job, unsigned slots, bool names = false);
    void remove_process(pid_t pid);
    bool has_process(pid_t pid) const { return processes_.contains(pid); }

    // One step, however large the process is. `search` is for the thread by the peer's own name for it.
    Outcome add_thread(const Peer&, pid_t own, ThreadSearch& search);
    Outcome remove_thread(const Peer&, pid_t own, unsigned slot);
    // When released pages may be checked next.
    Clock::time_point next_look() const { return looked_ + look_interval; }

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
        std::uint32_t page = 0, number = 0;
    };
    struct Process {
        JobKey key;  // {0, 0}: a job of its own
        bool shared_job;
        uid_t account;
        unsigned most;
        std::vector<Slot> slots;
    };
    // A check visits all pages of the node, so it is not done at each request.
    static constexpr std::chrono::milliseconds look_interval{20};

    std::uint64_t enter_job(const JobKey& key);
    Outcome room_for_page(const Peer&);
    void free_slot(Process&, Slot&);

    exporter::Backend& backend_;
    std::map<pid_t, Process> processes_;
    std::map<JobKey, Job> jobs_;
    PageAccounts pages_;
    Clock::time_point looked_{};
    std::uint64_t jobs_made_ = 0;
    unsigned threads_ = 0;
};

}  // namespace polter::daemon
