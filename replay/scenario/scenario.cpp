// SPDX-License-Identifier: BSD-3-Clause
#include "scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "replay/base/error.hpp"
#include "replay/base/pool.hpp"
#include "replay/trace/conventions.hpp"

namespace polter::replay {

namespace {

constexpr size_t most_accounts = 62;   // a set of accounts is a bit set in one word
constexpr size_t sampled_orders = 24;  // each with its reverse: 2 × 24 orders, at most 24 × 2 × sources lanes

std::string known_names(const std::vector<Account>& accounts) {
    std::vector<std::string> list;
    for (const Account& account : accounts) list.push_back(display_name(account));
    return list.empty() ? "none at all" : fmt::format("{}", fmt::join(list, ", "));
}

size_t distance(const std::string& a, const std::string& b) {  // edit distance: letters to change, add or leave out
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 0; i < a.size(); ++i) {
        size_t diagonal = std::exchange(row[0], i + 1);
        for (size_t j = 0; j < b.size(); ++j)
            diagonal = std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, diagonal + (a[i] != b[j])}));
    }
    return row.back();
}

// A suggestion for the misspelt account `name`, as a question; empty: no similar name.
std::string suggestion(const std::vector<Account>& accounts, const std::string& name) {
    size_t least = 3;
    std::string nearest;
    for (const Account& account : accounts) {
        const std::string shown = display_name(account);
        const std::string_view prefix = account.service ? names::service_prefix : std::string_view();
        for (const std::string& known : {shown, shown.substr(prefix.size())}) {
            const size_t far = distance(name, known);
            if (far >= std::min(least, known.size())) continue;
            least = far;
            nearest = shown;
        }
    }
    return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

// A fixed generator: the same trace gives the same answer.
size_t draw(uint64_t& state, size_t below) {
    state += 0x9e3779b97f4a7c15u;
    return static_cast<size_t>(((state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u >> 33) % below);
}

}  // namespace

Scenarios::Scenarios(const std::vector<Account>& accounts, const std::optional<std::vector<std::string>>& remove,
                     const std::vector<bool>& has_noise, Faults faults)
    : faults_(faults) {
    if (accounts.size() > most_accounts)
        throw InputError(fmt::format("the trace has {} noise accounts; more than {} cannot be replayed", accounts.size(), most_accounts));
    Set services = 0;
    for (size_t i = 0; i < accounts.size(); ++i) {
        if (accounts[i].service) services |= Set{1} << i;
        if (!remove && !accounts[i].service) all_ |= Set{1} << i;
    }
    for (const std::string& name : remove.value_or(std::vector<std::string>{})) {
        const auto found = std::find_if(accounts.begin(), accounts.end(), [&](const Account& account) {
            return account.name == name || account.name == std::string(names::source_prefix) + name;
        });
        if (found == accounts.end())
            throw InputError(fmt::format("--remove {}: the trace has no such source; it has {}{}", name, known_names(accounts),
                                         suggestion(accounts, name)));
        all_ |= Set{1} << (found - accounts.begin());
    }
    Set effective = 0;
    for (size_t i = 0; i < accounts.size(); ++i)
        if (has_noise[i]) effective |= Set{1} << i;
    for (size_t i = 0; i < accounts.size(); ++i)
        if ((all_ & effective) >> i & 1) players_.push_back(i);

    add(0);  // lane 0: the measured timeline itself
    const Set grand = effective_ = all_ & effective;
    if (players_.size() <= most_exact) {
        for (Set subset = grand;; subset = (subset - 1) & grand) {
            add(subset);
            if (subset == 0) break;
        }
    } else {
        sampled_ = true;
        add(grand);
        uint64_t state = 1;
        for (size_t k = 0; k < sampled_orders; ++k) {
            std::vector<size_t> order = players_;
            for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw(state, i)]);
            orders_.push_back(order);
            std::reverse(order.begin(), order.end());  // antithetic: halves the variance of near-additive games
            orders_.push_back(order);
        }
        for (const auto& order : orders_) {
            Set set = 0;
            for (const size_t account : order) add(set |= Set{1} << account);
        }
        for (const size_t account : players_) add(grand & ~(Set{1} << account));
    }
    for (size_t i = 0; i < accounts.size(); ++i)
        if (effective >> i & 1) add(Set{1} << i);
    // Sources without noise change nothing: a set is equal to the same set without them.
    for (size_t i = 0; i < accounts.size(); ++i)
        if (!(effective >> i & 1)) lane_of_.emplace(Set{1} << i, 0);
    lane_of_.emplace(all_, lane_of_.at(grand));

    lanes_.estimates = lanes_.count;
    lanes_.all = lane_of_.at(all_);
    lanes_.low = lanes_.count;
    lanes_.high = lanes_.count + 1;
    lanes_.count += 2;
    std::vector<Set> sets(lanes_.count, grand);
    for (const auto& [set, lane] : lane_of_) sets[lane] = set & effective;
    sets[lanes_.low] = sets[lanes_.high] = grand;
    lanes_.masks.assign(accounts.size(), std::vector<int64_t>(lanes_.count, 0));
    for (size_t account = 0; account < accounts.size(); ++account)
        for (size_t lane = 0; lane < lanes_.count; ++lane)
            if (sets[lane] >> account & 1) lanes_.masks[account][lane] = -1;
}

