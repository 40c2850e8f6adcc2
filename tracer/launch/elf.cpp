// SPDX-License-Identifier: BSD-3-Clause
#include "elf.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstring>

namespace polter::launch {
namespace {

std::string interpreter_of(::Elf* file) {
    size_t segments = 0;
    if (elf_getphdrnum(file, &segments) != 0) return {};
    for (size_t i = 0; i < segments; ++i) {
        GElf_Phdr segment{};
        if (!gelf_getphdr(file, static_cast<int>(i), &segment) || segment.p_type != PT_INTERP) continue;
        if (segment.p_filesz == 0 || segment.p_filesz > 4096) return {};
        auto* data = elf_getdata_rawchunk(file, static_cast<int64_t>(segment.p_offset), segment.p_filesz, ELF_T_BYTE);
        if (!data || !data->d_buf) return {};
        auto* text = static_cast<const char*>(data->d_buf);
        return {text, strnlen(text, data->d_size)};
    }
    return {};
}

bool defines(::Elf* file, const char* name) {
    for (Elf_Scn* section = elf_nextscn(file, nullptr); section; section = elf_nextscn(file, section)) {
        GElf_Shdr header{};
        if (!gelf_getshdr(section, &header) || (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) || header.sh_entsize == 0)
            continue;
        auto* data = elf_getdata(section, nullptr);
        if (!data) continue;
        GElf_Sym symbol{};
        for (int i = 0; gelf_getsym(data, i, &symbol); ++i) {
            const char* known = symbol.st_shndx == SHN_UNDEF ? nullptr : elf_strptr(file, header.sh_link, symbol.st_name);
            if (known && std::strcmp(known, name) == 0) return true;
        }
    }
    return false;
}

// Where a program gets rights that its caller has not, the loader ignores LD_PRELOAD (ld.so(8), secure-execution mode).
bool gains_rights(const std::string& path) {
    struct stat file {};
    if (stat(path.c_str(), &file) != 0) return false;
    if ((file.st_mode & S_ISUID && file.st_uid != getuid()) || (file.st_mode & S_ISGID && file.st_gid != getgid())) return true;
    return getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

}  // namespace

Elf read_elf(const std::string& path) {
    Elf out;
    elf_version(EV_CURRENT);
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return out;
    if (::Elf* file = elf_begin(fd, ELF_C_READ, nullptr)) {
        out.elf = elf_kind(file) == ELF_K_ELF && gelf_getclass(file) == ELFCLASS64;
        if (out.elf) {
            out.interpreter = interpreter_of(file);
            out.defines_mpi = defines(file, "MPI_Init");
        }
        elf_end(file);
    }
    close(fd);
    return out;
}

std::string why_not_preloaded(const std::string& path, const Elf& elf) {
    if (elf.interpreter.empty()) return fmt::format("{} is linked statically: nothing can be put into it. Link it dynamically", path);
    if (elf.defines_mpi)
        return fmt::format(
            "{} defines MPI_Init itself (an MPI library or a profiling tool is linked into it statically), so its calls do not come to "
            "the tracer. Link it with the MPI's shared library, and without the tool",
            path);
    if (gains_rights(path))
        return fmt::format(
            "{} runs with the rights of another user (setuid, setgid or capabilities): the loader puts nothing into it. Use a copy "
            "without them",
            path);
    return {};
}

}  // namespace polter::launch
