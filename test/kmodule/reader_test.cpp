// SPDX-License-Identifier: BSD-3-Clause
// The reader on pages in memory: what it refuses, what it returns, what it loses.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "support/page_fixture.hpp"

namespace {

std::string refusal(const std::function<void(polter_page_header&)>& spoil, std::size_t size = POLTER_PAGE_SIZE) {
    Page page;
    spoil(page.header);
    char error[256] = "";
    const auto noise = open_page(page, error, sizeof error, size);
    CHECK(static_cast<bool>(noise) == (error[0] == 0));
    return error;
}

struct Opened : Fixture {
    char error[256] = "";
    Noise noise = open_page(*page, error, sizeof error);
    std::vector<polter_ring_entry> entries = std::vector<polter_ring_entry>(4096);
    polter_u64 lost = 0;
    std::size_t drain(polter_u64 until = ~0ull, std::size_t capacity = 4096) {
        return polter_noise_drain(noise.get(), until, entries.data(), capacity, &lost);
    }
};

}  // namespace

TEST_CASE("a good page is taken, a bad one refused with what is wrong") {
    CHECK(refusal([](auto&) {}).empty());
    CHECK(refusal([](auto& h) { h.magic++; }).find("magic") != std::string::npos);
    CHECK(refusal([](auto& h) { h.version++; }).find("version " + std::to_string(POLTER_PAGE_VERSION + 1)) != std::string::npos);
    CHECK(refusal([](auto& h) { h.size++; }).find("truncated") != std::string::npos);
    CHECK(refusal([](auto& h) { h.size = 64; }).find("truncated") != std::string::npos);
    CHECK(refusal([](auto&) {}, 100).find("too short") != std::string::npos);
    CHECK(refusal([](auto&) {}, POLTER_PAGE_SIZE - 4096).find("truncated") != std::string::npos);
    CHECK(refusal([](auto& h) { h.state = 0; }).find("state 0") != std::string::npos);
    CHECK(refusal([](auto& h) { h.state = POLTER_PAGE_FROZEN; }).empty());
    for (const auto& spoil : std::vector<std::function<void(polter_page_header&)>>{
             [](auto& h) { h.copy_offset = 0; }, [](auto& h) { h.copy_offset = 132; }, [](auto& h) { h.copy_offset = 0xfffffff0u; },
             [](auto& h) { h.copy_stride = 312; }, [](auto& h) { h.copy_stride = 0; }, [](auto& h) { h.ring_offset = 512; },
             [](auto& h) { h.ring_offset = 0xfffffff8u; }, [](auto& h) { h.ring_offset += 4; }, [](auto& h) { h.ring_entries = 0; },
             [](auto& h) { h.ring_entries = 1000; }, [](auto& h) { h.ring_entries = 0x80000000u; }})
        CHECK(refusal(spoil).find("do not fit") != std::string::npos);
    char error[256];
    CHECK(polter_noise_open_memory(nullptr, POLTER_PAGE_SIZE, error, sizeof error) == nullptr);
    Page page;
    CHECK(polter_noise_open_memory(reinterpret_cast<char*>(&page) + 1, POLTER_PAGE_SIZE - 1, error, sizeof error) == nullptr);
}

TEST_CASE("moved, snapshot and drain follow the writer") {
    Opened o;
    polter_counters c;
    REQUIRE(o.noise);
    CHECK(polter_noise_moved(o.noise.get()));
    CHECK(polter_noise_snapshot(o.noise.get(), &c) == 0);
    CHECK(c.count[POLTER_TIMER] == 0);
    CHECK_FALSE(polter_noise_moved(o.noise.get()));
    o.event(100, 7);
    o.event(200, 5, POLTER_NET, "eth0");
    CHECK(polter_noise_moved(o.noise.get()));
    CHECK(polter_noise_snapshot(o.noise.get(), &c) == 0);
    CHECK(c.ns[POLTER_TIMER] == 7);
    CHECK(c.count[POLTER_NET] == 1);
    CHECK(c.recorded == 2);
    CHECK(c.updated_ns == 200);
    CHECK_FALSE(polter_noise_moved(o.noise.get()));
    CHECK(o.drain(150) == 1);  // the other ended later
    CHECK(o.entries[0].end_ns == 100);
    CHECK(o.drain(150) == 0);
    CHECK(o.drain(200) == 1);
    CHECK(o.entries[0].account == POLTER_NET);
    CHECK(std::string(o.entries[0].culprit) == "eth0");
    CHECK(o.drain() == 0);
    CHECK(o.lost == 0);
}

