// SPDX-License-Identifier: BSD-3-Clause
// How much work the kernel's verifier has with the programs: that is most of the time in which an exporter starts, and where it looks at
// too many instructions (a million) it refuses. Counted by the kernel, so the load of the machine does not matter.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <fstream>

#include "support/daemon_fixture.hpp"
#include "observe.hpp"

using namespace polter;

namespace {

// Three to four times what 6.1 and 6.18 need. Without functions that are checked alone it was 163,000 and 740,000.
constexpr unsigned long most = 100'000;

// Instructions that the verifier has looked at, over all programs that the process holds; 0: the kernel does not say (before 5.16).
unsigned long verified_by(pid_t pid) {
    unsigned long sum = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fdinfo")) {
        std::ifstream file(entry.path());
        for (std::string word; file >> word;)
            if (unsigned long count = 0; word == "verified_insns:" && file >> count) sum += count;
    }
    return sum;
}

void check(pid_t pid) {
    const auto verified = verified_by(pid);
    MESSAGE(verified, " instructions looked at");
    if (verified == 0) {
        std::printf("SKIP: this kernel does not say how many instructions it has verified\n");
        std::fflush(stdout);
        _Exit(77);
    }
    CHECK(verified < most);
}

}  // namespace

TEST_CASE("the verifier has little work with the daemon's programs") {
    const Daemon daemon;
    check(daemon.pid());
}

TEST_CASE("nor with those that observe the node") {
    auto made = node::make_observer();
    if (const auto* why = std::get_if<std::string>(&made)) no_exporter("the node cannot be observed here", *why);
    check(getpid());
}
