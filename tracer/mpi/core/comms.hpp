// SPDX-License-Identifier: BSD-3-Clause
// The communicators this rank is in, by handle, with the local id and the key that the trace gives them. Handles are used again after
// a free; what outlives it (a pending request) keeps the id. Not thread-safe: see TableLock.
//
// A key is the same on all members and needs no communication: it is a hash of the parent's key, the ordinal of the collective
// creation on the parent, and the members' world ranks. Where only the members of the new communicator take part (create_group,
// Intercomm_create), the ordinal is that of the calls with this tag and these members.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "../../write/archive.hpp"
#include "mpi.hpp"

namespace polter::mpi {

struct Comm {
    uint32_t id = 0;
    int rank = 0, size = 0;
    int peers = 0;  // how many ranks a message can go to: the remote group's of an intercommunicator, else size
    bool inter = false;
    uint64_t key = 0;
    uint32_t created = 0;     // collective creations with this one as parent so far
    uint32_t windows = 0;     // the same of windows
    bool neighbours = false;  // the sidecar has them
};

class Comms {
  public:
    // Defines MPI_COMM_WORLD and MPI_COMM_SELF.
    explicit Comms(write::Archive& archive);

    // NULL: not followed (made by MPI_Comm_spawn, by functions that are not wrapped, or with members outside MPI_COMM_WORLD).
    Comm* find(MPI_Comm handle);

    // Creation: `created` is counted on the parent when the call begins, the new communicator is defined when it is known.
    // With `same_members` the new handle is not asked for anything: it need not be usable yet (MPI_Comm_idup).
    const Comm* add_child(MPI_Comm parent, uint32_t ordinal, MPI_Comm handle, bool same_members);
    // A communicator whose members alone made it. `tag` is the call's.
    const Comm* add_group(MPI_Comm parent, uint64_t tag, MPI_Comm handle);
    void forget(MPI_Comm handle);
    // A window is made on it: its key, equal on all members. `key` stays empty where the communicator is not followed.
    void next_window(MPI_Comm handle, Comm& comm, std::string& key);
    void rename(const Comm& comm, const char* name);
    // The local id of something else that events name as a communicator. Thread-safe.
    uint32_t new_id() { return next_id_.fetch_add(1, std::memory_order_relaxed); }

  private:
    bool members(MPI_Comm handle, bool remote, std::vector<int>& world_ranks);
    // A Comm with the members of `handle`, and the two lists that the sidecar names; false: not to be followed.
    bool describe(MPI_Comm handle, uint64_t seed, Comm& comm, nlohmann::ordered_json& line);
    const Comm* add(MPI_Comm handle, const Comm& comm, nlohmann::ordered_json& line, const Comm* parent);

    write::Archive& archive_;
    std::unordered_map<uint64_t, Comm> by_handle_;
    std::map<uint64_t, uint32_t> group_calls_;  // by members and tag: how many
    MPI_Group world_group_;
    std::atomic<uint32_t> next_id_ = 0;
    uint64_t last_handle_ = 0;  // the latest looked up
    Comm* last_ = nullptr;
};

// Messages taken by a matched probe and not yet received: the communicator, source and tag of each.
struct Probed {
    uint32_t comm = 0;
    int source = 0, tag = 0;
    bool known = false;
};
using Messages = std::unordered_map<uint64_t, Probed>;

}  // namespace polter::mpi