TEST_CASE("a full ring loses the oldest, and says how many; the counters do not care") {
    Opened o;
    for (unsigned i = 0; i < 3000; i++) o.event(i + 1, 1);
    CHECK(o.drain() == POLTER_RING_ENTRIES);
    CHECK(o.lost == 3000 - POLTER_RING_ENTRIES);
    CHECK(o.entries[0].end_ns == 3000 - POLTER_RING_ENTRIES + 1);
    polter_counters c;
    polter_noise_snapshot(o.noise.get(), &c);
    CHECK(c.ns[POLTER_TIMER] == 3000);
    for (unsigned i = 0; i < 10; i++) o.event(3001 + i, 1);
    CHECK(o.drain(~0ull, 3) == 3);
    CHECK(o.drain(~0ull, 100) == 7);
    CHECK(o.lost == 3000 - POLTER_RING_ENTRIES);
}

TEST_CASE("an entry whose slot was begun anew counts as lost, though its own copy still names it") {
    Opened o;
    for (unsigned i = 0; i < POLTER_RING_ENTRIES; i++) o.event(i + 1, 1);
    o.page->header.reserved += 5;  // a writer has claimed the five oldest slots and is at work on them
    CHECK(o.drain() == POLTER_RING_ENTRIES - 5);
    CHECK(o.lost == 5);
}

TEST_CASE("an entry with a wrong index is not passed on") {
    Opened o;
    for (unsigned i = 0; i < 4; i++) o.event(i + 1, 1);
    o.page->ring[2].index = 77;
    CHECK(o.drain() == 3);
    CHECK(o.lost == 1);
}

TEST_CASE("a culprit without an end is cut") {
    Opened o;
    o.event(1, 1);
    std::memset(o.page->ring[0].culprit, 'x', POLTER_CULPRIT_LEN);
    REQUIRE(o.drain() == 1);
    CHECK(std::string(o.entries[0].culprit).size() == POLTER_CULPRIT_LEN - 1);
}

TEST_CASE("names") {
    CHECK(std::string(polter_account_name(POLTER_TIMER)) == "timer");
    CHECK(std::string(polter_account_name(POLTER_FAULT)) == "fault");
    CHECK(polter_account_name(POLTER_ACCOUNTS) == nullptr);
    CHECK_FALSE(polter_account_is_service(POLTER_STEAL));
    CHECK(polter_account_is_service(POLTER_PREEMPT_JOB));
    CHECK_FALSE(polter_account_is_service(POLTER_ACCOUNTS));
    CHECK(std::string(polter_backend_name(POLTER_BACKEND_BPF)) == "bpf");
    CHECK(std::string(polter_backend_name(99)) == "unknown");
}

namespace {

std::uint64_t monotonic() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

// The time of CLOCK_MONOTONIC and the offset as a process in a namespace shifted by `shift_s` seconds has them; false if it cannot be made.
bool in_time_namespace(long shift_s, std::uint64_t& time, long long& offset) {
    int pipe_fds[2];
    if (pipe(pipe_fds) != 0) return false;
    const pid_t pid = fork();
    if (pid == 0) {
        bool good = unshare(0x00000080 /* CLONE_NEWTIME */) == 0;
        if (good) {
            const int fd = open("/proc/self/timens_offsets", O_WRONLY);
            const std::string text = "monotonic " + std::to_string(shift_s) + " 250000000\n";
            good = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
        }
        if (good && fork() == 0) {
            const long long there[2] = {static_cast<long long>(monotonic()), polter_noise_clock_offset()};
            (void)!write(pipe_fds[1], there, sizeof there);
        }
        _exit(0);
    }
    close(pipe_fds[1]);
    long long there[2];
    const bool good = read(pipe_fds[0], there, sizeof there) == sizeof there;
    close(pipe_fds[0]);
    waitpid(pid, nullptr, 0);
    time = static_cast<std::uint64_t>(there[0]);
    offset = there[1];
    return good;
}

}  // namespace

TEST_CASE("the clock offset leads from a time namespace to the initial one") {
    const long long here = polter_noise_clock_offset();
    for (const long shift : {1000l, 3l}) {
        std::uint64_t there = 0;
        long long offset = 0;
        const auto before = static_cast<long long>(monotonic());
        if (!in_time_namespace(shift, there, offset)) {
            MESSAGE("no time namespace can be made here (needs root and Linux 5.6): not tested");
            return;
        }
        CHECK(offset == -(shift * 1000000000ll + 250000000ll));
        const long long initial = static_cast<long long>(there) + offset;
        CHECK(initial >= before + here);
        CHECK(initial <= static_cast<long long>(monotonic()) + here);
    }
}

TEST_CASE("a page in the caller's memory is read by a forked child too") {
    Opened o;
    o.event(1, 1);
    const pid_t pid = fork();
    if (pid == 0) _exit(o.drain() == 1 ? 0 : 1);
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(status == 0);
}
