// SPDX-License-Identifier: BSD-3-Clause
// The lock grant order: which epoch waited for which unlock.
//
// In words: of the epochs on one target, those that exclude each other held the lock one after the other. Where a lock call returns when
// the lock is granted, the ends of the lock calls give the order. In many libraries it returns earlier, sometimes before the previous
// holder has begun its unlock; then the ends of the unlocks give the order, without the noise in them, as an unlock ends soon after the
// lock is released. An exclusive epoch follows the previous exclusive one, or all shared ones in between; a shared epoch follows the last
// exclusive one. It waited for the lock if it requested it before the previous holder released it. That release was not before the
// beginning of the unlock, nor before the releases for which the previous holder itself waited.
#include <algorithm>
#include <tuple>

#include "locks.hpp"
#include "replay/base/bytes.hpp"
#include "replay/rules/internal.hpp"

namespace polter::replay {

namespace {

constexpr int64_t longest_unlock = 20'000;  // ns; of an unlock that waits for nothing. A longer one did wait, and its noise was absorbed.

}  // namespace

void LockLearning::requested(const Thread& thread, uint32_t window, uint32_t target, bool exclusive) {
    const LockKey key{thread.rank, window, target};
    // a second record in the same call: requested and granted
    if (const auto open = open_.find(key); open != open_.end() && open->second.requested == thread.enter) return;
    open_[key] = {thread.enter, thread.enter, thread.leave, 0, exclusive};
}

void LockLearning::released(const Thread& thread, uint32_t window, uint32_t target) {
    const LockKey key{thread.rank, window, target};
    const auto open = open_.find(key);
    if (open == open_.end()) return;
    LockEpoch epoch = open->second;
    open_.erase(open);
    uint64_t& left = left_[static_cast<size_t>(thread.rank)];
    if (left == 0) return;
    --left;
    epoch.releasing = thread.enter;
    const int64_t noise = rules::noise_after(thread.pieces, thread.enter), net = thread.leave - thread.enter - noise;
    epoch.unlocked = net > longest_unlock ? thread.leave : std::max(thread.enter, thread.leave - noise);
    epochs_[key].push_back(epoch);
}

void LockLearning::write(Bytes& to) const {
    to.put(static_cast<uint64_t>(epochs_.size()));
    for (const auto& [key, epochs] : epochs_) {
        to.put(key);
        to.put(epochs);
    }
}

void LockLearning::merge(Input& from) {
    for (auto left = from.get<uint64_t>(); left > 0; --left) {
        const auto key = from.get<LockKey>();
        std::vector<LockEpoch> epochs;
        from.get(epochs);
        epochs_[key] = std::move(epochs);
    }
}

namespace {

constexpr size_t most_out_of_order = 100;  // one in so many may be out of order: clocks err

struct Holder {
    const LockEpoch* epoch;
    LockKey key;
    uint32_t ordinal;
    int64_t given_back;  // the release was not earlier
};

// How many lock calls returned before an epoch that excludes theirs had released the lock. If they returned when granted, none would.
size_t too_early(const std::vector<Holder>& holders) {
    size_t count = 0;
    int64_t exclusive = INT64_MIN, any = INT64_MIN;  // the latest begin of an unlock: of exclusive epochs, of all
    for (const Holder& holder : holders) {
        count += holder.epoch->locked < (holder.epoch->exclusive ? any : exclusive);
        any = std::max(any, holder.given_back);
        if (holder.epoch->exclusive) exclusive = std::max(exclusive, holder.given_back);
    }
    return count;
}

// All epochs on one target, in lock grant order.
std::vector<Holder> in_order(const std::vector<std::pair<LockKey, const std::vector<LockEpoch>*>>& all, const Faults& faults) {
    std::vector<Holder> holders;
    for (const auto& [key, epochs] : all)
        for (uint32_t i = 0; i < epochs->size(); ++i) holders.push_back({&(*epochs)[i], key, i, (*epochs)[i].releasing});
    const auto sort_by = [&](int64_t LockEpoch::*time) {
        std::sort(holders.begin(), holders.end(), [&](const Holder& a, const Holder& b) {
            return std::tuple(a.epoch->*time, a.key, a.ordinal) < std::tuple(b.epoch->*time, b.key, b.ordinal);
        });
    };
    sort_by(&LockEpoch::locked);
    if (faults.order_of_unlocks || too_early(holders) > holders.size() / most_out_of_order) sort_by(&LockEpoch::unlocked);
    return holders;
}

// A shared epoch only releases those that waited for it. An exclusive one always passes its queue to the next exclusive one, which may have
// to wait in another scenario.
void grant_lock(LockPlan& plan, const Holder& from, Holder& to, uint32_t target, const Faults& faults) {
    const bool excluded = to.epoch->requested < from.given_back,
               queues = from.epoch->exclusive && to.epoch->exclusive && !faults.only_excluded;
    if (!queues && (!excluded || from.key.rank == to.key.rank)) return;
    if (excluded) to.given_back = std::max(to.given_back, from.given_back);
    const uint32_t number = plan.grants++;
    plan.places[from.key].lets.push_back({from.ordinal, number, target, to.key.rank, from.given_back, excluded});
    plan.places[to.key].waits.push_back({to.ordinal, number, target, from.key.rank, from.given_back, excluded});
}

void plan_target(LockPlan& plan, std::vector<Holder> holders, uint32_t target, const Faults& faults) {
    const Holder* exclusive = nullptr;  // the last exclusive epoch
    std::vector<const Holder*> shared;  // shared epochs since then
    for (Holder& holder : holders) {
        if (holder.epoch->exclusive)
            for (const Holder* one : shared) grant_lock(plan, *one, holder, target, faults);
        if (exclusive) grant_lock(plan, *exclusive, holder, target, faults);
        if (holder.epoch->exclusive) {
            shared.clear();
            exclusive = &holder;
        } else {
            shared.push_back(&holder);
        }
    }
}

// An epoch that had the lock later requested it later, whatever the clocks say. True if a request was moved.
bool order_turns(LockPlan& plan, const std::vector<Holder>& holders) {
    bool moved = false;
    int64_t last = INT64_MIN;
    for (const Holder& holder : holders) {
        auto& turns = plan.places[holder.key].turns;
        const auto known = turns.find(holder.ordinal);
        int64_t turn = known == turns.end() ? holder.epoch->requested : known->second;
        if (turn <= last) {
            turns[holder.ordinal] = turn = last + 1;
            moved = true;
        }
        last = turn;
    }
    return moved;
}

}  // namespace

LockPlan LockLearning::plan(const std::set<uint32_t>& exclusive_windows, const Faults& faults) const {
    LockPlan plan;
    std::vector<std::vector<Holder>> ordered;  // by target
    int rounds = 8;                            // limit: the orders on several targets may contradict each other
    std::map<std::pair<uint32_t, uint32_t>, std::vector<std::pair<LockKey, const std::vector<LockEpoch>*>>> targets;
    for (const auto& [key, epochs] : epochs_) {
        if (!exclusive_windows.contains(key.window)) continue;
        plan.places[key].epochs = epochs.size();
        targets[{key.window, key.target}].emplace_back(key, &epochs);
    }
    for (auto& [where, all] : targets) {
        const auto& [window, target] = where;
        const bool ever_exclusive = std::any_of(all.begin(), all.end(), [](const auto& of) {
            return std::any_of(of.second->begin(), of.second->end(), [](const LockEpoch& epoch) { return epoch.exclusive; });
        });
        if (target == every_target || !ever_exclusive) continue;
        if (const auto whole = targets.find({window, every_target}); whole != targets.end())
            all.insert(all.end(), whole->second.begin(), whole->second.end());
        ordered.push_back(in_order(all, faults));
        plan_target(plan, ordered.back(), target, faults);
    }
    // An epoch that locks the whole window takes part in the order of each target.
    for (bool moved = !faults.turns_by_clocks; moved && rounds > 0; --rounds) {
        moved = false;
        for (const std::vector<Holder>& holders : ordered) moved = order_turns(plan, holders) || moved;
    }
    for (auto& [key, place] : plan.places)
        for (auto* list : {&place.waits, &place.lets})
            std::stable_sort(list->begin(), list->end(), [](const Grant& a, const Grant& b) { return a.epoch < b.epoch; });
    return plan;
}

}  // namespace polter::replay
