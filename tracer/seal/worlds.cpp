// SPDX-License-Identifier: BSD-3-Clause
#include "worlds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <system_error>
#include <tuple>

#include "../conventions.hpp"

namespace polter::seal {
namespace {

constexpr size_t most_jobs = 4096;  // whose folders are made; a sidecar may say anything

bool earlier(const Sidecar& a, const Sidecar& b) {
    return std::tie(a.started_ns, a.rank, a.folder) < std::tie(b.started_ns, b.rank, b.folder);
}

// 0: not one of ours.
uint32_t number_of(const std::string& name) {
    const std::string prefix = trace::further_job;
    if (!name.starts_with(prefix)) return 0;
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
    return error == std::errc{} && end == name.data() + name.size() ? number : 0;
}

}  // namespace

std::vector<std::vector<Sidecar>> worlds_of(std::vector<Sidecar> ranks) {
    std::sort(ranks.begin(), ranks.end(), earlier);
    struct World {
        std::vector<Sidecar> ranks;
        std::set<uint32_t> has;
    };
    std::vector<World> worlds;
    std::map<std::pair<std::string, uint32_t>, std::vector<size_t>> named;
    for (auto& rank : ranks) {
        auto& candidates = named[{rank.world, rank.size}];
        // The latest that lacks it: a rank that left nothing leaves a gap, which no later job may fill.
        const auto lacks =
            std::find_if(candidates.rbegin(), candidates.rend(), [&](size_t w) { return !worlds[w].has.contains(rank.rank); });
        const size_t at = lacks == candidates.rend() ? worlds.size() : *lacks;
        if (at == worlds.size()) {
            candidates.push_back(at);
            worlds.emplace_back();
        }
        auto& world = worlds[at];
        world.has.insert(rank.rank);
        world.ranks.push_back(std::move(rank));
    }
    std::vector<std::vector<Sidecar>> out;
    for (auto& world : worlds) {
        std::sort(world.ranks.begin(), world.ranks.end(), [](const Sidecar& a, const Sidecar& b) { return a.rank < b.rank; });
        out.push_back(std::move(world.ranks));
    }
    return out;
}

std::vector<Sidecar> set_apart(const Folder& experiment, const Folder& ranks, std::vector<std::vector<Sidecar>> worlds) {
    auto left = std::move(worlds.front());
    uint32_t number = 1;
    for (const auto& name : further_jobs(experiment)) number = std::max(number, number_of(name));
    for (size_t i = 1; i < worlds.size(); ++i) {
        try {
            if (i >= most_jobs) throw std::system_error(std::make_error_code(std::errc::too_many_links));
            const Folder job = experiment.make(fmt::format("{}{}", trace::further_job, ++number)).make(trace::ranks_folder);
            for (const auto& rank : worlds[i]) ranks.move_to(rank.folder, job);
        } catch (const std::system_error&) {
            left.insert(left.end(), std::make_move_iterator(worlds[i].begin()), std::make_move_iterator(worlds[i].end()));
        }
    }
    return left;
}

std::vector<std::string> further_jobs(const Folder& experiment) {
    auto names = experiment.folders();
    std::erase_if(names, [](const std::string& name) { return number_of(name) == 0; });
    std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return number_of(a) < number_of(b); });
    return names;
}

}  // namespace polter::seal
