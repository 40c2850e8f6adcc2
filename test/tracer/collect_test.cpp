// SPDX-License-Identifier: BSD-3-Clause
// What `polter run` takes from nodes that do not see the experiment directory, and what it does not: strangers, and files that no rank
// makes.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "../../tracer/launch/collect/connection.hpp"
#include "../../tracer/launch/collect/receiver.hpp"
#include "../../tracer/launch/launch.hpp"

using namespace polter::launch;
namespace fs = std::filesystem;

namespace {

struct Bed {
    fs::path folder;
    collect::Receiver receiver;
    Bed() : folder(made()), receiver(folder / "e", "0123456789abcdef") {}
    ~Bed() { fs::remove_all(folder); }

    static fs::path made() {
        std::string name = (fs::temp_directory_path() / "polter-collect-XXXXXX").string();
        fs::create_directory(fs::path(mkdtemp(name.data())) / "e");
        return name;
    }
    int connected() const {
        const int end = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in there{};
        there.sin_family = AF_INET;
        there.sin_port = htons(static_cast<uint16_t>(receiver.invitation().port));
        there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        REQUIRE(connect(end, reinterpret_cast<sockaddr*>(&there), sizeof there) == 0);
        return end;
    }
    // All that a node says, whatever it is answered; and what it is answered.
    std::string says(const std::string& text, const std::string& token = "") {
        std::string answer;
        {
            std::jthread node([&, end = connected()] {
                const std::string all = fmt::format("collect 1 {} host\n{}", token.empty() ? receiver.invitation().token : token, text);
                if (send(end, all.data(), all.size(), MSG_NOSIGNAL) < 0) answer = "not sent";
                shutdown(end, SHUT_WR);
                char block[4096];
                for (ssize_t got; (got = recv(end, block, sizeof block, 0)) > 0;) answer.append(block, static_cast<size_t>(got));
                close(end);
            });
            receiver.serve(10'000);
        }
        return answer;
    }
    // Of all files: path and content.
    std::set<std::string> files() const {
        std::set<std::string> out;
        for (const auto& entry : fs::recursive_directory_iterator(folder)) {
            std::ifstream file(entry.path());
            if (entry.is_regular_file())
                out.insert(fs::relative(entry.path(), folder).string() + "=" + std::string(std::istreambuf_iterator<char>(file), {}));
        }
        return out;
    }
};

}  // namespace

TEST_CASE("nodes' files come, also where two nodes' folders have one name") {
    Bed bed;
    CHECK(bed.says("file 3 7.1/rank.jsonl\nabcfile 0 7.1/traces/0.tail\nfile 2 7.1/traces/0.evt\nxyend\n") == "go\ntaken\n");
    CHECK(bed.says("file 1 7.1/rank.jsonl\nzend\n") == "go\ntaken\n");
    CHECK(bed.says("end\n") == "go\ntaken\n");  // it has none
    CHECK(bed.receiver.ranks() == 2);
    CHECK(bed.receiver.hosts() == std::set<std::string>{"host"});
    CHECK(bed.receiver.failures().empty());
    CHECK(bed.files() == std::set<std::string>{"e/ranks/7.1/rank.jsonl=abc", "e/ranks/7.1/traces/0.evt=xy",
                                               "e/ranks/7.1/traces/0.tail=", "e/ranks/7.1.1/rank.jsonl=z"});
}

TEST_CASE("strangers are hung up on, and keep nobody waiting for long") {
    Bed bed;
    CHECK(bed.says("file 1 0/rank.jsonl\nxend\n", "0123") == "");
    CHECK(bed.says("", std::string(100'000, 'x')) == "");
    const int silent = bed.connected();
    CHECK(bed.says("file 1 0/rank.jsonl\nxend\n") == "go\ntaken\n");
    close(silent);
    CHECK(bed.receiver.failures().empty());
    CHECK(bed.files() == std::set<std::string>{"e/ranks/0/rank.jsonl=x"});
}

TEST_CASE("what no rank makes is refused with its host, and nothing of that node is taken") {
    Bed bed;
    size_t refused = 0;
    for (const char* path : {"../evil", "0/../../evil", "/etc/evil", "0", "0/a/b", "0/traces/a/b", "0/traces/..", "0//evil", "./evil",
                             "0/a b", "", "0/\x01", "0/rank.jsonl"}) {
        CAPTURE(path);
        const std::string first = "file 1 0/rank.jsonl\nx";  // the last path comes twice
        CHECK(bed.says(first + fmt::format("file 1 {}\nyend\n", path)).find("go\nfailed ") == 0);
        CHECK(bed.receiver.failures().size() == ++refused);
        CHECK(bed.receiver.failures().back().starts_with("host: "));
    }
    for (const char* text : {"file x 0/a\n", "file 5 0/a\nab", "file -1 0/a\n", "file 1\n", "hello\n", ""}) {
        CAPTURE(text);
        bed.says(text);
        CHECK(bed.receiver.failures().size() == ++refused);
    }
    CHECK(bed.receiver.ranks() == 0);
    CHECK(bed.receiver.hosts().empty());
    CHECK_FALSE(fs::exists(bed.folder / "e" / "ranks"));
    CHECK_FALSE(fs::exists(bed.folder / "evil"));
}
