// SPDX-License-Identifier: BSD-3-Clause
#include "registry.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "owners.hpp"

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
    // The kernel may reuse its id as soon as it has exited.
    if (!is_alive(peer)) return {POLTER_NOT_PERMITTED, "polterd: the process that opened this connection is gone"};
    // The same number under two users means two jobs: no user may claim another user's threads.
    const JobKey key{peer.uid, job};
    const bool shared = job != 0;
    const std::uint64_t number = shared ? enter_job(key) : ++jobs_made_;
    const auto failure = backend_.add_process(peer.pid, number, {peer.uid, names});
    processes_.emplace(peer.pid, Process{key, shared, peer.account(), slots, {}});
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
    for (auto& slot : found->second.slots)
        if (slot.tid != 0) free_slot(found->second, slot);
    if (found->second.shared_job) {
        const auto job = jobs_.find(found->second.key);
        if (--job->second.processes == 0) jobs_.erase(job);
    }
    processes_.erase(found);
}

void Registry::free_slot(Process& process, Slot& slot) {
    pages_.give_back(process.account, slot.page);
    slot = {};
    --threads_;
}

// Whether the user may have one more page; pages released but still held count.
Outcome Registry::room_for_page(const Peer& peer) {
    const uid_t account = peer.account();
    const auto fits = [&] { return within_share(pages_.of(account), pages_.all(), POLTER_MAX_THREADS, is_exempt(peer)); };
    if (fits()) return {};
    if (pages_.left_over_by_all() > 0) {
        if (Clock::now() < next_look()) return {.again = Outcome::Again::after_look};
        looked_ = Clock::now();
        if (const auto existing = backend_.pages_in_memory()) pages_.keep(*existing);
        if (fits()) return {};
    }
    const unsigned left_over = pages_.left_over(account);
    return {
        POLTER_NO_ROOM,
        fmt::format("polterd: this user has {} noise pages{}; one user may have half of those of the {} that other users leave",
                    pages_.of(account),
                    left_over ? fmt::format(", {} of them of threads that have left but whose pages are still mapped or open", left_over)
                              : std::string(),
                    POLTER_MAX_THREADS)};
}

Outcome Registry::add_thread(const Peer& peer, pid_t own, ThreadSearch& search) {
    const auto found = processes_.find(peer.pid);
    if (found == processes_.end()) return {POLTER_BAD_REQUEST, "polterd: a thread before its process"};
    const auto state = search.tid() ? ThreadSearch::State::found : search.step();
    if (state == ThreadSearch::State::more) return {.again = Outcome::Again::soon};
    const auto no_thread = [&] {
        return Outcome{POLTER_NOT_PERMITTED, fmt::format("polterd: {} is no thread of process {}", own, peer.pid)};
    };
    if (state == ThreadSearch::State::none) return no_thread();
    const pid_t tid = search.tid();
    if (backend_.has_thread(tid)) return {POLTER_ALREADY, fmt::format("polterd: thread {} is registered already", tid)};
    auto& slots = found->second.slots;
    auto free = std::find_if(slots.begin(), slots.end(), [](const Slot& slot) { return slot.tid == 0; });
    if (free == slots.end() && slots.size() >= found->second.most)
        return {POLTER_NO_ROOM, fmt::format("polterd: the {} noise pages of process {} are taken; ask for more when registering it",
                                            slots.size(), peer.pid)};
    if (Outcome refusal = room_for_page(peer); refusal.status != POLTER_OK || refusal.again != Outcome::Again::no) return refusal;
    if (backend_.pages_ready() == 0) return {.again = Outcome::Again::with_page};
    auto page = backend_.add_thread(peer.pid, tid);
    if (auto* failure = std::get_if<std::string>(&page)) return {POLTER_BACKEND_FAILED, std::move(*failure)};
    const auto& given = std::get<exporter::Page>(page);
    // From here on the thread's exit is seen. Before, its id may have been reused; what /proc said is valid only if the process has lived
    // until now.
    if (!search.still_there() || !is_alive(peer)) {
        close(given.fd);
        backend_.remove_thread(given.number);
        return no_thread();
    }
    if (free == slots.end()) free = slots.insert(free, Slot{});
    *free = {tid, own, given.id, given.number};
    ++threads_;
    pages_.add(found->second.account);
    return {.slot = static_cast<unsigned>(free - slots.begin()), .page = given.fd};
}

Outcome Registry::remove_thread(const Peer& peer, pid_t own, unsigned slot) {
    const auto found = processes_.find(peer.pid);
    if (found == processes_.end()) return {POLTER_BAD_REQUEST, "polterd: a thread before its process"};
    auto& slots = found->second.slots;
    // A thread may have exited before its page is given back, so it is not looked for in /proc; the slot is the process's own.
    if (slot >= slots.size() || slots[slot].tid == 0 || slots[slot].own != own)
        return {POLTER_NOT_PERMITTED, fmt::format("polterd: thread {} has no noise page {}", own, slot)};
    backend_.remove_thread(slots[slot].number);
    free_slot(found->second, slots[slot]);
    return {};
}

}  // namespace polter::daemon
