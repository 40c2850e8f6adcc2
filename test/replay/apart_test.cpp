// SPDX-License-Identifier: BSD-3-Clause
// Reading in a process of its own: however that ends, whoever waits for it learns it, and nothing is left behind.
#include "replay/apart.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>

#include "replay/watch.hpp"
#include "trace_spec.hpp"

using namespace polter;
using replay::ChildEnd;

namespace {

// `work` runs in the child; its exit code is what it returns.
ChildEnd end_of(const std::function<int()>& work, double stall_s = 60) {
    const auto end = replay::go_apart(stall_s);
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

TEST_CASE("death inside OTF2: what, which file, what to do, and nothing is left unfinished") {
    const test::TemporaryDirectory directory;
    const std::string partial = directory.path("out.partial-abc");
    std::filesystem::create_directories(partial + "/archive");
    const ChildEnd end = end_of([&] {
        replay::watch_path(replay::watch->anchor, "/somewhere/traces.otf2");
        replay::watch_path(replay::watch->unfinished, partial);
        const replay::InOtf2 inside(replay::Reading::events, 17);
        raise(SIGSEGV);
        return 0;
    });
    CHECK(end.exit_code == 1);
    CHECK(says(end, "/somewhere/traces/17.evt"));
    CHECK(says(end, "died (Segmentation fault)"));
    CHECK(says(end, "otf2-print /somewhere/traces.otf2"));
    CHECK_FALSE(std::filesystem::exists(partial));
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
TEST_CASE("signals go through to the child, and it never outlives its parent") {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    const auto command = [&] {
        const pid_t pid = fork();
        if (pid != 0) return pid;
        for (const int fatal : {SIGTERM, SIGINT}) signal(fatal, SIG_DFL);
        const auto end = replay::go_apart();
        if (!end) {
            const char byte = 'r';
            if (write(ready[1], &byte, 1) != 1) _exit(1);
            for (;;) pause();
        }
        _exit(end->signal == SIGTERM ? 42 : 1);
    };
    char byte;
    pid_t pid = command();
    REQUIRE(read(ready[0], &byte, 1) == 1);
    kill(pid, SIGTERM);
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 42);

    pid = command();
    REQUIRE(read(ready[0], &byte, 1) == 1);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 0);  // nobody is left who could write
    close(ready[0]);
}
