// SPDX-License-Identifier: BSD-3-Clause
#include "receiver.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>

#include "../../conventions.hpp"
#include "../environment.hpp"
#include "../launch.hpp"
#include "connection.hpp"

namespace polter::launch::collect {
namespace fs = std::filesystem;
namespace {

constexpr const char* incoming = ".incoming";  // in the experiment directory, until a node has sent all

std::string own_addresses() {
    std::string out;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return out;
    for (const ifaddrs* at = list; at; at = at->ifa_next) {
        char text[INET_ADDRSTRLEN] = "";
        if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET || (at->ifa_flags & IFF_LOOPBACK) || !(at->ifa_flags & IFF_UP)) continue;
        inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, text, sizeof text);
        out += (out.empty() ? "" : ",") + std::string(text);
    }
    freeifaddrs(list);
    return out + (out.empty() ? "" : ",") + "127.0.0.1";
}

bool is_name(const std::string& part) {
    return !part.empty() && part != "." && part != ".." && part.size() < 256 &&
           std::all_of(part.begin(), part.end(), [](unsigned char c) { return c > ' ' && c < 127 && c != '/'; });
}

// A rank's folder and a file in it, as the tracer makes them, and nothing else.
fs::path checked(const std::string& path) {
    std::vector<std::string> parts;
    std::istringstream text(path);
    for (std::string part; std::getline(text, part, '/');) parts.push_back(part);
    const bool right =
        (parts.size() == 2 || (parts.size() == 3 && parts[1] == trace::archive_name)) && std::all_of(parts.begin(), parts.end(), is_name);
    if (!right) throw Error("it sent a file that no rank makes");
    return path;
}

void take_file(Connection& from, const fs::path& to, uint64_t size) {
    fs::create_directories(to.parent_path());
    const int file = open(to.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file < 0) throw Error(fmt::format("{}: {}", to.string(), std::strerror(errno)));
    char block[64 * 1024];
    const char* failed = nullptr;
    while (size && !failed) {
        const size_t got = from.read(block, std::min<uint64_t>(size, sizeof block));
        for (size_t done = 0; done < got && !failed;) {
            const ssize_t written = ::write(file, block + done, got - done);
            if (written >= 0)
                done += static_cast<size_t>(written);
            else if (errno != EINTR)
                failed = std::strerror(errno);
        }
        size -= got;
    }
    if (close(file) != 0 && !failed) failed = std::strerror(errno);
    if (failed) throw Error(fmt::format("{}: {}", to.string(), failed));
}

// Rank folders of two nodes may have one name.
uint64_t move_ranks(const fs::path& from, const fs::path& to) {
    uint64_t count = 0;
    fs::create_directories(to);
    for (const auto& rank : fs::directory_iterator(from)) {
        const auto name = rank.path().filename().string();
        fs::path free = to / name;
        for (int number = 1; fs::exists(free); ++number) free = to / fmt::format("{}.{}", name, number);
        fs::rename(rank.path(), free);
        ++count;
    }
    return count;
}

}  // namespace

Receiver::Receiver(fs::path experiment, const std::string& job) : experiment_(std::move(experiment)) {
    listening_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t size = sizeof any;
    if (listening_ < 0 || bind(listening_, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 || listen(listening_, 1024) != 0 ||
        getsockname(listening_, reinterpret_cast<sockaddr*>(&any), &size) != 0) {
        const int reason = errno;
        if (listening_ >= 0) close(listening_);
        throw Error(fmt::format("no port to collect at: {}", std::strerror(reason)));
    }
    invitation_ = {own_addresses(), ntohs(any.sin_port), random_job_id() + random_job_id(), job};
}

Receiver::~Receiver() {
    close(listening_);
    std::error_code error;
    fs::remove_all(experiment_ / incoming, error);
}

void Receiver::serve(int wait_ms) {
    pollfd one{listening_, POLLIN, 0};
    while (poll(&one, 1, wait_ms) > 0) {
        const int connection = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
        if (connection < 0) return;
        take(connection);
        wait_ms = 0;
    }
}

void Receiver::take(int socket) {
    Connection node(socket);
    std::string host;
    try {
        std::istringstream first(node.line(hello_s));
        std::string word, version, token;
        first >> word >> version >> token >> host;
        if (word != "collect" || version != "1" || token != invitation_.token || !is_name(host)) return;  // a stranger
        node.write_line("go");
        const fs::path folder = experiment_ / incoming;
        fs::remove_all(folder);
        fs::create_directories(folder);
        for (std::string line; (line = node.line()) != "end";) {
            const size_t blank = line.find(' ', 5);
            uint64_t bytes = 0;
            if (!line.starts_with("file ") || blank == line.npos ||
                std::from_chars(line.data() + 5, line.data() + blank, bytes).ptr != line.data() + blank)
                throw Error("what came is not what polter-collect sends");
            take_file(node, folder / checked(line.substr(blank + 1)), bytes);
        }
        ranks_ += move_ranks(folder, experiment_ / trace::ranks_folder);
        hosts_.insert(host);
        node.write_line("taken");
    } catch (const std::exception& error) {
        if (host.empty()) return;
        failures_.push_back(fmt::format("{}: {}", host, error.what()));
        try {
            node.write_line(fmt::format("failed {}", error.what()));
        } catch (const Error&) {  // it has gone
        }
    }
}

}  // namespace polter::launch::collect
