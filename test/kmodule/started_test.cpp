// SPDX-License-Identifier: BSD-3-Clause
// The processes that a measured one starts are of its job, on a real polterd: forked, vforked, started by those, under another program. A
// launcher's are not.
#include <sched.h>
#include <spawn.h>

#include <cstring>

#include "support/measured.hpp"

namespace {

// Ends with this.
struct Process {
    pid_t pid;
    explicit Process(pid_t id) : pid(id) {}
    ~Process() {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }
    Process(const Process&) = delete;
    std::uint64_t ran() const {
        clockid_t clock;
        timespec t{};
        if (clock_getcpuclockid(pid, &clock) == 0) clock_gettime(clock, &t);
        return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
    }
};

[[noreturn]] void burn(const char* name) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, name);
    for (;;) spin(5 * ms);
}

const std::string endless = "ulimit -t 100; while :; do :; done";  // but for when nobody ends it

// By vfork and exec, as a program starts another one.
pid_t shell(const std::string& text) {
    const char* const arguments[] = {"sh", "-c", text.c_str(), nullptr};
    pid_t pid = -1;
    REQUIRE(posix_spawn(&pid, "/bin/sh", nullptr, nullptr, const_cast<char* const*>(arguments), environ) == 0);
    return pid;
}

std::uint64_t sum(Measured& m, const std::string& culprit, std::initializer_list<unsigned> accounts) {
    std::uint64_t ns = 0;
    for (const unsigned account : accounts) ns += m.culprits[polter_account_name(account) + (":" + culprit)];
    return ns;
}

// All that `culprit` took, beside a stranger of the name "stranger", is of the job.
void of_the_job(polter_noise* noise, const std::string& culprit, const std::function<bool()>& enough) {
    Measured m = measure(noise, 400 * ms, spin, enough);
    CHECK(sum(m, culprit, {POLTER_PREEMPT_JOB}) > 20 * ms);
    CHECK(sum(m, culprit, {POLTER_PREEMPT, POLTER_RUNQUEUE}) == 0);
    CHECK(sum(m, "stranger", {POLTER_PREEMPT}) > 20 * ms);
    CHECK(sum(m, "stranger", {POLTER_PREEMPT_JOB}) == 0);
    CHECK(between(m.off(), m.delay, m.delay_around, 0.02));
}

}  // namespace

TEST_CASE("what a measured process starts is of its job, whatever it executes; a stranger is not") {
    Daemon daemon;
    Pinned pinned;
    Competitor stranger("stranger", 5 * ms, 0);
    Session session(daemon.socket());
    const auto noise = session.open();
    REQUIRE(noise);
    const auto both = [&](const Process& child) {
        return [&child, other = stranger.runs(40 * ms), until = child.ran() + 40 * ms] { return child.ran() > until && other(); };
    };
    SUBCASE("forked") {
        const pid_t pid = fork();
        if (pid == 0) burn("forked");
        const Process child(pid);
        of_the_job(noise.get(), "forked", both(child));
    }
    SUBCASE("vforked, executing another program") {
        const Process child(shell(endless));
        of_the_job(noise.get(), "sh", both(child));
    }
    SUBCASE("the child of a child that has ended, executing another program") {
        int ends[2];
        REQUIRE(pipe(ends) == 0);
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        const pid_t first = fork();
        if (first == 0) {
            const pid_t second = shell("exec sh -c '" + endless + "'");
            (void)!write(ends[1], &second, sizeof second);
            _exit(0);
        }
        pid_t second = -1;
        REQUIRE(read(ends[0], &second, sizeof second) == sizeof second);
        REQUIRE(waitpid(first, nullptr, 0) == first);
        close(ends[0]);
        close(ends[1]);
        const Process child(second);
        of_the_job(noise.get(), "sh", both(child));
        prctl(PR_SET_CHILD_SUBREAPER, 0);
    }
}

TEST_CASE("what a measured process has started is given to it after a yield") {
    Daemon daemon;
    Pinned pinned;
    Session session(daemon.socket());
    const auto noise = session.open();
    REQUIRE(noise);
    Competitor child("child", 2 * ms, 0);
    const std::uint64_t ran = child.ran();
    Measured m = measure(
        noise.get(), 400 * ms,
        [](std::uint64_t ns) {
            for (const std::uint64_t end = monotonic_ns() + ns; monotonic_ns() < end;) sched_yield();
        },
        child.runs(40 * ms));
    const std::uint64_t its = child.ran() - ran;
    CHECK(sum(m, "child", {POLTER_PREEMPT, POLTER_RUNQUEUE}) == 0);
    CHECK(m.after_yield > 0);
    CHECK(m.after_yield + sum(m, "child", {POLTER_PREEMPT_JOB}) >= its - std::min(its, its / 20 + 10 * ms));
}

TEST_CASE("what a launcher starts is of no job: it is registered, and measures none of its threads") {
    Daemon daemon;
    Pinned pinned;
    // Registers, and starts what competes; both end with this.
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const Process launcher([&] {
        const pid_t pid = fork();
        if (pid != 0) return pid;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        auto* registered = new Session(daemon.socket(), 0, 77);
        if (!registered->handle) _exit(1);
        const pid_t started = fork();
        if (started == 0) burn("started");
        (void)!write(ends[1], &started, sizeof started);
        for (;;) pause();
    }());
    pid_t started = -1;
    REQUIRE(read(ends[0], &started, sizeof started) == sizeof started);
    close(ends[0]);
    close(ends[1]);
    Session session(daemon.socket(), 0, 77);
    const auto noise = session.open();
    REQUIRE(noise);
    const auto its = [&] {
        clockid_t clock;
        timespec t{};
        if (clock_getcpuclockid(started, &clock) == 0) clock_gettime(clock, &t);
        return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
    };
    Measured m = measure(noise.get(), 400 * ms, spin, [&, until = its() + 40 * ms] { return its() > until; });
    CHECK(sum(m, "started", {POLTER_PREEMPT}) > 20 * ms);
    CHECK(sum(m, "started", {POLTER_PREEMPT_JOB}) == 0);
}
