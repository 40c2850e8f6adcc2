// SPDX-License-Identifier: BSD-3-Clause
// Reading in a process of its own: however that ends, whoever waits for it learns it, and nothing is left behind.
#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <limits>

#include "replay/trace/child_process.hpp"
#include "replay/trace/otf2_watchdog.hpp"
#include "support/trace_spec.hpp"

using namespace polter;
using replay::ChildEnd;

namespace {

// `work` runs in the child; its exit code is what it returns.
ChildEnd end_of(const std::function<int()>& work, double stall_s = 60, replay::ApartFaults faults = {},
                double limit_s = std::numeric_limits<double>::infinity()) {
    const auto end = replay::go_apart(stall_s, faults, limit_s);
    if (!end) {
        for (const int fatal : {SIGSEGV, SIGABRT}) signal(fatal, SIG_DFL);  // doctest has its own
        _exit(work());
    }
    return *end;
}

double cpu_seconds() {
    return static_cast<double>(clock()) / CLOCKS_PER_SEC;
}

bool says(const ChildEnd& end, const char* text) {
    return end.error.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("the child's exit code is the command's") {
    const ChildEnd end = end_of([] { return 3; });
    CHECK(end.exit_code == 3);
    CHECK(end.error.empty());
    CHECK(end.signal == 0);
}

TEST_CASE("a child that is not done in time is ended, and what it left unfinished is removed") {
    const test::TemporaryDirectory directory;
    const std::string partial = directory.path("out.partial-abc");
    std::filesystem::create_directories(partial + "/archive");
    const ChildEnd end = end_of(
        [&] {
            replay::watch_path(replay::watch->unfinished, partial);
            for (;;) pause();  // without a limit it would never end
            return 0;
        },
        60, {}, 0.05);
    CHECK(end.late);
    CHECK(end.error.empty());
    CHECK(end.signal == 0);
    CHECK_FALSE(std::filesystem::exists(partial));
    CHECK_FALSE(end_of([] { return 0; }, 60, {}, 1e6).late);
}

TEST_CASE("death inside OTF2: what, which file, what to do, and nothing is left unfinished") {
    const test::TemporaryDirectory directory;
    const std::string partial = directory.path("out.partial-abc");
    const auto die = [&](replay::ApartFaults faults) {
        std::filesystem::create_directories(partial + "/archive");
        return end_of(
            [&] {
                replay::watch_path(replay::watch->anchor, "/somewhere/traces.otf2");
                replay::watch_path(replay::watch->unfinished, partial);
                const replay::InOtf2 inside(replay::Reading::events, 17);
                raise(SIGSEGV);
                return 0;
            },
            60, faults);
    };
    const ChildEnd end = die({});
    CHECK(end.exit_code == 1);
    CHECK(says(end, "/somewhere/traces/17.evt"));
    CHECK(says(end, "died (Segmentation fault)"));
    CHECK(says(end, "otf2-print /somewhere/traces.otf2"));
    CHECK_FALSE(std::filesystem::exists(partial));
    die({.keeps_unfinished = true});
    CHECK(std::filesystem::exists(partial));
}

TEST_CASE("death anywhere else is told apart from it") {
    const ChildEnd end = end_of([] {
        { const replay::InOtf2 inside(replay::Reading::definitions); }
        std::abort();
        return 0;
    });
    CHECK(end.exit_code == 1);
    CHECK(says(end, "outside of the OTF2 library"));
    CHECK(says(end, "Aborted"));
}

TEST_CASE("a call to OTF2 that computes without end is ended; work that goes on, or waits, is not") {
    const auto compute = [](bool forward) {
        const double begin = cpu_seconds();
        while (cpu_seconds() - begin < 1.5) {
            if (!forward) {
                const replay::InOtf2 inside(replay::Reading::mappings, 4);
                while (cpu_seconds() - begin < 1.5) continue;
            }
            const replay::InOtf2 inside(replay::Reading::events, 4);
        }
        return 0;
    };
    const ChildEnd stalled = end_of([&] { return compute(false); }, 0.3);
    CHECK(stalled.exit_code == 1);
    CHECK(says(stalled, "did not come forward in 0.3 s"));
    CHECK(says(stalled, "/4.def"));
    CHECK(end_of([&] { return compute(false); }, 0.3, {.patient = true}).error.empty());
    CHECK(end_of([&] { return compute(true); }, 0.3).error.empty());
    const ChildEnd waited = end_of(
        [] {
            const replay::InOtf2 inside(replay::Reading::events, 4);
            usleep(800'000);
            return 0;
        },
        0.3);
    CHECK(waited.error.empty());
}

// The command itself is a child here, so that it can be sent signals.
namespace {

struct Command {
    pid_t pid = 0, child = 0;  // child: of the command, which waits for ever
    int alive = -1;            // open for reading; at its end nobody of the two is left
};

Command start(replay::ApartFaults faults) {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    Command command;
    command.pid = fork();
    if (command.pid == 0) {
        close(ready[0]);
        for (const int fatal : {SIGTERM, SIGINT}) signal(fatal, SIG_DFL);
        const auto end = replay::go_apart(60, faults);
        if (!end) {
            const pid_t self = getpid();
            if (write(ready[1], &self, sizeof self) != sizeof self) _exit(1);
            for (;;) pause();
        }
        _exit(end->signal == SIGTERM ? 42 : 1);
    }
    close(ready[1]);
    command.alive = ready[0];
    REQUIRE(read(command.alive, &command.child, sizeof command.child) == sizeof command.child);
    return command;
}

// Whether the command has passed on that it was told to end: its own exit code says that the child was.
bool passes_on(replay::ApartFaults faults) {
    const Command command = start(faults);
    kill(command.pid, SIGTERM);
    int status = 0;
    pollfd both{command.alive, POLLIN, 0};
    const bool ended = poll(&both, 1, 2000) > 0;
    if (!ended) kill(command.pid, SIGKILL);
    waitpid(command.pid, &status, 0);
    if (!ended) kill(command.child, SIGKILL);
    close(command.alive);
    return ended && WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

bool child_outlives(replay::ApartFaults faults) {
    const Command command = start(faults);
    kill(command.pid, SIGKILL);
    waitpid(command.pid, nullptr, 0);
    pollfd child{command.alive, POLLIN, 0};
    const bool ended = poll(&child, 1, 2000) > 0;
    if (!ended) kill(command.child, SIGKILL);
    close(command.alive);
    return !ended;
}

}  // namespace

TEST_CASE("signals go through to the child, and it never outlives its parent") {
    CHECK(passes_on({}));
    CHECK_FALSE(passes_on({.deaf = true}));
    CHECK_FALSE(child_outlives({}));
    CHECK(child_outlives({.outlives = true}));
}
