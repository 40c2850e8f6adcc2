// SPDX-License-Identifier: BSD-3-Clause
// Which exporter measures the job's noise: the choice, and the daemon that is started for it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

struct polter_session;
namespace polter::daemon {
struct Status;
}

namespace polter::launch {

struct NoneRunning;

// What the job will be measured by. Registered with the daemon for as long as it lives, since one that serves a job goes with the last
// process: there may be long pauses before and between the job's own. Ends the daemon that was started for it, if any, when destroyed.
class Exporter {
  public:
    Exporter() = default;
    ~Exporter();
    Exporter(Exporter&&) noexcept;
    Exporter& operator=(Exporter&&) = delete;

    // Sees whether the daemon still serves; to be called when a child of this process may have ended, and at the job's end.
    void look();
    // Events that the kernel did not show to the daemon that was started for the job, so far; 0 of another.
    uint64_t events_not_shown() const;
    // Nothing is measured any more. A daemon that was started for the job begins to end, while the caller goes on.
    void release();
    // This process's registration, which has room for one thread; null where there is no daemon. Owned by this.
    polter_session* session() const { return session_; }

    std::string name = "none";        // "bpf", …
    std::string socket;               // of the daemon, or the module's device; empty: none
    std::string why;                  // why it was taken, and what it cannot see
    std::vector<std::string> unseen;  // accounts
    std::string notice;               // what was expected to serve and does not; empty: nothing
    std::string limits;               // what it does not tell apart; empty: nothing
    std::string tracepoints;          // for perf
    std::string ended;                // the daemon ended before the job did: what is known of it; empty: it did not
    uint64_t ended_ns = 0;            // when, if it was started by this process; CLOCK_MONOTONIC of the initial time namespace

  private:
    friend Exporter choose_exporter(const std::string&, const std::filesystem::path&);
    friend Exporter choose_node_exporter(const std::string&, const std::filesystem::path&);
    void take_over(pid_t daemon, const std::filesystem::path& folder);
    bool join_running(const std::string& choice, NoneRunning& none);
    void join(const std::string& socket, const daemon::Status&);
    bool needs_no_daemon(const std::string& choice);
    bool join_own(const char* exporter, std::string& reasons);
    void without_daemon(const std::string& choice, std::string reasons);
    pid_t daemon_ = -1;
    polter_session* session_ = nullptr;
    std::filesystem::path folder_;  // private, of the socket; removed with it
};

// Names for --exporter.
const std::vector<std::string>& exporter_names();

// Throws Error if `choice` is one that this version lacks, before anything is made for the run.
void check_exporter(const std::string& choice);

// `choice` is one of them. "auto" never fails: it ends in "none" with the reason. Another that cannot be had throws Error. Messages of a
// daemon that is started go to `log`.
Exporter choose_exporter(const std::string& choice, const std::filesystem::path& log);

// The same for one of several processes that a launcher starts on a node and that share one daemon: the first one starts it, it ends
// with the last. In the file `note`, which those of one node have in common, stands where its socket lies.
Exporter choose_node_exporter(const std::string& choice, const std::filesystem::path& note);

}  // namespace polter::launch
