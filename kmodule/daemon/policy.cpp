// SPDX-License-Identifier: BSD-3-Clause
#include "policy.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "owners.hpp"

namespace polter::daemon {
namespace {

constexpr std::uintmax_t most_bytes = 1 << 20;

std::optional<unsigned> number(const std::string& text) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

uid_t user_id(const std::string& name) {
    if (const auto id = number(name)) return *id;
    if (const passwd* entry = getpwnam(name.c_str())) return entry->pw_uid;
    throw std::invalid_argument(fmt::format("there is no user {}", name));
}

gid_t group_id(const std::string& name) {
    if (const auto id = number(name)) return *id;
    if (const group* entry = getgrnam(name.c_str())) return entry->gr_gid;
    throw std::invalid_argument(fmt::format("there is no group {}", name));
}

}  // namespace

bool Policy::Entries::match(uid_t uid, const std::vector<gid_t>& in) const {
    return everybody || users.contains(uid) || std::any_of(in.begin(), in.end(), [&](gid_t group) { return groups.contains(group); });
}

const std::vector<gid_t>& Policy::groups_of(uid_t uid) const {
    const auto [known, first] = groups_of_.try_emplace(uid);
    const passwd* user = first ? getpwuid(uid) : nullptr;
    if (!user) return known->second;
    const std::string name = user->pw_name;
    const gid_t own = user->pw_gid;
    int n = 64;
    do known->second.resize(static_cast<std::size_t>(n));
    while (getgrouplist(name.c_str(), own, known->second.data(), &n) < 0 && static_cast<std::size_t>(n) > known->second.size());
    known->second.resize(static_cast<std::size_t>(std::max(n, 0)));
    return known->second;
}

bool Policy::permits(const Peer& peer) const {
    if (is_exempt(peer)) return true;
    const uid_t account = peer.account();
    const auto by_account = [&](const Entries& entries) {
        return entries.match(account, entries.groups.empty() ? std::vector<gid_t>() : groups_of(account));
    };
    const bool allowed = allow_.match(peer.uid, peer.groups) || (account != peer.uid && by_account(allow_));
    return allowed && !deny_.match(peer.uid, peer.groups) && !by_account(deny_);
}

bool Policy::shows_names(const Peer& peer) const {
    return peer.uid == 0 || peer.uid == geteuid() || names_.match(peer.uid, peer.groups);
}

std::variant<Policy, std::string> Policy::read(const std::filesystem::path& file) {
    struct stat info {};
    if (stat(file.c_str(), &info) != 0)
        return fmt::format("policy {}: {}; write one, or leave --policy out to let everybody register", file.string(),
                           std::strerror(errno));
    if ((info.st_mode & 022) != 0 || (info.st_uid != 0 && info.st_uid != geteuid()))
        return fmt::format("policy {}: others than root may write to it; chown root and chmod 644", file.string());
    if (static_cast<std::uintmax_t>(info.st_size) > most_bytes)
        return fmt::format("policy {}: more than {} bytes", file.string(), most_bytes);
    std::ifstream in(file);
    try {
        const auto json = nlohmann::json::parse(in);
        if (!json.is_object()) throw std::invalid_argument(R"(expected {"allow": [...], "deny": [...]})");
        const auto entries = [&](const std::string& key, const nlohmann::json& list) {
            Entries out;
            if (!list.is_array()) throw std::invalid_argument(fmt::format("\"{}\" is no list", key));
            for (const auto& entry : list) {
                const std::string text = entry.is_string() ? entry.get<std::string>() : entry.dump();
                if (text == "*")
                    out.everybody = true;
                else if (text.starts_with("user:"))
                    out.users.insert(user_id(text.substr(5)));
                else if (text.starts_with("group:"))
                    out.groups.insert(group_id(text.substr(6)));
                else
                    throw std::invalid_argument(fmt::format("{}: expected \"*\", \"user:NAME\" or \"group:NAME\"", entry.dump()));
            }
            return out;
        };
        Policy policy;
        for (const auto& [key, list] : json.items()) {
            if (key == "allow")
                policy.allow_ = entries(key, list);
            else if (key == "deny")
                policy.deny_ = entries(key, list);
            else if (key == "names")
                policy.names_ = entries(key, list);
            else
                throw std::invalid_argument(fmt::format("\"{}\" is unknown; it has \"allow\", \"deny\" and \"names\"", key));
        }
        return policy;
    } catch (const std::exception& error) {
        return fmt::format("policy {}: {}", file.string(), error.what());
    }
}

}  // namespace polter::daemon
