// SPDX-License-Identifier: BSD-3-Clause
#include "registry.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace polter::daemon {

std::uint64_t Registry::enter_job(const JobKey& key) {
    auto [job, made] = jobs_.try_emplace(key, Job{0, 0});
    if (made) job->second.number = ++jobs_made_;
    ++job->second.processes;
    return job->second.number;
}

Outcome Registry::add_process(const Peer& peer, std::uint64_t job, unsigned slots, bool names) {
    if (slots == 0) slots = POLTER_DEFAULT_THREADS;
    if (slots > POLTER_MAX_THREADS_PROCESS)
        return {POLTER_NO_ROOM, fmt::format("polterd: {} noise pages asked for, a process may have {}", slots, POLTER_MAX_THREADS_PROCESS)};
    if (has_process(peer.pid))
        return {POLTER_ALREADY,
                fmt::format("polterd: process {} is registered already; only one tool in a process can read its noise", peer.pid)};
    // The same number under two users is two jobs: nobody may declare a stranger's threads to be his own.
    const JobKey key{peer.uid, job};
    const bool shared = job != 0;
    const std::uint64_t number = shared ? enter_job(key) : ++jobs_made_;
    Process process{key, shared, std::vector<Slot>(slots)};
    const auto failure = backend_.add_process(peer.pid, number, slots, {peer.uid, names});
    processes_.emplace(peer.pid, std::move(process));
    if (failure) {
        remove_process(peer.pid);
        return {POLTER_BACKEND_FAILED, *failure};
    }
    return {};
}

void Registry::remove_process(pid_t pid) {
    const auto found = processes_.find(pid);
    if (found == processes_.end()) return;
    backend_.remove_process(pid);
    for (const auto& slot : found->second.slots) threads_ -= slot.tid != 0;
    if (found->second.shared_job) {
        const auto job = jobs_.find(found->second.key);
        if (--job->second.processes == 0) jobs_.erase(job);
    }
    processes_.erase(found);
}

Outcome Registry::add_thread(const Peer& peer, pid_t own) {
    const auto found = processes_.find(peer.pid);
    if (found == processes_.end()) return {POLTER_BAD_REQUEST, "polterd: a thread before its process"};
    const auto tid = thread_of(peer.pid, own);
    // The look into /proc was at the right process only if that has lived until now.
    if (!tid || !is_alive(peer)) return {POLTER_NOT_PERMITTED, fmt::format("polterd: {} is no thread of process {}", own, peer.pid)};
    auto& slots = found->second.slots;
    if (backend_.has_thread(*tid)) return {POLTER_ALREADY, fmt::format("polterd: thread {} is registered already", *tid)};
    if (threads_ >= POLTER_MAX_THREADS)
        return {POLTER_NO_ROOM, fmt::format("polterd: all of the {} threads of this node are taken", POLTER_MAX_THREADS)};
    const auto free = std::find_if(slots.begin(), slots.end(), [](const Slot& slot) { return slot.tid == 0; });
    if (free == slots.end())
        return {POLTER_NO_ROOM, fmt::format("polterd: the {} noise pages of process {} are taken; ask for more when registering it",
                                            slots.size(), peer.pid)};
    const auto slot = static_cast<unsigned>(free - slots.begin());
    if (const auto failure = backend_.add_thread(peer.pid, *tid, slot)) return {POLTER_BACKEND_FAILED, *failure};
    *free = {*tid, own};
    ++threads_;
    return {POLTER_OK, "", slot};
}

Outcome Registry::remove_thread(const Peer& peer, pid_t own, unsigned slot) {
    const auto found = processes_.find(peer.pid);
    if (found == processes_.end()) return {POLTER_BAD_REQUEST, "polterd: a thread before its process"};
    auto& slots = found->second.slots;
    // A thread may have exited before its page is given back, so it is not looked for in /proc; the slot is the process's own.
    if (slot >= slots.size() || slots[slot].tid == 0 || slots[slot].own != own)
        return {POLTER_NOT_PERMITTED, fmt::format("polterd: thread {} has no noise page {}", own, slot)};
    backend_.remove_thread(peer.pid, slots[slot].tid, slot);
    slots[slot] = {};
    --threads_;
    return {};
}

}  // namespace polter::daemon
