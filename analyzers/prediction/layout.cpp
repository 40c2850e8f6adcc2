// SPDX-License-Identifier: BSD-3-Clause
// In words: along a periodic dimension the measured ranks are repeated. Along an open one borders stay borders, and what is inside is
// repeated. A message goes as far in the grid as its parent's; that both ends agree on how many there are is checked for every pair.
#include "layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "mutations.hpp"

namespace polter::prediction {

namespace {

constexpr uint32_t nobody = UINT32_MAX;

int32_t copied(int32_t at, int32_t measured, int32_t extended, bool periodic, int32_t width) {
    if (measured == extended) return at;
    if (periodic || mutated(Mutation::borders_inside)) return at % measured;
    if (at < width) return at;
    if (at >= extended - width) return measured - (extended - at);
    return width + (at - width) % (measured - 2 * width);
}

}  // namespace

Layout::Layout(const replay::Programs& programs, const Pattern& pattern, const Grid& extended, std::string* irregular)
    : measured_(pattern.grid), grid_(extended) {
    parents_.resize(static_cast<size_t>(grid_.ranks()));
    for (int32_t rank = 0; rank < grid_.ranks(); ++rank) parents_[static_cast<size_t>(rank)] = parent_of(pattern, grid_.at(rank));
    *irregular = classify(programs);
    if (irregular->empty()) *irregular = connect(programs);
}

int32_t Layout::parent_of(const Pattern& pattern, const Point& at) const {
    Point of{};
    for (size_t d = 0; d < most_dimensions; ++d)
        of[d] = copied(at[d], measured_.size[d], grid_.size[d], measured_.periodic[d], pattern.width[d]);
    return measured_.rank(of);
}

Point Layout::extent(const CommunicatorClass& kind, const Grid& grid) const {
    Point size{1, 1, 1};
    for (size_t d = 0; d < most_dimensions; ++d)
        if (kind.spans[d]) size[d] = grid.size[d];
    return size;
}

// A communicator's members must be all ranks that agree with its first one in some dimensions.
std::string Layout::classify(const replay::Programs& programs) {
    std::map<std::pair<std::array<bool, most_dimensions>, int32_t>, uint32_t> seen;  // by span and member: how many
    std::map<std::pair<std::array<bool, most_dimensions>, uint32_t>, uint32_t> classes;
    for (const auto& [id, ranks] : programs.communicators) {
        if (ranks.empty()) continue;
        CommunicatorClass kind;
        for (const int32_t rank : ranks)
            for (size_t d = 0; d < most_dimensions; ++d)
                kind.spans[d] = kind.spans[d] || measured_.at(rank)[d] != measured_.at(ranks.front())[d];
        const Point size = extent(kind, measured_);
        if (static_cast<int64_t>(ranks.size()) != int64_t{size[0]} * size[1] * size[2] || !std::is_sorted(ranks.begin(), ranks.end()))
            return fmt::format("a communicator of {} of the {} ranks is neither all of them nor a row or plane of the {}", ranks.size(),
                               programs.ranks.size(), shape_of(measured_));
        kind.ordinal = seen[{kind.spans, ranks.front()}]++;
        for (size_t i = 1; i < ranks.size(); ++i) ++seen[{kind.spans, ranks[i]}];
        const auto [found, fresh] = classes.try_emplace({kind.spans, kind.ordinal}, static_cast<uint32_t>(classes_.size()));
        if (fresh) {
            classes_.push_back(kind);
            first_instance_.push_back(instances_);
            instances_ += static_cast<uint32_t>(grid_.ranks() / (extent(kind, grid_)[0] * extent(kind, grid_)[1] * extent(kind, grid_)[2]));
        }
        class_of_[id] = found->second;
    }
    return {};
}

std::string Layout::connect(const replay::Programs& programs) {
    first_link_.resize(parents_.size() + 1);
    for (int32_t rank = 0; rank < ranks(); ++rank)
        first_link_[static_cast<size_t>(rank) + 1] = first_link(rank) + programs.ranks[static_cast<size_t>(parent(rank))].links.size();
    queues_.assign(first_link_.back(), nobody);
    // Of a measured rank: its links by direction, offset, kind of communicator and tag.
    using Key = std::tuple<bool, Point, uint32_t, uint32_t>;
    std::vector<std::map<Key, uint32_t>> by_key(programs.ranks.size());
    const auto key = [&](const replay::Program& program, const replay::ProgramLink& link, bool out) {
        const Point way = link.out ? measured_.offset(program.rank, link.peer) : measured_.offset(link.peer, program.rank);
        const auto kind = class_of_.find(link.comm);
        return Key{out, way, kind == class_of_.end() ? nobody : kind->second, link.tag};
    };
    for (const replay::Program& program : programs.ranks)
        for (uint32_t i = 0; i < program.links.size(); ++i) {
            const auto [found, fresh] =
                by_key[static_cast<size_t>(program.rank)].try_emplace(key(program, program.links[i], program.links[i].out), i);
            if (!fresh) return "messages of one tag go to one partner by several communicators that span the same ranks";
        }
    const auto who = [&](int32_t rank) { return fmt::format("rank {}, a copy of rank {},", rank, parent(rank)); };
    for (int32_t rank = 0; rank < ranks(); ++rank) {
        const replay::Program& program = programs.ranks[static_cast<size_t>(parent(rank))];
        for (uint32_t i = 0; i < program.links.size(); ++i) {
            const replay::ProgramLink& link = program.links[i];
            if (!link.out) continue;
            const Key there = key(program, link, false);
            int32_t to = grid_.neighbour(rank, std::get<Point>(there));
            if (mutated(Mutation::wrong_partner)) to = (to + 1) % ranks();
            if (to < 0) return fmt::format("{} would send beyond the border of the {}", who(rank), shape_of(grid_));
            const auto& links = by_key[static_cast<size_t>(parent(to))];
            const auto found = links.find(there);
            const uint32_t taken = found == links.end() ? 0 : programs.ranks[static_cast<size_t>(parent(to))].links[found->second].messages;
            if (taken != link.messages)
                return fmt::format("{} would send {} messages to {} which takes {}: copies do not fit together", who(rank), link.messages,
                                   who(to), taken);
            uint32_t& queue = queues_[first_link(to) + found->second];
            if (queue != nobody) return fmt::format("two ranks would send what {} takes from one", who(to));
            queues_[first_link(rank) + i] = queue = queue_count_++;
        }
    }
    for (int32_t rank = 0; rank < ranks(); ++rank)
        for (size_t at = first_link(rank); at < first_link(rank + 1); ++at)
            if (queues_[at] == nobody) return fmt::format("nobody would send what {} takes", who(rank));
    return {};
}

Layout::Place Layout::place(int32_t rank, uint32_t communicator) const {
    const uint32_t of = class_of_.at(communicator);
    const Point size = extent(classes_[of], grid_), at = grid_.at(rank);
    Place place{first_instance_[of], 1, 0};
    uint32_t fixed = 0;
    for (size_t d = 0; d < most_dimensions; ++d) {
        if (classes_[of].spans[d]) {
            place.members *= static_cast<uint32_t>(size[d]);
            place.member = place.member * static_cast<uint32_t>(size[d]) + static_cast<uint32_t>(at[d]);
        } else {
            fixed = fixed * static_cast<uint32_t>(grid_.size[d]) + static_cast<uint32_t>(at[d]);
        }
    }
    place.instance += fixed;
    return place;
}

int32_t Layout::member(const Place&, uint32_t communicator, int32_t rank, uint32_t number) const {
    const CommunicatorClass& kind = classes_[class_of_.at(communicator)];
    Point at = grid_.at(rank);
    for (size_t d = most_dimensions; d-- > 0;) {
        if (!kind.spans[d]) continue;
        at[d] = static_cast<int32_t>(number % static_cast<uint32_t>(grid_.size[d]));
        number /= static_cast<uint32_t>(grid_.size[d]);
    }
    return grid_.rank(at);
}

uint32_t Layout::root(uint32_t communicator, uint32_t measured) const {
    const CommunicatorClass& kind = classes_[class_of_.at(communicator)];
    Point at{};
    for (size_t d = most_dimensions; d-- > 0;) {
        if (!kind.spans[d]) continue;
        const auto size = static_cast<uint32_t>(measured_.size[d]);
        at[d] = static_cast<int32_t>(measured % size);
        measured /= size;
        if (at[d] > 0 && at[d] == measured_.size[d] - 1) at[d] = grid_.size[d] - 1;
    }
    uint32_t root = 0;
    for (size_t d = 0; d < most_dimensions; ++d)
        if (kind.spans[d]) root = root * static_cast<uint32_t>(grid_.size[d]) + static_cast<uint32_t>(at[d]);
    return root;
}

}  // namespace polter::prediction
