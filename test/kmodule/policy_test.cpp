// SPDX-License-Identifier: BSD-3-Clause
// Who may register, and to whom names are shown, by the administrator's file.
#include "policy.hpp"

#include <doctest/doctest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "owners.hpp"

namespace {

using polter::daemon::Owners;
using polter::daemon::Peer;
using polter::daemon::Policy;

struct File {
    std::filesystem::path path;
    File(const std::string& text, mode_t mode = 0644) {
        char name[] = "/tmp/polter-test-XXXXXX";
        close(mkstemp(name));
        path = name;
        std::ofstream(path) << text;
        chmod(name, mode);
    }
    ~File() { std::filesystem::remove(path); }
    File(const File&) = delete;
};

Peer peer(uid_t uid, std::vector<gid_t> groups) {
    return Peer{1, uid, -1, std::move(groups)};
}

bool permits(const std::string& text, const Peer& who) {
    const File file(text);
    const auto policy = Policy::read(file.path);
    REQUIRE_MESSAGE(std::holds_alternative<Policy>(policy), std::get<std::string>(policy));
    return std::get<Policy>(policy).permits(who);
}

std::string refusal(const std::string& text, mode_t mode = 0644) {
    const File file(text, mode);
    const auto policy = Policy::read(file.path);
    return std::holds_alternative<Policy>(policy) ? "" : std::get<std::string>(policy);
}

}  // namespace

TEST_CASE("who matches") {
    const Peer alice = peer(60001, {70001, 70002}), root = peer(0, {0});
    CHECK(Policy().permits(alice));
    CHECK(permits("{}", alice));
    CHECK(permits(R"({"allow": ["*"]})", alice));
    CHECK_FALSE(permits(R"({"allow": []})", alice));
    CHECK(permits(R"({"allow": []})", root));
    CHECK(permits(R"({"allow": ["user:60001"]})", alice));
    CHECK_FALSE(permits(R"({"allow": ["user:60002"]})", alice));
    CHECK(permits(R"({"allow": ["user:60002", "group:70002"]})", alice));
    CHECK_FALSE(permits(R"({"allow": ["*"], "deny": ["user:60001"]})", alice));
    CHECK_FALSE(permits(R"({"allow": ["user:60001"], "deny": ["group:70001"]})", alice));
    CHECK_FALSE(permits(R"({"deny": ["*"]})", alice));
    CHECK(permits(R"({"deny": ["*"]})", root));
    CHECK(permits(R"({"allow": ["user:root", "group:root"], "deny": []})", peer(60001, {0})));
}

TEST_CASE("to whom other users' tasks are named") {
    const auto shows = [](const std::string& text, const Peer& who) {
        const File file(text);
        const auto policy = Policy::read(file.path);
        REQUIRE_MESSAGE(std::holds_alternative<Policy>(policy), std::get<std::string>(policy));
        return std::get<Policy>(policy).shows_names(who);
    };
    const Peer alice = peer(60001, {70001, 70002}), root = peer(0, {0});
    CHECK_FALSE(Policy().shows_names(alice));
    CHECK(Policy().shows_names(root));
    CHECK_FALSE(shows(R"({"allow": ["*"]})", alice));
    CHECK(shows(R"({"names": ["*"]})", alice));
    CHECK(shows(R"({"names": ["user:60001"]})", alice));
    CHECK(shows(R"({"names": ["group:70002"]})", alice));
    CHECK_FALSE(shows(R"({"names": ["group:70003"]})", alice));
    CHECK(shows(R"({"names": []})", root));
}

TEST_CASE("a subordinate id is its owner's") {
    const File subuid("# ranges\n60001:100000:65536\nno-such-user-here:300000:5\n60003:broken\n60002:200000:1\n0:400000:10\n");
    const Owners owners(subuid.path);
    CHECK_FALSE(owners.of(60001));
    CHECK(owners.of(100000) == 60001u);
    CHECK(owners.of(165535) == 60001u);
    CHECK_FALSE(owners.of(165536));
    CHECK(owners.of(200000) == 60002u);
    CHECK_FALSE(owners.of(300001));
    CHECK_FALSE(Owners("/polter/no/such/file").of(100000));
    Peer sub = peer(100005, {100005});
    sub.pid = -1;
    sub.owner = owners.of(sub);
    CHECK(sub.account() == 60001);
    Peer of_root = peer(400001, {400001});
    of_root.pid = -1;
    CHECK_FALSE(owners.of(of_root));  // who may do more than others
    CHECK_FALSE(permits(R"({"deny": ["user:60001"]})", sub));
    CHECK(permits(R"({"deny": ["user:60002"]})", sub));
    CHECK_FALSE(permits(R"({"deny": ["user:100005"]})", sub));
    CHECK(permits(R"({"allow": ["user:60001"]})", sub));
    CHECK_FALSE(permits(R"({"allow": ["user:60002"]})", sub));
    // A group that a user is in by the user database counts though his process has put it away.
    const passwd* user = getpwuid(65534);
    if (user) CHECK_FALSE(permits(R"({"deny": ["group:)" + std::to_string(user->pw_gid) + R"("]})", peer(65534, {})));
}

TEST_CASE("what is no policy says so") {
    CHECK(refusal("").find("parse") != std::string::npos);
    CHECK(refusal("[]").find("expected") != std::string::npos);
    CHECK(refusal(R"({"allow": "*"})").find("no list") != std::string::npos);
    CHECK(refusal(R"({"allow": ["alice"]})").find("user:NAME") != std::string::npos);
    CHECK(refusal(R"({"allow": [7]})").find("user:NAME") != std::string::npos);
    CHECK(refusal(R"({"allow": ["user:no-such-user-here"]})").find("no user") != std::string::npos);
    CHECK(refusal(R"({"permit": ["*"]})").find("unknown") != std::string::npos);
    CHECK(refusal("{}", 0666).find("chmod") != std::string::npos);
    CHECK(std::holds_alternative<std::string>(Policy::read("/polter/no/such/file")));
}
