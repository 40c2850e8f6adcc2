// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_rules.hpp"

#include <algorithm>
#include <vector>

#include "internal.hpp"
#include "replay/base/bytes.hpp"

namespace polter::replay {

MpiRules::MpiRules(LearnedRules from) : learned(std::move(from)), scratch(std::make_unique<Scratch>()) {}

MpiRules::~MpiRules() = default;

const DependencyRules& MpiRules::dependency_rules() const {
    return rules::dependency_rules;
}

void MpiRules::attach(Engine& engine) {
    const auto& threads = engine.threads();
    const bool hosts = std::any_of(threads.begin(), threads.end(), [&](const auto& one) { return one->host != threads.front()->host; });
    if (hosts && (learned.links || engine.learning()) && !engine.faults().links_apart)
        links = std::make_unique<Links>(learned.links, engine.lanes());
    if (learned.locks) locks = std::make_unique<Locks>(engine, learned.locks);
    if (engine.learning()) {
        access_learning = std::make_unique<AccessLearning>(engine.processes().size());
        if (!locks) lock_learning = std::make_unique<LockLearning>(engine.processes().size());
        if (!learned.farm_suspects.empty())
            farm_learning = std::make_unique<FarmLearning>(learned.farm_suspects, engine.processes().size());
        return;
    }
    if (learned.accesses) accesses = std::make_unique<Accesses>(learned.accesses);
    if (!learned.farms.empty()) farms = std::make_unique<Farms>(engine, learned.farms);
    if (!locks) return;
    locks->foresee(learned.foresight);
    if (learned.turns_in) locks->take_turns(*learned.turns_in);
}

void MpiRules::publish(Engine& engine, Thread& thread) {
    if (links && engine.learning())
        for (const Operation& operation : thread.operations) links->passes_by(operation);
    rules::publish(engine, thread);
    if (program) program->published(engine, thread);
}

void MpiRules::publish_unfinished(Engine& engine, Thread& thread) {
    rules::publish_unfinished(engine, thread);
    if (program) program->cut_off(thread);
}

CallEnd MpiRules::conclude(Engine& engine, Thread& thread) {
    return rules::conclude(engine, thread);
}

void MpiRules::message_arrived(Match& match) {
    if (farms) farms->arrived(match);
}

void MpiRules::message_forgotten(Match& match) {
    farms->forget(match);
}

void MpiRules::drop(LockQueue* queue) {
    delete queue;
}

bool MpiRules::takes_turns() const {
    return locks && locks->turns();
}

Thread* MpiRules::grant() {
    return locks->turns()->grant();
}

void MpiRules::write(Bytes& to) const {
    to.put(std::vector<uint32_t>(learned.exclusive_windows.begin(), learned.exclusive_windows.end()));
    to.put(static_cast<uint64_t>(wildcards.size()));
    for (const auto& [ranks, anyone] : wildcards) {
        to.put(ranks.first);
        to.put(ranks.second);
        to.put(anyone);
    }
    if (farm_learning)
        for (const auto& [ranks, found] : farm_learning->evidence) to.put(found);  // the same pairs in every process
    if (lock_learning) lock_learning->write(to);
    if (access_learning) access_learning->write(to);
    if (links) links->write(to);
}

void MpiRules::merge(Input& from) {
    std::vector<uint32_t> windows;
    from.get(windows);
    learned.exclusive_windows.insert(windows.begin(), windows.end());
    for (auto left = from.get<uint64_t>(); left > 0; --left) {
        const auto master = from.get<int32_t>();
        bool& anyone = wildcards[{master, from.get<int32_t>()}];
        anyone = from.get<bool>() || anyone;
    }
    if (farm_learning)
        for (auto& [ranks, found] : farm_learning->evidence) found.add(from.get<FarmEvidence>());
    if (lock_learning) lock_learning->merge(from);
    if (access_learning) access_learning->merge(from);
    if (links) links->merge(from);
}

}  // namespace polter::replay
