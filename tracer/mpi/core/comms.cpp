// SPDX-License-Identifier: BSD-3-Clause
#include "comms.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

namespace polter::mpi {
namespace {

using nlohmann::ordered_json;

// splitmix64's finaliser: every bit of the state reaches every bit of the key.
uint64_t mix(uint64_t state, uint64_t value) {
    uint64_t z = state + 0x9e3779b97f4a7c15u + value * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t mix_ranks(uint64_t state, const std::vector<int>& ranks) {
    state = mix(state, ranks.size());
    for (int r : ranks) state = mix(state, static_cast<uint64_t>(r));
    return state;
}

std::string text(uint64_t key) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(key));
    return digits;
}

Comm shape(MPI_Comm handle) {
    Comm comm;
    int inter = 0;
    pmpi.Comm_test_inter(handle, &inter);
    pmpi.Comm_rank(handle, &comm.rank);
    pmpi.Comm_size(handle, &comm.size);
    comm.peers = comm.size;
    comm.inter = inter != 0;
    if (inter) pmpi.Comm_remote_size(handle, &comm.peers);
    return comm;
}

constexpr uint64_t world_key = 1, self_key = 2, group_seed = 3, window_seed = 4;

}  // namespace

Comms::Comms(write::Archive& archive) : archive_(archive) {
    pmpi.Comm_group(constants.comm_world, &world_group_);
    const auto predefined = [this](MPI_Comm handle, const char* name, const char* kind, uint64_t key) {
        Comm comm = shape(handle);
        comm.id = new_id();
        comm.key = key;
        archive_.define({{"comm", comm.id}, {"name", name}, {"parent", nullptr}, {"key", kind}, {"group", kind}});
        by_handle_[bits(handle)] = comm;
    };
    predefined(constants.comm_world, "MPI_COMM_WORLD", "world", world_key);
    predefined(constants.comm_self, "MPI_COMM_SELF", "self", self_key);
}

Comm* Comms::find(MPI_Comm handle) {
    const uint64_t key = bits(handle);
    if (last_ && last_handle_ == key) return last_;
    const auto at = by_handle_.find(key);
    if (at == by_handle_.end()) {
        if (handle != constants.comm_null)
            archive_.warn("messages on communicators that are not followed (of spawned or connected processes) have no records");
        return nullptr;
    }
    last_handle_ = key;
    return last_ = &at->second;
}

// The ranks in MPI_COMM_WORLD; false if one is not in it.
bool Comms::members(MPI_Comm handle, bool remote, std::vector<int>& world_ranks) {
    MPI_Group group;
    int size = 0;
    if ((remote ? pmpi.Comm_remote_group(handle, &group) : pmpi.Comm_group(handle, &group)) != MPI_SUCCESS) return false;
    pmpi.Group_size(group, &size);
    std::vector<int> ranks(static_cast<size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    world_ranks.assign(static_cast<size_t>(size), MPI_UNDEFINED);
    pmpi.Group_translate_ranks(group, size, ranks.data(), world_group_, world_ranks.data());
    pmpi.Group_free(&group);
    return std::find(world_ranks.begin(), world_ranks.end(), MPI_UNDEFINED) == world_ranks.end();
}

bool Comms::describe(MPI_Comm handle, uint64_t seed, Comm& comm, ordered_json& line) {
    std::vector<int> group, remote;
    comm = shape(handle);
    if (!members(handle, false, group) || (comm.inter && !members(handle, true, remote))) return false;
    line["group"] = group;
    if (comm.inter) line["remote"] = remote;
    // Both sides of an intercommunicator must come to the same key.
    if (comm.inter && remote < group) std::swap(group, remote);
    comm.key = mix_ranks(mix_ranks(seed, group), remote);
    return true;
}

const Comm* Comms::add(MPI_Comm handle, const Comm& comm, ordered_json& line, const Comm* parent) {
    const uint32_t id = new_id();
    ordered_json whole{{"comm", id}, {"name", ""}, {"parent", nullptr}, {"key", text(comm.key)}};
    if (parent) whole["parent"] = parent->id;
    whole.update(line);
    archive_.define(whole);
    Comm& added = by_handle_[bits(handle)] = comm;
    added.id = id;
    last_ = nullptr;
    return &added;
}

const Comm* Comms::add_child(MPI_Comm parent_handle, uint32_t ordinal, MPI_Comm handle, bool same_members) {
    const Comm* parent = find(parent_handle);
    if (!parent) return nullptr;
    uint64_t seed = mix(parent->key, ordinal);
    // All ranks' MPI_COMM_SELF have one key; their children must not.
    if (parent->key == self_key) seed = mix(seed, static_cast<uint64_t>(find(constants.comm_world)->rank) + 1);
    Comm comm;
    ordered_json line;
    if (same_members && !parent->inter) {  // the list of a large communicator is worth saving
        comm = *parent;
        comm.created = comm.windows = 0;
        comm.neighbours = false;
        comm.key = seed;
        line["group"] = {{"same_as", parent->id}};
    } else if (!describe(same_members ? parent_handle : handle, seed, comm, line)) {
        return nullptr;
    }
    return add(handle, comm, line, find(parent_handle));
}

const Comm* Comms::add_group(MPI_Comm parent, uint64_t tag, MPI_Comm handle) {
    Comm comm;
    ordered_json line;
    // The parent is no part of the key: the two sides of an intercommunicator name different ones.
    if (!describe(handle, mix(group_seed, tag), comm, line)) return nullptr;
    comm.key = mix(comm.key, ++group_calls_[comm.key]);
    return add(handle, comm, line, parent == constants.comm_null ? nullptr : find(parent));
}

void Comms::next_window(MPI_Comm handle, Comm& comm, std::string& key) {
    Comm* known = find(handle);
    if (!known || known->inter) return;
    uint64_t state = mix(mix(window_seed, known->key), ++known->windows);
    if (known->key == self_key) state = mix(state, static_cast<uint64_t>(find(constants.comm_world)->rank) + 1);
    comm = *find(handle);
    key = text(state);
}

void Comms::forget(MPI_Comm handle) {
    by_handle_.erase(bits(handle));
    last_ = nullptr;
}

void Comms::rename(const Comm& comm, const char* name) {
    archive_.define({{"comm", comm.id}, {"name", name}});
}

}  // namespace polter::mpi
