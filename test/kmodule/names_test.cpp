// SPDX-License-Identifier: BSD-3-Clause
// To whom a page names the tasks of other users: two ordinary users on one CPU, and a polterd of root's.
#include <doctest/doctest.h>
#include <grp.h>
#include <sys/mman.h>

#include <cstring>
#include <fstream>

#include "support/children.hpp"

namespace {

constexpr uid_t alice = 65534, bob = 65533;

bool become(uid_t user) {
    return setgroups(0, nullptr) == 0 && setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0;
}

enum Seen { NAMED = 10, HIDDEN = 11, NOT_SEEN = 12, NO_PAGE = 13, LEAKED = 14 };

// How `user` sees the task `pid` that computes on the same CPU under the name "secret".
int seen_by(const Daemon& daemon, uid_t user, pid_t pid) {
    return in_child([&]() -> int {
        pin(cpu);
        if (user != 0 && !become(user)) return NO_PAGE;
        Session session(daemon.socket());
        const auto noise = session.open();
        if (!noise) return NO_PAGE;
        std::uint64_t named = 0, hidden = 0;
        polter_u64 lost = 0;
        polter_ring_entry e;
        for (const std::uint64_t begin = monotonic_ns(); monotonic_ns() - begin < 60'000 * ms && named < ms && hidden < 20 * ms;) {
            spin(20 * ms);
            while (polter_noise_drain(noise.get(), ~0ull, &e, 1, &lost) == 1) {
                const bool anonymous = std::strcmp(e.culprit, POLTER_ANOTHER_USER) == 0;
                if (e.culprit_pid == pid || std::strcmp(e.culprit, "secret") == 0) named += e.duration_ns;
                if (anonymous && e.culprit_pid != 0) return LEAKED;
                if (anonymous) hidden += e.duration_ns;
            }
        }
        return named ? NAMED : hidden ? HIDDEN : NOT_SEEN;
    });
}

struct Policy {
    std::string path;
    explicit Policy(const std::string& text) {
        char name[] = "/tmp/polter-test-XXXXXX";
        close(mkstemp(name));
        path = name;
        std::ofstream(path) << text;
    }
    ~Policy() { std::filesystem::remove(path); }
    Policy(const Policy&) = delete;
};

}  // namespace

TEST_CASE("a page names other users' tasks to nobody but root and those whom the policy has") {
    if (geteuid() != 0) {
        MESSAGE("SKIP: only root becomes two other users");
        return;
    }
    const Policy policy(R"({"names": ["user:65534"]})");
    Daemon open, configured({.exit_with_last = false, .policy = policy.path});
    const auto competitor = [&](uid_t user, pid_t& pid) {
        const auto all = static_cast<int*>(mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        auto made = std::make_unique<Competitor>("secret", 5 * ms, 0, [=] {
            if (!become(user)) _exit(1);
            __atomic_store_n(all, getpid(), __ATOMIC_RELEASE);
        });
        CHECK(soon([&] { return (pid = __atomic_load_n(all, __ATOMIC_ACQUIRE)) != 0; }));
        munmap(all, sizeof(int));
        return made;
    };
    pid_t pid = 0;
    {
        const auto others = competitor(bob, pid);
        CHECK(seen_by(open, alice, pid) == HIDDEN);
        CHECK(seen_by(open, bob, pid) == NAMED);
        CHECK(seen_by(open, 0, pid) == NAMED);
        CHECK(seen_by(configured, alice, pid) == NAMED);
    }
    {
        const auto roots = competitor(0, pid);
        CHECK(seen_by(open, alice, pid) == HIDDEN);
        CHECK(seen_by(configured, bob, pid) == HIDDEN);
        CHECK(seen_by(open, 0, pid) == NAMED);
    }
}
