// SPDX-License-Identifier: BSD-3-Clause
// polter-collect: sends what ranks of a job left on this node to the `polter run` that started it. The job's own launcher starts it as
// often as it started ranks; one process of a node does the work.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "../../conventions.hpp"
#include "../../node_folder.hpp"
#include "../launch.hpp"
#include "../remains.hpp"
#include "connection.hpp"
#include "protocol.hpp"

namespace polter::launch::collect {
namespace fs = std::filesystem;
namespace {

constexpr int grace_s = 10;  // for ranks that outlive their launcher
constexpr int connect_ms = 5'000;

std::optional<Invitation> invitation() {
    const char* text = std::getenv(trace::env_collect);
    std::istringstream words(text ? text : "");
    Invitation out;
    std::string port;
    if (!std::getline(words, out.addresses, ';') || !std::getline(words, port, ';') || !std::getline(words, out.token, ';') ||
        !std::getline(words, out.job))
        return {};
    out.port = std::atoi(port.c_str());
    return out;
}

// The launcher's host has several addresses, and not all need lead there from here.
int connect_to(const Invitation& to) {
    std::string reason = "it has no address";
    std::istringstream addresses(to.addresses);
    for (std::string address; std::getline(addresses, address, ',');) {
        sockaddr_in there{};
        there.sin_family = AF_INET;
        there.sin_port = htons(static_cast<uint16_t>(to.port));
        const int end = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (end < 0 || inet_pton(AF_INET, address.c_str(), &there.sin_addr) != 1) continue;
        int error = connect(end, reinterpret_cast<sockaddr*>(&there), sizeof there) == 0 ? 0 : errno;
        if (error == EINPROGRESS) {
            pollfd one{end, POLLOUT, 0};
            socklen_t size = sizeof error;
            error = ETIMEDOUT;
            if (poll(&one, 1, connect_ms) > 0) getsockopt(end, SOL_SOCKET, SO_ERROR, &error, &size);
        }
        if (error == 0) return end;
        reason = fmt::format("{}: {}", address, std::strerror(error));
        close(end);
    }
    throw Error(fmt::format("polter run cannot be reached at {} port {}: {}", to.addresses, to.port, reason));
}

void send_file(Connection& to, const fs::path& ranks, const fs::path& file) {
    const int from = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0) throw Error(fmt::format("{}: {}", file.string(), std::strerror(errno)));
    uint64_t left = fs::file_size(file);
    to.write_line(fmt::format("file {} {}", left, fs::relative(file, ranks).string()));
    for (char block[64 * 1024]; left;) {
        const ssize_t got = ::read(from, block, std::min<uint64_t>(sizeof block, left));
        if (got <= 0) {
            close(from);
            throw Error(fmt::format("{}: cannot be read to its end", file.string()));
        }
        to.write(block, static_cast<size_t>(got));
        left -= static_cast<uint64_t>(got);
    }
    close(from);
}

void send_all(const Invitation& to, const std::string& host, const fs::path& folder) {
    std::vector<std::string> ignored;
    wait_for_ranks(folder, to.job, grace_s, ignored);
    Connection there(connect_to(to));
    there.write_line(fmt::format("collect 1 {} {}", to.token, host));
    if (const auto answer = there.line(turn_s); answer != "go") throw Error("polter run answered: " + answer);
    const fs::path ranks = folder / trace::ranks_folder;
    if (fs::is_directory(ranks))
        for (const auto& entry : fs::recursive_directory_iterator(ranks))
            if (entry.is_regular_file() && !entry.is_symlink()) send_file(there, ranks, entry.path());
    there.write_line("end");
    if (const auto answer = there.line(turn_s); answer != "taken") throw Error("polter run answered: " + answer);
}

int run() {
    const auto to = invitation();
    if (!to) throw Error("it is started by polter run alone");
    const std::string folder = trace::node_folder(to->job);
    const int lock = folder.empty() ? -1 : open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    // All ranks of this node saw the experiment directory, or another process of this node sends.
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) != 0) return 0;
    char host[256] = "unknown";
    gethostname(host, sizeof host - 1);
    if (!trace::is_own_folder(folder)) throw Error(fmt::format("{} on {} is not this user's alone", folder, host));
    try {
        send_all(*to, host, folder);
    } catch (const std::exception& error) {
        throw Error(fmt::format("{} keeps its ranks' files in {}: {}", host, folder, error.what()));
    }
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    return 0;
}

}  // namespace
}  // namespace polter::launch::collect

int main() {
    try {
        return polter::launch::collect::run();
    } catch (const std::exception& error) {
        fmt::print(stderr, "polter-collect: {}\n", error.what());
        return 1;
    }
}
