// SPDX-License-Identifier: BSD-3-Clause
// Who may register, and to whom other users' tasks are named: a file that the node's administrator writes. Root and the daemon's own user
// always may both.
//
//   {"allow": ["*"], "deny": ["user:mallory", "group:students"], "names": ["group:hpc-admins"]}
//
// An entry is "*", "user:NAME", "group:NAME", or a number in a name's place. Denied is who matches `deny`, or does not match `allow`;
// without `allow` that is ["*"]. To whom does not match `names` a task of another user is a culprit without name and id. Groups are all
// that the peer's process has. Denied are also the subordinate ids of a denied user, and a process that has put a denied group away (which
// a user namespace lets it do): there the user database says which groups its user is in.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "peer.hpp"

namespace polter::daemon {

class Policy {
  public:
    // Everybody may.
    Policy() = default;
    // Or the reason: unreadable, not JSON, an unknown key or name, or a file that others than root and the daemon's user may write to.
    static std::variant<Policy, std::string> read(const std::filesystem::path& file);

    bool permits(const Peer& peer) const;
    bool shows_names(const Peer& peer) const;

  private:
    struct Entries {
        bool everybody = false;
        std::set<uid_t> users;
        std::set<gid_t> groups;
        bool match(uid_t uid, const std::vector<gid_t>& in) const;
    };
    const std::vector<gid_t>& groups_of(uid_t uid) const;
    Entries allow_{true, {}, {}}, deny_, names_;
    mutable std::map<uid_t, std::vector<gid_t>> groups_of_;  // of those asked for, until the policy is read again
};

}  // namespace polter::daemon
