// SPDX-License-Identifier: BSD-3-Clause
#include "loaded_object.hpp"

#include <elf.h>
#include <limits.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace polter::write {
namespace {

std::string hexadecimal(const unsigned char* bytes, size_t count) {
    static const char digits[] = "0123456789abcdef";
    std::string text;
    for (size_t i = 0; i < count; i++) {
        text += digits[bytes[i] >> 4];
        text += digits[bytes[i] & 15];
    }
    return text;
}

// Of the notes in one segment, which is mapped.
std::string build_id_in(const char* notes, size_t size) {
    const auto aligned = [](size_t length) { return (length + 3) & ~size_t{3}; };
    for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
        ElfW(Nhdr) note;
        std::memcpy(&note, notes + at, sizeof note);
        const size_t name = at + sizeof note, content = name + aligned(note.n_namesz), next = content + aligned(note.n_descsz);
        if (next > size || next <= at) break;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes + name, "GNU", 4) == 0)
            return hexadecimal(reinterpret_cast<const unsigned char*>(notes) + content, note.n_descsz);
        at = next;
    }
    return {};
}

struct Search {
    uintptr_t address;
    std::optional<LoadedObject> found;
};

int look(dl_phdr_info* info, size_t, void* user) {
    auto& search = *static_cast<Search*>(user);
    bool inside = false;
    for (int i = 0; i < info->dlpi_phnum && !inside; i++) {
        const auto& segment = info->dlpi_phdr[i];
        inside = segment.p_type == PT_LOAD && search.address - (info->dlpi_addr + segment.p_vaddr) < segment.p_memsz;
    }
    if (!inside) return 0;
    LoadedObject object;
    object.path = info->dlpi_name;
    object.base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum && object.build_id.empty(); i++) {
        const auto& segment = info->dlpi_phdr[i];
        if (segment.p_type == PT_NOTE)
            object.build_id = build_id_in(reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
    }
    search.found = std::move(object);
    return 1;
}

}  // namespace

std::optional<LoadedObject> object_at(const void* address) {
    Search search{reinterpret_cast<uintptr_t>(address), {}};
    dl_iterate_phdr(look, &search);
    if (!search.found) return {};
    // The file is asked outside of the loader's lock.
    std::string& path = search.found->path;
    char whole[PATH_MAX] = "";
    if (path.empty()) {
        const ssize_t length = readlink("/proc/self/exe", whole, sizeof whole - 1);
        path.assign(whole, length > 0 ? static_cast<size_t>(length) : 0);
    } else if (path.front() != '/' && path.find('/') != std::string::npos && realpath(path.c_str(), whole)) {
        path = whole;  // the program may change its directory
    }
    struct stat file {};
    if (!path.empty() && path.front() == '/' && stat(path.c_str(), &file) == 0) {
        search.found->bytes = static_cast<uint64_t>(file.st_size);
        search.found->modified_seconds = static_cast<uint64_t>(file.st_mtime);
    }
    return search.found;
}

}  // namespace polter::write
