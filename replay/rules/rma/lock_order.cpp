// SPDX-License-Identifier: BSD-3-Clause
// Who waited for whose unlock.
//
// In words: of the epochs on one target those that exclude each other came one after the other. Where locks come back when they are had,
// their ends tell in which order. Many libraries are lazy: then some come back before the one before has begun its unlock, and the
// unlocks' ends, without the noise in them, tell the order, for an unlock ends soon after the lock has been given back. An exclusive epoch
// comes after the exclusive one before it, or after all the shared ones in between; a shared one after the last exclusive one. It was
// excluded if it was asked for before that was given back, which was no earlier than the unlock's beginning, nor than what that one
// waited for.
#include <algorithm>
#include <tuple>

#include "locks.hpp"
#include "replay/base/bytes.hpp"
#include "replay/rules/internal.hpp"

namespace polter::replay {

namespace {

constexpr int64_t longest_unlock = 20'000;  // ns, that waits for nobody: in a longer one noise was absorbed

}  // namespace

void LockLearning::requested(const Thread& thread, uint32_t window, uint32_t target, bool exclusive) {
    const LockKey key{thread.rank, window, target};
    if (const auto open = open_.find(key); open != open_.end() && open->second.requested == thread.enter) return;  // asked for and had
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

constexpr size_t most_out_of_order = 100;  // one of so many: clocks err

struct Holder {
    const LockEpoch* epoch;
    LockKey key;
    uint32_t ordinal;
    int64_t given_back;  // not before
};

// How many have come back from their lock before those had given it back that excluded them: were locks eager, none had.
size_t too_early(const std::vector<Holder>& holders) {
    size_t count = 0;
    int64_t exclusive = INT64_MIN, any = INT64_MIN;  // the last unlock's beginning
    for (const Holder& holder : holders) {
        count += holder.epoch->locked < (holder.epoch->exclusive ? any : exclusive);
        any = std::max(any, holder.given_back);
        if (holder.epoch->exclusive) exclusive = std::max(exclusive, holder.given_back);
    }
    return count;
}

// All epochs on one target, in the order in which they had it.
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

// Shared ones tell only whom they excluded; exclusive ones tell whoever comes next, for others may have queued for it in a lane.
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
    const Holder* exclusive = nullptr;  // the last
    std::vector<const Holder*> shared;  // since then
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

// Whoever had it later has asked no earlier. True where that has put off somebody.
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
    int rounds = 8;                            // orders of targets may contradict each other
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
    // A lock of a whole window stands in the order of each target.
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
