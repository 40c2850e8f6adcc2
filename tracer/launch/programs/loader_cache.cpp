// SPDX-License-Identifier: BSD-3-Clause
#include "loader_cache.hpp"

#include <cstdint>
#include <cstring>
#include <optional>

namespace polter::launch {
namespace {

constexpr std::string_view old_magic = "ld.so-1.7.0", magic = "glibc-ld.so.cache1.1";

struct OldHeader {
    char magic[11];
    uint32_t entries;
};
constexpr size_t old_entry_size = 12;

struct Header {
    char magic[20];
    uint32_t entries, strings_size;
    uint8_t flags, padding[3];
    uint32_t extensions, unused[3];
};
static_assert(sizeof(Header) == 48);

struct Entry {
    int32_t flags;
    uint32_t name, path;  // offsets from the header
    uint32_t os_version;
    uint64_t hwcap;
};
static_assert(sizeof(Entry) == 24);

template <class T>
std::optional<T> read_at(std::string_view bytes, uint64_t offset) {
    if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return {};
    T out;
    std::memcpy(&out, bytes.data() + offset, sizeof out);
    return out;
}

// Empty: outside, or without an end.
std::string text_at(std::string_view bytes, uint32_t offset) {
    if (offset >= bytes.size()) return {};
    const auto rest = bytes.substr(offset);
    const auto end = rest.find('\0');
    return end == rest.npos ? std::string() : std::string(rest.substr(0, end));
}

}  // namespace

LoaderCache parse_loader_cache(std::string_view bytes) {
    LoaderCache out;
    if (bytes.starts_with(old_magic)) {
        const auto old = read_at<OldHeader>(bytes, 0);
        if (!old) return out;
        const uint64_t end = (sizeof(OldHeader) + uint64_t{old->entries} * old_entry_size + 7) / 8 * 8;
        if (end > bytes.size()) return out;
        bytes.remove_prefix(end);
    }
    const auto header = read_at<Header>(bytes, 0);
    if (!bytes.starts_with(magic) || !header) return out;
    for (uint64_t i = 0; i < header->entries; ++i) {
        const auto entry = read_at<Entry>(bytes, sizeof(Header) + i * sizeof(Entry));
        if (!entry) break;
        const auto name = text_at(bytes, entry->name), path = text_at(bytes, entry->path);
        if (!name.empty() && path.starts_with('/')) out[name].push_back(path);
    }
    return out;
}

}  // namespace polter::launch
