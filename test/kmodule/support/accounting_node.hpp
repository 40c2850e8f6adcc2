// SPDX-License-Identifier: BSD-3-Clause
// The accounting that the backends share, fed with invented events on an invented clock. For one test file each: it defines what the
// accounting asks of its kernel.
#pragma once

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "page_fixture.hpp"

namespace {

std::uint64_t clock_ns;
std::vector<polter_cpu> cpus(4);
std::map<unsigned, std::uint64_t> jobs;

polter_cpu* cpu_of(unsigned n) {
    return n < cpus.size() ? &cpus[n] : nullptr;
}
std::uint64_t job_of(unsigned tgid) {
    return jobs.contains(tgid) ? jobs[tgid] : 0;
}
void repeat(unsigned n, long (*callback)(polter_u32, void*), void* context) {
    for (unsigned i = 0; i < n && callback(i, context) == 0; i++) {
    }
}

}  // namespace

#define POLTER_NOW() clock_ns
#define POLTER_CPU(n) cpu_of(n)
#define POLTER_JOB_OF(tgid) job_of(tgid)
#define POLTER_REPEAT(n, callback, context) repeat(n, callback, context)
#include "accounting/faults.h"
#include "accounting/nesting.h"
#include "accounting/started.h"
#include "accounting/steal.h"
#include "accounting/waiting.h"

namespace {

// Whether the CPUs of the next node keep windows always, or while a registered thread waits for them.
bool windows_always = true;

// A test of what is the same either way: it is run with both.
#define TEST_CASE_EITHER_WAY(name) POLTER_EITHER_WAY(DOCTEST_ANONYMOUS(either_way_), name)
#define POLTER_EITHER_WAY(function, name)         \
    static void function();                       \
    TEST_CASE(name) {                             \
        for (const bool always : {true, false}) { \
            CAPTURE(always);                      \
            windows_always = always;              \
            function();                           \
        }                                         \
        windows_always = true;                    \
    }                                             \
    static void function()

// One registered thread, 100/100 in job 9, on invented CPUs.
struct Node : Fixture {
    char error[256] = "";
    Noise noise = open_page(*page, error, sizeof error);
    polter_u64 lost = 0;
    bool always_split = false;  // also where one task alone ran

    Node() {
        clock_ns = 1000;
        cpus.assign(4, {});
        if (windows_always)
            for (polter_cpu& cpu : cpus) polter_ran_always(&cpu);
        jobs = {{100, 9}, {101, 9}, {200, 7}};
        thread.tid = thread.tgid = 100;
        thread.job = 9;
        thread.off = POLTER_BLOCKED;
    }
    // Whoever runs there leaves.
    void leaves(unsigned cpu) {
        if (!cpus[cpu].following && polter_ran_wanted(&cpus[cpu])) polter_ran_follow(&cpus[cpu], clock_ns);
        if (cpus[cpu].following) polter_ran_close(&cpus[cpu], clock_ns);
    }
    void runs(unsigned cpu, int tid, unsigned tgid, const char* name, unsigned owner = 0) {
        leaves(cpu);
        begins(cpu, tid, tgid, name, owner);
    }
    void begins(unsigned cpu, int tid, unsigned tgid, const char* name, unsigned owner = 0) {
        polter_ran_come(&cpus[cpu], tid, tgid, owner);
        std::memset(cpus[cpu].comm, 0, sizeof cpus[cpu].comm);
        std::strncpy(cpus[cpu].comm, name, sizeof cpus[cpu].comm - 1);
        polter_ran_go_on(&cpus[cpu]);
    }
    // A kernel worker, which is about to leave, has executed a function.
    void worked(unsigned cpu, std::uint64_t function, const char* name) {
        if (!cpus[cpu].following && polter_ran_wanted(&cpus[cpu])) polter_ran_follow(&cpus[cpu], clock_ns);
        if (!cpus[cpu].following) return;
        char comm[POLTER_CULPRIT_LEN] = "";
        std::strncpy(comm, name, sizeof comm - 1);
        polter_ran_did(&cpus[cpu], cpus[cpu].tid, cpus[cpu].tgid, function, comm);
    }
    void self(unsigned cpu) {
        leaves(cpu);
        if (always_split) cpus[cpu].came_ns = ~0ull;
        polter_waiting_return(&thread, page.get(), &cpus[cpu], cpu, clock_ns);
        begins(cpu, 100, 100, "self");
    }
    void idle(unsigned cpu) { runs(cpu, 0, 0, "swapper", POLTER_OWNER_KERNEL); }
    void off(unsigned cpu, unsigned why) {
        leaves(cpu);
        polter_waiting_leave(&thread, &cpus[cpu], cpu, why, clock_ns);
    }
    void tick(std::uint64_t ns) {
        const polter_culprit timer{0, "local_timer"};
        const int outermost = polter_publish_begin(&thread, POLTER_ALONE);
        polter_publish_record(&thread, page.get(), clock_ns, ns, POLTER_TIMER, 1, &timer, POLTER_ALONE);
        polter_publish_end(&thread, page.get(), outermost, clock_ns, POLTER_ALONE);
    }
    void wake(unsigned cpu, bool made_way = false) { polter_waiting_queue(&thread, &cpus[cpu], cpu, 1, made_way, clock_ns); }
    void move(unsigned cpu) { polter_waiting_queue(&thread, &cpus[cpu], cpu, 0, 0, clock_ns); }

    // What was recorded since the last look, as "account:culprit:duration".
    std::string take() {
        std::string text;
        polter_ring_entry e[POLTER_RING_ENTRIES];
        const std::size_t n = polter_noise_drain(noise.get(), ~0ull, e, POLTER_RING_ENTRIES, &lost);
        for (std::size_t i = 0; i < n; i++)
            text += (i ? " " : "") + std::string(polter_account_name(e[i].account)) + ":" + e[i].culprit + ":" +
                    std::to_string(e[i].duration_ns);
        return text;
    }
    polter_counters counters() {
        polter_counters c;
        polter_noise_snapshot(noise.get(), &c);
        return c;
    }
    void enter(unsigned kind, unsigned id, unsigned cpu = 0) { polter_nesting_enter(&cpus[cpu], &thread, kind, id); }
    // The net duration; -1 if the reading was dropped.
    long long leave(unsigned kind, unsigned id, unsigned cpu = 0) {
        polter_u64 end, net;
        return polter_nesting_exit(&cpus[cpu], &thread, kind, id, &end, &net) ? static_cast<long long>(net) : -1;
    }
};

}  // namespace