std::vector<uint64_t> Scenarios::lane_sets() const {
    std::vector<uint64_t> sets(lanes_.count, 0);
    for (size_t account = 0; account < lanes_.masks.size(); ++account)
        for (size_t lane = 0; lane < lanes_.count; ++lane)
            if (lanes_.masks[account][lane]) sets[lane] |= Set{1} << account;
    return sets;
}

std::vector<size_t> Scenarios::lanes_to_order() const {
    std::set<size_t> lanes{all()};
    const bool each = lanes_.estimates <= most_ordered;
    for (size_t lane = 0; each && lane < lanes_.estimates; ++lane) lanes.insert(lane);
    for (const size_t account : players_) lanes.insert({alone_lane(account), all_but_lane(account)});
    lanes.erase(0);  // nothing is removed there
    return {lanes.begin(), lanes.end()};
}

void Scenarios::add(Set set) {
    if (lane_of_.emplace(set, lanes_.count).second) ++lanes_.count;
}

int64_t Scenarios::alone(const std::vector<int64_t>& value, size_t account) const {
    return at(value, Set{1} << account);
}

int64_t Scenarios::without(const std::vector<int64_t>& value, size_t account) const {
    if (std::find(players_.begin(), players_.end(), account) == players_.end()) return 0;
    Set grand = 0;
    for (const size_t player : players_) grand |= Set{1} << player;
    return at(value, grand) - at(value, grand & ~(Set{1} << account));
}

std::vector<int64_t> Scenarios::shares(const std::vector<int64_t>& value, std::vector<double>* error) const {
    const size_t n = players_.size();
    if (n == 0) return {};
    // Numerators over a common denominator, in integers: rounded only once, at the end.
    std::vector<__int128> numerator(n, 0);
    __int128 denominator = 1;
    std::vector<double> squares(n, 0);
    if (!sampled_) {
        std::vector<int64_t> factorial(n + 1, 1);
        for (size_t i = 1; i <= n; ++i) factorial[i] = factorial[i - 1] * static_cast<int64_t>(i);
        denominator = factorial[n];
        std::vector<int64_t> worth(size_t{1} << n);
        for (size_t bits = 0; bits < worth.size(); ++bits) {
            Set set = 0;
            for (size_t i = 0; i < n; ++i)
                if (bits >> i & 1) set |= Set{1} << players_[i];
            worth[bits] = at(value, set);
        }
        for (size_t bits = 0; bits < worth.size(); ++bits) {
            const auto size = static_cast<size_t>(std::popcount(bits));
            for (size_t i = 0; i < n; ++i) {
                if (bits >> i & 1) continue;
                const int64_t adds = worth[bits | size_t{1} << i] - worth[bits];
                numerator[i] += static_cast<__int128>(factorial[size]) * factorial[n - size - 1] * adds;
            }
        }
    } else {
        denominator = static_cast<__int128>(orders_.size());
        std::map<size_t, size_t> place;
        for (size_t i = 0; i < n; ++i) place[players_[i]] = i;
        std::vector<std::vector<int64_t>> seen(n);
        for (const auto& order : orders_) {
            Set set = 0;
            for (const size_t account : order) {
                const int64_t before = at(value, set);
                set |= Set{1} << account;
                numerator[place[account]] += at(value, set) - before;
                seen[place[account]].push_back(at(value, set) - before);
            }
        }
        for (size_t i = 0; i < n; ++i) {  // pairs, since an order and its reverse are not independent
            const double mean = static_cast<double>(numerator[i]) / static_cast<double>(denominator);
            for (size_t k = 0; k + 1 < seen[i].size(); k += 2) {
                const double pair = 0.5 * static_cast<double>(seen[i][k] + seen[i][k + 1]) - mean;
                squares[i] += pair * pair;
            }
        }
    }
    if (error) {
        error->assign(n, 0);
        const double pairs = static_cast<double>(orders_.size()) / 2;
        for (size_t i = 0; sampled_ && i < n; ++i) (*error)[i] = std::sqrt(squares[i] / (pairs * (pairs - 1)));
    }
    // Largest remainder: round all down, then give the rest to those that lost most.
    std::vector<int64_t> share(n);
    std::vector<__int128> rest(n);
    int64_t given = 0;
    for (size_t i = 0; i < n; ++i) {
        __int128 floor = numerator[i] / denominator;
        if (floor * denominator > numerator[i]) --floor;
        share[i] = static_cast<int64_t>(floor);
        rest[i] = numerator[i] - floor * denominator;
        given += share[i];
    }
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rest[a] > rest[b]; });
    const int64_t left = value[all()] - value[0] - given;
    for (int64_t i = 0; i < left && !faults_.round_shares; ++i) ++share[order[static_cast<size_t>(i) % n]];
    return share;
}

Lanes one_scenario(std::vector<std::vector<int64_t>> masks, bool bounds) {
    Lanes lanes;
    lanes.estimates = 2;
    lanes.all = 1;
    lanes.count = lanes.low = lanes.high = 2;
    if (bounds) {
        lanes.high = 3;
        lanes.count = 4;
        for (auto& mask : masks) mask.insert(mask.end(), 2, mask[1]);
    }
    lanes.masks = std::move(masks);
    return lanes;
}

}  // namespace polter::replay
