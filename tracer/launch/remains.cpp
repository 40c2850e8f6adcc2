// SPDX-License-Identifier: BSD-3-Clause
#include "remains.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <folder.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "../conventions.hpp"

namespace polter::launch {
namespace fs = std::filesystem;
namespace {

// A process number may be another's by now, so its environment must name the job. A zombie has none: it has ended.
bool belongs(pid_t pid, const std::string& job) {
    std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
    auto wanted = fmt::format("{}={}", trace::env_job, job);
    for (std::string entry; std::getline(file, entry, '\0');)
        if (entry == wanted) return true;
    return false;
}

}  // namespace

std::vector<pid_t> running_ranks(const fs::path& experiment, const std::string& job) {
    std::vector<pid_t> out;
    constexpr size_t longest_header = 64u << 10;
    std::vector<std::string> headers;
    try {
        // The experiment may be another user's, and anything may stand in it.
        if (const auto ranks = seal::Folder::open(experiment).sub(trace::ranks_folder))
            for (const auto& name : ranks->folders())
                if (const auto rank = ranks->sub(name)) headers.push_back(seal::text_of(*rank, trace::sidecar_name, longest_header));
    } catch (const std::system_error&) {  // sealing says what is wrong
    }
    for (const auto& text : headers) {
        auto header = nlohmann::json::parse(text.substr(0, text.find('\n')), nullptr, false);
        if (!header.is_object() || !header.contains("pid") || !header["pid"].is_number_unsigned()) continue;
        auto pid = header["pid"].get<uint64_t>();
        // Whether it is on this host, the environment tells.
        if (pid > 1 && pid < INT32_MAX && belongs(static_cast<pid_t>(pid), job)) out.push_back(static_cast<pid_t>(pid));
    }
    return out;
}

void wait_for_ranks(const fs::path& experiment, const std::string& job, int seconds, std::vector<std::string>& warnings) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    auto left = running_ranks(experiment, job);
    while (!left.empty() && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        left = running_ranks(experiment, job);
    }
    if (left.empty()) return;
    warnings.push_back(fmt::format("{} processes of the job still ran {} s after its end and were killed: {}", left.size(), seconds,
                                   fmt::join(left, ", ")));
    for (int attempt = 0; attempt < 100 && !left.empty(); ++attempt) {
        for (auto pid : left) kill(pid, SIGKILL);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        left = running_ranks(experiment, job);
    }
}

}  // namespace polter::launch
