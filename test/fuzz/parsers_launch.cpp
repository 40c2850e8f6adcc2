// SPDX-License-Identifier: BSD-3-Clause
// What `polter run` reads to find out the MPI of a command: ELF files, the loader's cache, a shell's text, command lines.
#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "../../tracer/launch/programs/command_programs.hpp"
#include "../../tracer/launch/programs/elf.hpp"
#include "../../tracer/launch/programs/libraries.hpp"
#include "../../tracer/launch/programs/loader_cache.hpp"
#include "../../tracer/launch/programs/shell_words.hpp"
#include "parsers.hpp"

namespace polter::test {

namespace {

namespace fs = std::filesystem;

template <class T>
void put(std::string& bytes, size_t at, const T& value) {
    if (bytes.size() < at + sizeof value) bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

// A literal with the zero bytes in it and the one at its end.
template <size_t size>
std::string with_zeros(const char (&literal)[size]) {
    return {literal, size};
}

// A program that needs a library from a folder beside it and one that is nowhere.
std::string small_elf() {
    const std::string strings = with_zeros("\0liba.so.1\0libmpi.so.40\0$ORIGIN/sub:/lib"),
                      interpreter = with_zeros("/lib64/ld-linux-x86-64.so.2");
    const size_t segments = 64, text = segments + 3 * sizeof(Elf64_Phdr), loader = text + strings.size(),
                 dynamic = loader + interpreter.size();
    const Elf64_Dyn entries[] = {
        {DT_NEEDED, {1}},  {DT_NEEDED, {11}}, {DT_RUNPATH, {24}}, {DT_STRTAB, {text}}, {DT_STRSZ, {strings.size()}},
        {DT_FLAGS_1, {0}}, {DT_NULL, {0}}};
    const size_t size = dynamic + sizeof entries;
    std::string out;
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident,
                "\x7f"
                "ELF\2\1\1",
                7);
    header.e_type = ET_DYN;
    header.e_machine = EM_X86_64;
    header.e_version = 1;
    header.e_phoff = segments;
    header.e_ehsize = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 3;
    put(out, 0, header);
    put(out, segments, Elf64_Phdr{PT_LOAD, PF_R, 0, 0, 0, size, size, 4096});
    put(out, segments + sizeof(Elf64_Phdr), Elf64_Phdr{PT_INTERP, PF_R, loader, loader, loader, interpreter.size(), interpreter.size(), 1});
    put(out, segments + 2 * sizeof(Elf64_Phdr), Elf64_Phdr{PT_DYNAMIC, PF_R, dynamic, dynamic, dynamic, sizeof entries, sizeof entries, 8});
    out.replace(text, 0, strings + interpreter);
    put(out, dynamic, entries);
    return out;
}

class ElfTarget : public Target {
  public:
    explicit ElfTarget(const std::string& work) : program_(work + "/program") {
        fs::create_directories(work + "/sub");
        std::ofstream(work + "/sub/liba.so.1", std::ios::binary) << small_elf();
    }

    std::string run(Random& random) override {
        std::string bytes = small_elf(), told;
        for (size_t k = below(random, 4); k > 0 && !bytes.empty(); --k) told += damage_bytes(bytes, random) + "; ";
        std::ofstream(program_, std::ios::binary) << bytes;
        const auto elf = launch::read_elf(program_);
        const auto libraries = launch::needed_libraries(program_, elf);
        launch::why_not_preloaded(program_, elf);
        (libraries.empty() ? none_ : some_) += 1;
        for (const auto& name : libraries)
            if (name.empty()) throw std::logic_error("a library without a name");
        return fmt::format("{}{} libraries", told, libraries.size());
    }
    void finish() override {
        if (none_ + some_ > 100 && (none_ == 0 || some_ == 0)) throw std::logic_error("does not reach what it is for");
    }

  private:
    std::string program_;
    size_t none_ = 0, some_ = 0;
};

class CacheTarget : public Target {
  public:
    CacheTarget() {
        const std::string strings = with_zeros("libx.so.1\0/lib/libx.so.1\0liby.so.2\0/usr/lib/liby.so.2");
        const uint32_t entries = 3, begin = 48 + entries * 24;
        seed_ = "glibc-ld.so.cache1.1";
        put(seed_, 20, entries);
        put(seed_, 24, static_cast<uint32_t>(strings.size()));
        const uint32_t places[][2] = {{0, 10}, {0, 35}, {25, 35}};
        for (uint32_t i = 0; i < entries; ++i) {
            put(seed_, 48 + i * 24, uint32_t{0x303});
            put(seed_, 48 + i * 24 + 4, begin + places[i][0]);
            put(seed_, 48 + i * 24 + 8, begin + places[i][1]);
        }
        seed_.resize(begin);
        seed_ += strings;
    }

    std::string run(Random& random) override {
        std::string bytes = seed_, told;
        if (random() % 2) {  // behind one of the older format
            std::string old("ld.so-1.7.0\0", 12);
            put(old, 12, uint32_t{1});
            old.resize(32);
            bytes = old + bytes;
        }
        for (size_t k = below(random, 4); k > 0 && !bytes.empty(); --k) told += damage_bytes(bytes, random) + "; ";
        const auto cache = launch::parse_loader_cache(bytes);
        for (const auto& [name, paths] : cache)
            for (const auto& path : paths)
                if (name.empty() || !path.starts_with("/")) throw std::logic_error("an entry without a name or path");
        (cache.empty() ? none_ : some_) += 1;
        return fmt::format("{}{} names", told, cache.size());
    }
    void finish() override {
        if (none_ + some_ > 100 && (none_ == 0 || some_ == 0)) throw std::logic_error("does not reach what it is for");
    }

  private:
    std::string seed_;
    size_t none_ = 0, some_ = 0;
};

class CommandTarget : public Target {
  public:
    std::string run(Random& random) override {
        static const char* const parts[] = {
            "sh",    "-c", "-n", "2",  "mpirun", ":",  "env", "A=1", "timeout", "--", "cat", "exec $0 \"$@\"",
            "'a b'", "\"", "$(", ")",  "`",      "${", "}",   ">",   "2>&1",    "\\", "#",   "$1 $9 $@",
            "&&",    "\n", ";",  "-x", "srun",   "",   "-",   "nice"};
        std::vector<std::string> words;
        for (size_t k = below(random, 12); k > 0; --k) {
            std::string word = parts[below(random, std::size(parts))];
            while (random() % 3 == 0) word += std::string(random() % 2 ? " " : "") + parts[below(random, std::size(parts))];
            if (random() % 8 == 0 && !word.empty()) damage_bytes(word, random);
            words.push_back(word);
        }
        std::string told;
        for (const auto& word : words) told += fmt::format("[{}]", word);
        for (const auto& command : words.empty() ? std::vector<std::vector<std::string>>() : launch::shell_commands(words.front(), words))
            if (command.empty()) throw std::logic_error("a command without words");
        const auto found = launch::programs_of(words);
        if (found.programs.size() > 1000) throw std::logic_error("no bound on the programs");
        return told;
    }
};

}  // namespace

std::unique_ptr<Target> make_elf_target(const std::string& work) {
    return std::make_unique<ElfTarget>(work);
}
std::unique_ptr<Target> make_loader_cache_target() {
    return std::make_unique<CacheTarget>();
}
std::unique_ptr<Target> make_command_target() {
    return std::make_unique<CommandTarget>();
}

}  // namespace polter::test
