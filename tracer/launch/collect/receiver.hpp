// SPDX-License-Identifier: BSD-3-Clause
// Takes what nodes send (protocol.hpp) into the experiment directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "protocol.hpp"

namespace polter::launch::collect {

class Receiver {
  public:
    // Listens on all addresses of this host. Throws Error.
    Receiver(std::filesystem::path experiment, const std::string& job);
    ~Receiver();
    Receiver(const Receiver&) = delete;

    const Invitation& invitation() const { return invitation_; }

    // Serves whoever comes within `wait_ms`, one node at a time.
    void serve(int wait_ms);

    const std::set<std::string>& hosts() const { return hosts_; }           // that have sent all they have
    const std::vector<std::string>& failures() const { return failures_; }  // "host b: …"
    uint64_t ranks() const { return ranks_; }                               // whose files have come

  private:
    void take(int connection);

    std::filesystem::path experiment_;
    Invitation invitation_;
    int listening_ = -1;
    std::set<std::string> hosts_;
    std::vector<std::string> failures_;
    uint64_t ranks_ = 0;
};

}  // namespace polter::launch::collect
