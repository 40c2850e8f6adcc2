// SPDX-License-Identifier: BSD-3-Clause
#include "owners.hpp"

#include <pwd.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <string>

namespace polter::daemon {
namespace {

std::optional<std::uint64_t> number(const std::string& text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<uid_t> user_id(const std::string& name) {
    if (const auto id = number(name)) return static_cast<uid_t>(*id);
    if (const passwd* entry = getpwnam(name.c_str())) return entry->pw_uid;
    return std::nullopt;
}

}  // namespace

Owners::Owners(const std::filesystem::path& subuid) {
    std::ifstream file(subuid);
    for (std::string line; std::getline(file, line);) {
        const auto first = line.find(':'), second = line.find(':', first + 1);
        if (first == line.npos || second == line.npos) continue;
        const auto from = number(line.substr(first + 1, second - first - 1)), count = number(line.substr(second + 1));
        const auto owner = from && count ? user_id(line.substr(0, first)) : std::nullopt;
        if (owner) ranges_.push_back({*owner, *from, *count});
    }
}

std::optional<uid_t> Owners::of(uid_t uid) const {
    for (const auto& range : ranges_)
        if (uid >= range.first && uid - range.first < range.count && range.owner != uid) return range.owner;
    return std::nullopt;
}

std::optional<uid_t> Owners::of(const Peer& peer) const {
    if (is_exempt(peer)) return std::nullopt;
    for (const auto& owner : {namespace_owner(peer.pid), of(peer.uid)})
        if (owner && *owner != peer.uid && *owner != 0 && *owner != geteuid()) return owner;
    return std::nullopt;
}

bool is_exempt(const Peer& peer) {
    return peer.uid == 0 || peer.uid == geteuid();
}

}  // namespace polter::daemon
