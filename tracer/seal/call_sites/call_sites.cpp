// SPDX-License-Identifier: BSD-3-Clause
#include "call_sites.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

namespace polter::seal {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr size_t longest_text = 4096;
constexpr rlim_t most_memory = rlim_t{4} << 30;

std::string plain_name(const std::vector<SidecarObject>& objects, const SidecarCallSite& site) {
    if (site.object >= objects.size()) return site.address ? "code made at run time" : "too many call sites";
    const auto name = std::filesystem::path(objects[site.object].path).filename().string();
    return fmt::format("{}+{:#x}", name.empty() ? "unknown object" : name, site.address);
}

std::string shortened(const std::string& text) {
    return text.substr(0, longest_text);
}

// One line a call site that is known: what the parent reads, as far as the child comes.
void tell(int to, size_t index, const CallSiteName& name) {
    const json line{index, shortened(name.function), shortened(name.linkage), shortened(name.file), name.line};
    const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    for (size_t at = 0; at < text.size();) {
        const ssize_t wrote = write(to, text.data() + at, text.size() - at);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) _exit(1);
        at += static_cast<size_t>(wrote);
    }
}

[[noreturn]] void child(int to, const std::vector<SidecarObject>& objects, const std::vector<SidecarCallSite>& sites) {
    for (int fatal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGTERM, SIGINT}) signal(fatal, SIG_DFL);
    // No dump of what is expected to crash, and no memory for what claims to be huge.
    const rlimit none{0, 0}, memory{most_memory, most_memory};
    setrlimit(RLIMIT_CORE, &none);
#ifndef __SANITIZE_ADDRESS__
    setrlimit(RLIMIT_DATA, &memory);
#endif
    unsetenv("DEBUGINFOD_URLS");  // elfutils would ask servers
    std::map<uint32_t, std::vector<size_t>> by_object;
    for (size_t i = 0; i < sites.size(); ++i)
        if (sites[i].object < objects.size()) by_object[sites[i].object].push_back(i);
    try {
        for (const auto& [object, list] : by_object) {
            const CodeFile file(objects[object]);
            if (!file) continue;
            for (const size_t i : list)
                if (const auto name = file.call_before(sites[i].address); !name.function.empty()) tell(to, i, name);
        }
    } catch (...) {
        _exit(1);
    }
    _exit(0);
}

bool take_line(const std::string& text, std::vector<CallSiteName>& names) {
    const json line = json::parse(text, nullptr, false);
    if (!line.is_array() || line.size() != 5 || !line[0].is_number_unsigned() || !line[4].is_number_unsigned()) return false;
    const auto index = line[0].get<uint64_t>();
    if (index >= names.size() || !line[1].is_string() || !line[2].is_string() || !line[3].is_string()) return false;
    names[index] = {line[1].get<std::string>(), line[2].get<std::string>(), line[3].get<std::string>(), line[4].get<uint32_t>()};
    return true;
}

// True at the end of what the child has to say; false when its time is up, or it says what it should not.
bool listen(int from, Clock::time_point end, std::vector<CallSiteName>& names) {
    std::string text;
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
        pollfd wait{from, POLLIN, 0};
        const int ready = poll(&wait, 1, static_cast<int>(std::max<decltype(left)>(0, left)));
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return false;
        char bytes[4096];
        const ssize_t got = read(from, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got == 0;
        text.append(bytes, static_cast<size_t>(got));
        size_t at = 0;
        for (size_t newline; (newline = text.find('\n', at)) != std::string::npos; at = newline + 1)
            if (!take_line(text.substr(at, newline - at), names)) return false;
        text.erase(0, at);
        if (text.size() > 32 * longest_text) return false;
    }
}

}  // namespace

CallSiteNames name_call_sites(const std::vector<SidecarObject>& objects, const std::vector<SidecarCallSite>& sites, bool may_open,
                              std::chrono::milliseconds limit) {
    CallSiteNames result;
    for (const auto& site : sites) result.names.push_back({plain_name(objects, site), "", "", 0});
    if (sites.empty() || !may_open) return result;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return result;
    const auto end = Clock::now() + limit;
    const pid_t pid = fork();
    if (pid == 0) child(ends[1], objects, sites);
    close(ends[1]);
    const bool whole = pid > 0 && listen(ends[0], end, result.names);
    close(ends[0]);
    if (pid < 0) return result;
    if (!whole) kill(pid, SIGKILL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!whole)
        result.warning = fmt::format("call sites: their functions and lines were not all found within {} s", limit.count() / 1000);
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        result.warning = "call sites: a program or library could not be read; those in it are given as addresses";
    return result;
}

}  // namespace polter::seal
