// SPDX-License-Identifier: BSD-3-Clause
#include "unify.hpp"

#include <fmt/format.h>

#include <tuple>

#include "../conventions.hpp"

namespace polter::seal {

uint32_t Strings::id(const std::string& value) {
    auto [at, added] = ids_.try_emplace(value, static_cast<uint32_t>(values_.size()));
    if (added) values_.push_back(value);
    return at->second;
}

namespace {

class Unifier {
  public:
    explicit Unifier(Unified& out) : out_(out) {
        out_.comms.push_back({"MPI_COMM_WORLD", UINT32_MAX, group_world, UINT32_MAX});
        out_.comms.push_back({"MPI_COMM_SELF", UINT32_MAX, group_self, UINT32_MAX});
    }

    std::vector<uint32_t> rank_comms(const Sidecar& rank) {
        std::vector<uint32_t> map;
        shared_.clear();
        for (const auto& [local, comm] : rank.comms) {
            if (map.size() <= local) map.resize(local + 1, 0);
            map[local] = comm_id(rank, local, comm, map);
        }
        return map;
    }

    std::vector<uint32_t> rank_windows(const Sidecar& rank, const std::vector<uint32_t>& comms) {
        std::vector<uint32_t> map;
        for (const auto& [local, window] : rank.windows) {
            if (map.size() <= local) map.resize(local + 1, 0);
            auto key = window.key.empty() ? fmt::format("rank {} window {}", rank.rank, local) : window.key;
            auto [at, added] = windows_.try_emplace({key, comms.at(window.comm)}, static_cast<uint32_t>(out_.windows.size()));
            if (added) out_.windows.push_back({window.name, comms.at(window.comm)});
            if (out_.windows[at->second].name.empty()) out_.windows[at->second].name = window.name;
            map[local] = at->second;
        }
        return map;
    }

    // By name: the same region may begin in several places.
    std::vector<uint32_t> rank_regions(const Sidecar& rank) {
        std::vector<uint32_t> map;
        for (const auto& region : rank.regions) {
            const auto [at, added] = regions_.try_emplace(region.name, static_cast<uint32_t>(out_.regions.size()));
            if (added) out_.regions.push_back(region);
            map.push_back(at->second);
        }
        return map;
    }

    // No two of a rank become one, whatever they are called: what comes after which (README.md, Call sites) would be lost.
    std::vector<uint32_t> rank_call_sites(const Sidecar& rank) {
        std::vector<uint32_t> objects, map;
        for (const auto& object : rank.objects) {
            const auto [at, added] = objects_.try_emplace(object, static_cast<uint32_t>(out_.objects.size()));
            if (added) out_.objects.push_back(object);
            objects.push_back(at->second);
        }
        std::map<std::pair<uint32_t, uint64_t>, uint32_t> times;  // an object may be loaded more than once
        for (const auto& site : rank.call_sites) {
            const uint32_t object = site.object < objects.size() ? objects[site.object] : UINT32_MAX;
            const uint32_t time = times[{object, site.address}]++;
            const auto [at, added] = call_sites_.try_emplace({object, site.address, time}, static_cast<uint32_t>(out_.call_sites.size()));
            if (added) out_.call_sites.push_back({object, site.address});
            map.push_back(at->second);
        }
        return map;
    }

  private:
    uint32_t group_id(const Sidecar& rank, const SidecarGroup& group) {
        switch (group.kind) {
            case SidecarGroup::world:
                return group_world;
            case SidecarGroup::self:
                return group_self;
            case SidecarGroup::same_as: {
                // A long list that many share is looked up once.
                if (const auto at = shared_.find(group.comm); at != shared_.end()) return at->second;
                const uint32_t id = group_id(rank, rank.comms.at(group.comm).group);
                return shared_[group.comm] = id;
            }
            case SidecarGroup::list:
                break;
        }
        auto [at, added] = groups_.try_emplace(group.ranks, static_cast<uint32_t>(first_group + out_.groups.size()));
        if (added) out_.groups.push_back(group.ranks);
        return at->second;
    }

    uint32_t comm_id(const Sidecar& rank, uint32_t local, const SidecarComm& comm, const std::vector<uint32_t>& map) {
        if (local == trace::comm_world || local == trace::comm_self) {
            if (!comm.name.empty()) out_.comms[local].name = comm.name;
            return local;
        }
        if (comm.team) {
            Comm team;
            team.team = true;
            team.created = comm.created;
            for (const auto& [number, location] : comm.threads) team.locations.push_back(location);
            out_.comms.push_back(std::move(team));
            return static_cast<uint32_t>(out_.comms.size() - 1);
        }
        Comm made{comm.name, UINT32_MAX, group_id(rank, comm.group), UINT32_MAX};
        if (comm.parent < map.size()) made.parent = map[comm.parent];
        if (comm.remote) {
            made.remote = group_id(rank, *comm.remote);
            // Each side calls its own group the local one; the archive has one definition for both.
            if (first_member(made.remote) < first_member(made.group)) std::swap(made.group, made.remote);
        }
        auto key = comm.key.empty() ? fmt::format("rank {} comm {}", rank.rank, local) : comm.key;
        auto [at, added] = keys_.try_emplace({key, made.group, made.remote}, static_cast<uint32_t>(out_.comms.size()));
        if (added) {
            if (!comm.key.empty() && !seen_.insert({comm.key, at->second}).second)
                out_.warnings.push_back(
                    fmt::format("rank {} describes a communicator ({}) otherwise than another rank", rank.rank, comm.key));
            out_.comms.push_back(std::move(made));
        } else if (out_.comms[at->second].name.empty()) {
            out_.comms[at->second].name = comm.name;
        }
        return at->second;
    }

    uint32_t first_member(uint32_t group) const {
        if (group < first_group || out_.groups[group - first_group].empty()) return 0;
        return out_.groups[group - first_group].front();
    }

    Unified& out_;
    std::map<std::vector<uint32_t>, uint32_t> groups_;
    std::map<uint32_t, uint32_t> shared_;  // of the rank at hand: groups by the communicator that others name with same_as
    std::map<std::tuple<std::string, uint32_t, uint32_t>, uint32_t> keys_;
    std::map<std::string, uint32_t> seen_;
    std::map<std::pair<std::string, uint32_t>, uint32_t> windows_;
    std::map<std::string, uint32_t> regions_;
    std::map<SidecarObject, uint32_t> objects_;
    std::map<std::tuple<uint32_t, uint64_t, uint32_t>, uint32_t> call_sites_;
};

}  // namespace

Unified unify(const std::vector<Sidecar>& ranks, Strings& strings) {
    Unified out;
    Unifier unifier(out);
    for (const auto& rank : ranks) {
        auto& maps = out.maps.emplace_back();
        for (const auto& value : rank.strings) maps.strings.push_back(strings.id(value));
        maps.comms = unifier.rank_comms(rank);
        maps.windows = unifier.rank_windows(rank, maps.comms);
        maps.regions = unifier.rank_regions(rank);
        maps.call_sites = unifier.rank_call_sites(rank);
    }
    return out;
}

}  // namespace polter::seal
