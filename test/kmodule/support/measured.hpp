// SPDX-License-Identifier: BSD-3-Clause
// A stretch of work measured by a page and by the kernel's own accounts, to be compared.
#pragma once

#include <doctest/doctest.h>
#include <sched.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "children.hpp"

namespace {  // a test is one file

std::uint64_t run_delay() {
    std::ifstream file("/proc/thread-self/schedstat");
    std::uint64_t on = 0, delay = 0;
    file >> on >> delay;
    return delay;
}

std::uint64_t status_count(const std::string& key) {
    std::ifstream file("/proc/thread-self/status");
    for (std::string line; std::getline(file, line);)
        if (line.rfind(key, 0) == 0) return std::stoull(line.substr(key.size() + 1));
    return 0;
}

std::uint64_t cpu_time() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

// What a body of work cost this thread, by the page and by the kernel.
struct Measured {
    std::map<unsigned, std::uint64_t> ns, count;
    std::map<std::string, std::uint64_t> culprits;  // "account:name" -> ns
    std::uint64_t after_yield = 0, yields = 0, unbalanced = 0, lost = 0;
    std::uint64_t wall = 0, cpu = 0, delay = 0, nonvoluntary = 0, stolen = 0;
    std::uint64_t wall_around = 0, delay_around = 0, nonvoluntary_around = 0;  // the same, with what passed while the readings were taken
    std::map<unsigned, std::uint64_t> ring_ns;

    std::uint64_t off() {
        return ns[POLTER_PREEMPT] + ns[POLTER_PREEMPT_JOB] + ns[POLTER_RUNQUEUE] + ns[POLTER_THROTTLE] + ns[POLTER_WAKEUP] + after_yield;
    }
    std::uint64_t all() {
        std::uint64_t sum = after_yield;
        for (const auto& [account, time] : ns) sum += time;
        return sum;
    }
    std::string text() {
        std::ostringstream out;
        out << "wall " << wall << " cpu " << cpu << " run_delay " << delay << " nonvoluntary " << nonvoluntary << " stolen " << stolen
            << " after-yield " << after_yield << "/" << yields << " unbalanced " << unbalanced << " lost " << lost;
        for (const auto& [account, time] : ns)
            if (time) out << " " << polter_account_name(account) << " " << time << "/" << count[account];
        for (const auto& [name, time] : culprits)
            if (time > ms) out << " [" << name << " " << time << "]";
        return out.str();
    }
};

[[maybe_unused]] double relative(std::uint64_t a, std::uint64_t b) {
    return b ? std::fabs(static_cast<double>(a) - static_cast<double>(b)) / static_cast<double>(b) : 1;
}

[[maybe_unused]] bool between(std::uint64_t a, std::uint64_t low, std::uint64_t high, double tolerance) {
    return static_cast<double>(a) >= static_cast<double>(low) * (1 - tolerance) &&
           static_cast<double>(a) <= static_cast<double>(high) * (1 + tolerance);
}

// What was taken from a thread by a task, and what that task ran: measured a slice of the scheduler apart, and a switch is in the one only.
// What the hypervisor took meanwhile may have been taken from the task, which does not run then by its own clock.
[[maybe_unused]] bool agrees(std::uint64_t taken, std::uint64_t ran, std::uint64_t stolen) {
    return between(taken, ran - std::min(ran, 10 * ms), ran + stolen + 10 * ms, 0.05);
}

constexpr std::uint64_t patience = 60'000 * ms;  // for what is sure to come, but whose share of the CPU is others' to give

// Runs `body` on this thread in slices, draining in between so that no event is lost: for `length`, and until there is enough to look at.
Measured measure(polter_noise* noise, std::uint64_t length, const std::function<void(std::uint64_t)>& body,
                 const std::function<bool()>& enough = {}) {
    Measured m;
    std::vector<polter_ring_entry> entries(POLTER_RING_ENTRIES);
    polter_u64 lost = 0;
    const auto drain = [&](bool keep) {
        for (std::size_t n; (n = polter_noise_drain(noise, ~0ull, entries.data(), entries.size(), &lost)) > 0;)
            for (std::size_t i = 0; keep && i < n; i++) {
                m.ring_ns[entries[i].account] += entries[i].duration_ns;
                m.culprits[std::string(polter_account_name(entries[i].account)) + ":" + entries[i].culprit] += entries[i].duration_ns;
            }
    };
    polter_counters before, begun, after, ended;
    sched_yield();
    drain(false);
    lost = 0;
    const char* nonvoluntary = "nonvoluntary_ctxt_switches:";
    const std::uint64_t delay_before = run_delay(), switches_before = status_count(nonvoluntary), around = monotonic_ns();
    REQUIRE(polter_noise_snapshot(noise, &before) == 0);
    drain(false);
    REQUIRE(polter_noise_snapshot(noise, &begun) == 0);
    const std::uint64_t first_index = before.recorded;
    const std::uint64_t delay = run_delay(), switches = status_count(nonvoluntary), on = cpu_time(), start = monotonic_ns();
    const std::uint64_t stolen = booked_steal();
    while (monotonic_ns() - start < length || (enough && !enough() && monotonic_ns() - start < patience)) {
        body(50 * ms);
        drain(true);
    }
    m.wall = monotonic_ns() - start;
    m.cpu = cpu_time() - on;
    m.stolen = booked_steal() - stolen;
    m.nonvoluntary = status_count(nonvoluntary) - switches;
    m.delay = run_delay() - delay;
    REQUIRE(polter_noise_snapshot(noise, &after) == 0);
    m.wall_around = monotonic_ns() - around;
    m.delay_around = run_delay() - delay_before;
    m.nonvoluntary_around = status_count(nonvoluntary) - switches_before;
    drain(true);
    REQUIRE(polter_noise_snapshot(noise, &ended) == 0);
    CHECK(after.recorded >= first_index);
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) {
        m.ns[a] = after.ns[a] - before.ns[a];
        m.count[a] = after.count[a] - before.count[a];
    }
    m.after_yield = after.after_yield_ns - before.after_yield_ns;
    m.yields = after.yields - before.yields;
    m.unbalanced = after.unbalanced - before.unbalanced;  // what was under way when the session began lacks its beginning
    m.lost = lost;
    MESSAGE(m.text());
    // What holds always.
    CHECK(m.all() <= m.wall_around);
    CHECK(after.unbalanced * 100 <= after.recorded);  // of what the kernel does not show, some cannot be made good
    CHECK(after.dropped == 0);
    if (lost == 0 && polter_noise_header(noise)->backend != POLTER_BACKEND_PROC)  // which has no ring
        for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) {
            CAPTURE(polter_account_name(a));
            // What was read lies between what the counters said inside of the reading and around it.
            CHECK(m.ring_ns[a] >= after.ns[a] - begun.ns[a]);
            CHECK(m.ring_ns[a] <= ended.ns[a] - before.ns[a]);
        }
    return m;
}

// Quiet enough for a comparison that load from outside can spoil? Otherwise once more, a few times.
[[maybe_unused]] void retry(const std::function<bool(bool last)>& attempt) {
    for (int i = 0; i < 5; i++)
        if (attempt(i == 4)) return;
}

struct Pinned {
    cpu_set_t before;
    Pinned() {
        sched_getaffinity(0, sizeof before, &before);
        pin(cpu);
    }
    ~Pinned() { sched_setaffinity(0, sizeof before, &before); }
};

}  // namespace
