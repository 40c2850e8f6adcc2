// SPDX-License-Identifier: BSD-3-Clause
// Who answers for a user id: its owner, where it is one of those that a user may take in user namespaces (subuid(5)).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "peer.hpp"

namespace polter::daemon {

class Owners {
  public:
    Owners() = default;
    // A missing file has no entries; a malformed line is ignored, as shadow's tools do.
    explicit Owners(const std::filesystem::path& subuid);

    // The first user whose range contains the id; nothing if it is a user's own id.
    std::optional<uid_t> of(uid_t uid) const;
    // The same for a process, by its user namespace where that can be seen. Never root, who may do more, not less.
    std::optional<uid_t> of(const Peer& peer) const;

  private:
    struct Range {
        uid_t owner;
        std::uint64_t first, count;
    };
    std::vector<Range> ranges_;
};

// Root and the daemon's own user, to whom no policy and no limit applies.
bool is_exempt(const Peer& peer);

}  // namespace polter::daemon
