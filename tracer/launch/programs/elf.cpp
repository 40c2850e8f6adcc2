// SPDX-License-Identifier: BSD-3-Clause
#include "elf.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace polter::launch {
namespace {

// More than any real program has; a damaged file shall not be followed further.
constexpr size_t most_needed = 4096;
constexpr size_t longest_text = 64 * 1024;  // of a path or a list of folders

// The file, opened for reading only. `ELF_C_READ` reads by pread(2): a file that somebody truncates meanwhile is an error, not SIGBUS.
class File {
  public:
    explicit File(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
        struct stat info {};
        if (fd_ < 0 || fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) return;
        elf_version(EV_CURRENT);
        elf_ = elf_begin(fd_, ELF_C_READ, nullptr);
    }
    ~File() {
        elf_end(elf_);
        if (fd_ >= 0) close(fd_);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ::Elf* elf() const { return elf_ && elf_kind(elf_) == ELF_K_ELF && gelf_getclass(elf_) == ELFCLASS64 ? elf_ : nullptr; }

    // What stands at `offset` up to a zero byte; empty where that is outside of the file or too long.
    std::string text_at(uint64_t offset, uint64_t most) const {
        most = std::min<uint64_t>(most, longest_text);
        std::string out;
        char part[256];
        while (out.size() < most && offset + out.size() <= INT64_MAX) {
            const auto got = pread(fd_, part, std::min<size_t>(sizeof part, most - out.size()), static_cast<off_t>(offset + out.size()));
            if (got <= 0) return {};
            const size_t length = strnlen(part, static_cast<size_t>(got));
            out.append(part, length);
            if (length < static_cast<size_t>(got)) return out;
        }
        return {};
    }

  private:
    int fd_;
    ::Elf* elf_ = nullptr;
};

std::vector<GElf_Phdr> segments_of(::Elf* file) {
    std::vector<GElf_Phdr> out;
    size_t count = 0;
    if (elf_getphdrnum(file, &count) != 0) return out;
    GElf_Phdr segment{};
    for (size_t i = 0; i < std::min<size_t>(count, UINT16_MAX); ++i)
        if (gelf_getphdr(file, static_cast<int>(i), &segment)) out.push_back(segment);
    return out;
}

// Where an address lies in the file, by its segments: the loader looks at nothing else either. 0: nowhere.
uint64_t offset_of(const std::vector<GElf_Phdr>& segments, uint64_t address) {
    for (const auto& segment : segments)
        if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
            return segment.p_offset + (address - segment.p_vaddr);
    return 0;
}

void read_dynamic(const File& file, const std::vector<GElf_Phdr>& segments, Elf& out) {
    const auto dynamic = std::find_if(segments.begin(), segments.end(), [](const auto& segment) { return segment.p_type == PT_DYNAMIC; });
    if (dynamic == segments.end() || dynamic->p_filesz == 0 || dynamic->p_filesz > longest_text * sizeof(Elf64_Dyn)) return;
    auto* data = elf_getdata_rawchunk(file.elf(), static_cast<int64_t>(dynamic->p_offset), dynamic->p_filesz, ELF_T_DYN);
    if (!data) return;
    std::vector<uint64_t> needed;
    uint64_t table = 0, size = 0, rpath = UINT64_MAX, runpath = UINT64_MAX;
    GElf_Dyn entry{};
    for (int i = 0; gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; ++i) {
        if (entry.d_tag == DT_NEEDED && needed.size() < most_needed) needed.push_back(entry.d_un.d_val);
        if (entry.d_tag == DT_STRTAB) table = offset_of(segments, entry.d_un.d_ptr);
        if (entry.d_tag == DT_STRSZ) size = entry.d_un.d_val;
        if (entry.d_tag == DT_RPATH) rpath = entry.d_un.d_val;
        if (entry.d_tag == DT_RUNPATH) runpath = entry.d_un.d_val;
        if (entry.d_tag == DT_FLAGS_1) out.no_default_folders = (entry.d_un.d_val & DF_1_NODEFLIB) != 0;
    }
    if (table == 0) return;
    auto text = [&](uint64_t at) { return at < size ? file.text_at(table + at, size - at) : std::string(); };
    for (const auto at : needed)
        if (auto name = text(at); !name.empty()) out.needed.push_back(std::move(name));
    out.runpath = text(runpath);
    if (out.runpath.empty()) out.rpath = text(rpath);  // the loader ignores it beside a DT_RUNPATH
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
    const File file(path);
    GElf_Ehdr header{};
    if (!file.elf() || !gelf_getehdr(file.elf(), &header)) return out;
    out.elf = true;
    out.machine = header.e_machine;
    const auto segments = segments_of(file.elf());
    for (const auto& segment : segments)
        if (segment.p_type == PT_INTERP && out.interpreter.empty()) out.interpreter = file.text_at(segment.p_offset, segment.p_filesz);
    read_dynamic(file, segments, out);
    return out;
}

std::string why_not_preloaded(const std::string& path, const Elf& elf) {
    if (elf.interpreter.empty()) return fmt::format("{} is linked statically: nothing can be put into it. Link it dynamically", path);
    const File file(path);
    if (file.elf() && defines(file.elf(), "MPI_Init"))
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
