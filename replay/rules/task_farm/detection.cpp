// SPDX-License-Identifier: BSD-3-Clause
// Which ranks form a task farm.
//
// In words: a master receives from any source. A worker of it sends it a message and then does nothing until it receives one from the
// master, each time; and whenever the master sends to the worker, it has received all that the worker sent until it receives that answer.
// Then only the order of the requests decides which worker gets which task, and waiting workers are interchangeable. One worker is no farm,
// nor are workers that were answered about once each: that may be chance.
#include <algorithm>

#include "replay/rules/internal.hpp"
#include "task_farm.hpp"

namespace polter::replay {

namespace {

constexpr int64_t idle_limit_ns = 20'000;  // per request: less idle time than this is no computation (as between two polls)
constexpr int64_t idle_part = 10;          // … or one part in so many of the worker's computation

}  // namespace

void FarmEvidence::add(const FarmEvidence& other) {
    requests += other.requests;
    served += other.served;
    taken += other.taken;
    answers += other.answers;
    at_answers += other.at_answers;
    sent += other.sent;
    heard += other.heard;
    at_heard += other.at_heard;
    interrupted += other.interrupted;
    idle_ns += other.idle_ns;
    work_ns += other.work_ns;
    foreign += other.foreign;
}

// By an answer the master has never taken more than the worker sent before receiving it; so equal sums mean equality at every answer.
bool FarmEvidence::speaks_for_a_farm() const {
    return requests > 0 && taken == sent && answers == heard && at_answers == at_heard && interrupted == 0 && foreign == 0 &&
           idle_ns <= std::max(work_ns / idle_part, requests * idle_limit_ns);
}

FarmPlan find_farms(const std::map<RankPair, FarmEvidence>& evidence) {
    FarmPlan plan;
    std::map<int32_t, int64_t> served;
    for (const auto& [ranks, found] : evidence) {
        if (!found.speaks_for_a_farm()) continue;
        plan[ranks.first].push_back({ranks.second, found.requests, found.requests > found.served});
        served[ranks.first] += found.served;
    }
    std::erase_if(plan, [&](const auto& farm) {
        const auto workers = static_cast<int64_t>(farm.second.size());
        return workers < 2 || served[farm.first] < 2 * workers;
    });
    return plan;
}

std::set<RankPair> farm_suspects(const std::map<RankPair, bool>& wildcards) {
    std::map<int32_t, size_t> sources;
    std::set<RankPair> suspects;
    for (const auto& [ranks, anyone] : wildcards) {
        if (!anyone && wildcards.contains({ranks.second, ranks.first})) continue;
        suspects.insert(ranks);
        ++sources[ranks.first];
    }
    std::erase_if(suspects, [&](const RankPair& ranks) { return sources[ranks.first] < 2; });
    return suspects;
}

FarmLearning::FarmLearning(const std::set<RankPair>& suspects, size_t ranks) : involved_(ranks, false), asking_(ranks) {
    for (const RankPair& suspect : suspects) {
        pairs_[suspect] = {&evidence[suspect], suspect};
        involved_[static_cast<size_t>(suspect.first)] = involved_[static_cast<size_t>(suspect.second)] = true;
    }
}

FarmLearning::Pair* FarmLearning::find(int32_t master, int32_t worker) {
    if (master < 0 || worker < 0 || !involved_[static_cast<size_t>(master)] || !involved_[static_cast<size_t>(worker)]) return nullptr;
    const auto found = pairs_.find({master, worker});
    return found == pairs_.end() ? nullptr : &found->second;
}

void FarmLearning::sent(const Thread& thread, int32_t to) {
    if (Pair* pair = find(to, thread.rank)) {
        ++pair->evidence->sent;
        pair->evidence->foreign += !thread.carries_rank;
        if (!pair->asking) {
            if (pair->heard_at >= 0) pair->evidence->work_ns += thread.enter - pair->heard_at;
            pair->asking = true;
            pair->waits = pair->strayed = false;
            pair->asked_at = thread.leave;
            asking_[static_cast<size_t>(thread.rank)].push_back(pair);
        }
    }
    if (Pair* pair = find(thread.rank, to)) {
        ++pair->evidence->answers;
        pair->evidence->at_answers += pair->evidence->taken;
        pair->evidence->served += pair->in_service;
        pair->evidence->foreign += !thread.carries_rank;
        pair->in_service = false;
    }
}

void FarmLearning::received(const Thread& thread, int32_t from) {
    if (Pair* pair = find(thread.rank, from)) {
        ++pair->evidence->taken;
        pair->evidence->requests += !pair->in_service;
        pair->evidence->foreign += !thread.carries_rank;
        pair->in_service = true;
    }
    if (Pair* pair = find(from, thread.rank)) {
        ++pair->evidence->heard;
        pair->evidence->at_heard += pair->evidence->sent;
        pair->evidence->foreign += !thread.carries_rank;
        if (pair->asking) {
            const int64_t begin = thread.polling.active ? std::min(thread.enter, thread.polling.begin) : thread.enter;
            if (!pair->waits) pair->evidence->idle_ns += std::max<int64_t>(0, begin - pair->asked_at);
            pair->evidence->interrupted += pair->strayed;
            pair->asking = false;
            std::erase(asking_[static_cast<size_t>(thread.rank)], pair);
        }
        pair->heard_at = thread.leave;
    }
}

void FarmLearning::called(const Thread& thread) {
    if (thread.rank < 0) return;
    for (Pair* pair : asking_[static_cast<size_t>(thread.rank)]) {
        const int32_t master = pair->ranks.first;
        for (const Dependency& dependency : thread.dependencies) {
            if (dependency.kind == Dependency::Kind::posting && dependency.match && dependency.match->destination == master) continue;
            if (dependency.kind == Dependency::Kind::probe && dependency.channel->key.source == static_cast<uint32_t>(master)) {
                if (!pair->waits) pair->evidence->idle_ns += std::max<int64_t>(0, thread.enter - pair->asked_at);
                pair->waits = true;
                continue;
            }
            pair->strayed = true;  // counts only if an answer follows
        }
    }
}

}  // namespace polter::replay
