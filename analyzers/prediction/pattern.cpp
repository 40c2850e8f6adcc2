// SPDX-License-Identifier: BSD-3-Clause
// In words: every way to number the ranks as a grid of up to three dimensions is tried, each dimension open or periodic. It is a pattern
// if each offset that occurs is used by all ranks that have a partner there. Of several the one with the fewest and shortest offsets is
// taken.
#include "pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>

#include "mutations.hpp"

namespace polter::prediction {

namespace {

constexpr int32_t farthest = 2;    // offsets of a neighbourhood, in each dimension
constexpr size_t most_offsets = 26;  // all neighbours in three dimensions

using Pair = std::pair<int32_t, int32_t>;

std::set<Pair> pairs_of(const replay::Programs& programs) {
    std::set<Pair> pairs;
    for (const replay::Program& program : programs.ranks)
        for (const replay::ProgramLink& link : program.links)
            if (link.messages > 0) pairs.insert(link.out ? Pair{program.rank, link.peer} : Pair{link.peer, program.rank});
    return pairs;
}

struct Candidate {
    Grid grid;
    std::set<Point> offsets;
    auto order() const {
        int64_t length = 0;
        for (const Point& way : offsets)
            for (const int32_t step : way) length += std::abs(step);
        return std::tuple(offsets.size(), length, grid.dimensions);
    }
};

// In a periodic dimension of length 2 both directions are the same.
bool ambiguous(const Grid& grid) {
    for (size_t d = 0; d < grid.dimensions; ++d)
        if (grid.periodic[d] && grid.size[d] < 3) return true;
    return false;
}

int64_t senders(const Grid& grid, const Point& way) {
    int64_t count = 1;
    for (size_t d = 0; d < most_dimensions; ++d) count *= grid.periodic[d] ? grid.size[d] : grid.size[d] - std::abs(way[d]);
    return count;
}

std::optional<Candidate> fits(const Grid& grid, const std::set<Pair>& pairs) {
    if (ambiguous(grid)) return std::nullopt;
    std::map<Point, int64_t> users;
    for (const auto& [from, to] : pairs) {
        const Point way = grid.offset(from, to);
        for (const int32_t step : way)
            if (std::abs(step) > farthest) return std::nullopt;
        ++users[way];
        if (users.size() > most_offsets) return std::nullopt;
    }
    Candidate candidate{grid, {}};
    for (const auto& [way, count] : users) {
        if (count != senders(grid, way) && !mutated(Mutation::any_offsets)) return std::nullopt;
        candidate.offsets.insert(way);
    }
    return candidate;
}

template <class Visit>
void each_grid(int32_t ranks, Visit visit) {
    for (int32_t a = 1; a <= ranks; ++a) {
        if (ranks % a != 0) continue;
        for (int32_t b = 1; b <= ranks / a; ++b) {
            if (ranks / a % b != 0) continue;
            Grid grid;
            grid.size = {a, b, ranks / a / b};
            if ((a == 1 && b != 1 && grid.size[2] == 1) || (b == 1 && a != 1) || (a != 1 && grid.size[2] == 1)) continue;  // the same one
            if (a == 1 && grid.size[2] == 1 && ranks > 1) continue;
            std::vector<int32_t> sizes;
            for (const int32_t size : grid.size)
                if (size > 1) sizes.push_back(size);
            grid.dimensions = std::max<size_t>(1, sizes.size());
            sizes.resize(most_dimensions, 1);
            std::copy(sizes.begin(), sizes.end(), grid.size.begin());
            visit(grid);
        }
    }
}

std::string name_of(const Candidate& candidate) {
    const Grid& grid = candidate.grid;
    if (candidate.offsets.empty()) return "no messages between single ranks";
    if (grid.dimensions == 1) return fmt::format("{} of {}", grid.periodic[0] ? "ring" : "chain", grid.size[0]);
    const auto periodic = static_cast<size_t>(std::count(grid.periodic.begin(), grid.periodic.end(), true));
    const char* kind = periodic == grid.dimensions ? "periodic" : periodic == 0 ? "open" : "partly periodic";
    return fmt::format("{} grid of {}", kind, shape_of(grid));
}

}  // namespace

Point Grid::offset(int32_t from, int32_t to) const {
    const Point a = at(from), b = at(to);
    Point way{};
    for (size_t d = 0; d < most_dimensions; ++d) {
        way[d] = b[d] - a[d];
        if (!periodic[d]) continue;
        if (2 * way[d] > size[d]) way[d] -= size[d];
        if (2 * way[d] <= -size[d]) way[d] += size[d];
    }
    return way;
}

int32_t Grid::neighbour(int32_t rank, const Point& way) const {
    Point p = at(rank);
    for (size_t d = 0; d < most_dimensions; ++d) {
        p[d] += way[d];
        if (periodic[d]) p[d] = (p[d] + size[d]) % size[d];
        if (p[d] < 0 || p[d] >= size[d]) return -1;
    }
    return this->rank(p);
}

std::string shape_of(const Grid& grid) {
    std::string text;
    for (size_t d = 0; d < grid.dimensions; ++d) text += (d > 0 ? " x " : "") + std::to_string(grid.size[d]);
    return text;
}

Pattern find_pattern(const replay::Programs& programs) {
    const auto ranks = static_cast<int32_t>(programs.ranks.size());
    const std::set<Pair> pairs = pairs_of(programs);
    Pattern pattern;
    std::optional<Candidate> best;
    if (pairs.empty()) {
        best.emplace();
        best->grid.size[0] = ranks;
        best->grid.periodic[0] = true;
    } else {
        each_grid(ranks, [&](Grid grid) {
            for (unsigned choice = 0; choice < 1u << grid.dimensions; ++choice) {
                for (size_t d = 0; d < grid.dimensions; ++d) grid.periodic[d] = (choice >> d & 1) != 0;
                const std::optional<Candidate> candidate = fits(grid, pairs);
                if (candidate && (!best || candidate->order() < best->order())) best = candidate;
            }
        });
    }
    if (!best) {
        pattern.irregular = fmt::format(
            "the {} pairs of ranks that exchange messages are no regular neighbourhood: in no grid of up to three dimensions, open or "
            "periodic, do all ranks have the same partners",
            pairs.size());
        return pattern;
    }
    pattern.grid = best->grid;
    pattern.offsets = best->offsets;
    if (mutated(Mutation::borders_wrap)) pattern.grid.periodic = {true, best->grid.dimensions > 1, best->grid.dimensions > 2};
    for (const Point& way : pattern.offsets)
        for (size_t d = 0; d < most_dimensions; ++d)
            if (!pattern.grid.periodic[d]) pattern.width[d] = std::max(pattern.width[d], std::abs(way[d]));
    pattern.name = name_of(*best);
    return pattern;
}

Extended extend(const Pattern& pattern, int64_t ranks, const std::vector<int64_t>& wanted) {
    const Grid& grid = pattern.grid;
    Extended best;
    double nearest = INFINITY;
    const auto consider = [&](const Point& size) {
        double least = INFINITY, most = 0;
        for (size_t d = 0; d < grid.dimensions; ++d) {
            const double growth = static_cast<double>(size[d]) / grid.size[d];
            least = std::min(least, growth);
            most = std::max(most, growth);
            if (size[d] < grid.size[d]) return;
            // Ranks inside are copied from ranks inside.
            if (size[d] > grid.size[d] && !grid.periodic[d] && grid.size[d] <= 2 * pattern.width[d]) return;
        }
        if (most / least >= nearest - 1e-9) return;
        nearest = most / least;
        best.grid = grid;
        best.grid.size = size;
    };
    const auto n = static_cast<int32_t>(ranks);
    if (!wanted.empty()) {
        Point size{1, 1, 1};
        int64_t product = 1;
        for (size_t d = 0; d < std::min(wanted.size(), most_dimensions); ++d) {
            size[d] = static_cast<int32_t>(wanted[d]);
            product *= wanted[d];
        }
        if (wanted.size() == grid.dimensions && product == ranks) consider(size);
    } else {
        for (int32_t a = n; a >= 1; --a) {
            if (n % a != 0) continue;
            if (grid.dimensions == 1) {
                if (a == n) consider({a, 1, 1});
                continue;
            }
            for (int32_t b = n / a; b >= 1; --b) {
                if (n / a % b != 0) continue;
                if (grid.dimensions == 3) consider({a, b, n / a / b});
                if (grid.dimensions == 2 && a * b == n) consider({a, b, 1});
            }
        }
    }
    if (std::isinf(nearest))
        best.why = fmt::format("{} ranks do not extend the measured {}: {}", ranks, pattern.name,
                               wanted.empty() ? "no grid of so many ranks is at least as long in each dimension (with ranks inside of each "
                                                "open one to copy)"
                                              : "the grid that was given has other dimensions, another number of ranks, or is shorter");
    return best;
}

}  // namespace polter::prediction
