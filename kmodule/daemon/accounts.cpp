// SPDX-License-Identifier: BSD-3-Clause
#include "accounts.hpp"

#include <algorithm>

namespace polter::daemon {

bool within_share(unsigned used, unsigned used_by_all, unsigned most, bool exempt) {
    if (used_by_all >= most) return false;
    return exempt || used + 1 <= (most - (used_by_all - used)) / 2;
}

void PageAccounts::give_back(uid_t user, std::uint32_t id) {
    auto& of = users_.at(user);
    --of.in_use;
    of.left_over.push_back(id);
    ++left_over_;
}

void PageAccounts::keep(const std::set<std::uint32_t>& existing) {
    for (auto user = users_.begin(); user != users_.end();) {
        const auto gone = std::erase_if(user->second.left_over, [&](auto id) { return !existing.contains(id); });
        all_ -= static_cast<unsigned>(gone);
        left_over_ -= static_cast<unsigned>(gone);
        user = user->second.in_use == 0 && user->second.left_over.empty() ? users_.erase(user) : std::next(user);
    }
}

unsigned PageAccounts::of(uid_t user) const {
    const auto found = users_.find(user);
    return found == users_.end() ? 0 : found->second.in_use + static_cast<unsigned>(found->second.left_over.size());
}

unsigned PageAccounts::left_over(uid_t user) const {
    const auto found = users_.find(user);
    return found == users_.end() ? 0 : static_cast<unsigned>(found->second.left_over.size());
}

Turns::User& Turns::of(uid_t user) {
    auto& of = users_[user];
    if (of.ready.empty()) of.taken_ns = std::max(of.taken_ns, floor_ns_);
    return of;
}

void Turns::add(uid_t user, std::uint64_t request) {
    of(user).ready.push_back(request);
    ++ready_;
}

void Turns::set_aside(uid_t user, std::uint64_t request) {
    of(user).aside.push_back(request);
    ++aside_;
}

void Turns::wake() {
    for (auto& [uid, user] : users_) {
        if (user.aside.empty()) continue;
        of(uid).ready.insert(user.ready.begin(), user.aside.begin(), user.aside.end());
        user.aside.clear();
    }
    ready_ += aside_;
    aside_ = 0;
}

std::optional<Turns::Turn> Turns::next() {
    auto least = users_.end();
    for (auto user = users_.begin(); user != users_.end();) {
        if (user->second.ready.empty() && user->second.aside.empty() && user->second.taken_ns <= floor_ns_) {
            user = users_.erase(user);
            continue;
        }
        if (!user->second.ready.empty() && (least == users_.end() || user->second.taken_ns < least->second.taken_ns)) least = user;
        ++user;
    }
    if (least == users_.end()) return std::nullopt;
    floor_ns_ = std::max(floor_ns_, least->second.taken_ns);
    const Turn turn{least->first, least->second.ready.front()};
    least->second.ready.pop_front();
    --ready_;
    return turn;
}

void Turns::charge(uid_t user, std::uint64_t ns) {
    of(user).taken_ns += ns;
}

}  // namespace polter::daemon
