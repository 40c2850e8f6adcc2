// SPDX-License-Identifier: BSD-3-Clause
#include "libraries.hpp"

#include <sys/auxv.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unordered_set>

#include "loader_cache.hpp"

namespace polter::launch {
namespace fs = std::filesystem;
namespace {

constexpr size_t most_libraries = 4096;
constexpr size_t most_files = 100'000;  // looked for: a hostile file can name many folders
constexpr size_t largest_cache = 64 << 20;

#if defined(__x86_64__)
constexpr const char* multiarch = "x86_64-linux-gnu";
#elif defined(__aarch64__)
constexpr const char* multiarch = "aarch64-linux-gnu";
#else
constexpr const char* multiarch = "none";
#endif

// One file that is loaded, and who needed it.
struct Loaded {
    std::string path;  // empty: not found
    Elf elf;
    size_t needed_by;  // index; itself for the program
};

std::vector<std::string> split(const std::string& list, const char* separators) {
    std::vector<std::string> out;
    for (size_t begin = 0; begin <= list.size();) {
        const size_t end = std::min(list.find_first_of(separators, begin), list.size());
        out.push_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    return out;
}

void replace_token(std::string& text, const std::string& token, const std::string& value) {
    for (const auto& form : {"${" + token + "}", "$" + token})
        for (size_t at = 0; (at = text.find(form, at)) != std::string::npos; at += value.size()) text.replace(at, form.size(), value);
}

class Search {
  public:
    std::vector<std::string> run(const std::string& program, const Elf& elf) {
        std::error_code error;
        const auto real = fs::canonical(program, error);  // the kernel tells the loader this one
        loaded_.push_back({error ? program : real.string(), elf, 0});
        std::vector<std::string> names;
        std::unordered_set<std::string> known;
        for (size_t i = 0; i < loaded_.size(); ++i) {
            const auto needed = loaded_[i].elf.needed;
            for (const auto& name : needed) {
                if (names.size() >= most_libraries || !known.insert(name).second) continue;
                names.push_back(name);
                Loaded next{{}, {}, i};
                if (find(name, i, next)) loaded_.push_back(std::move(next));
            }
        }
        return names;
    }

  private:
    // In the order of ld.so(8). What is no 64-bit ELF file of the program's machine is passed over, as the loader does.
    bool find(const std::string& name, size_t by, Loaded& out) {
        if (tried_ >= most_files) return false;
        if (name.find('/') != std::string::npos) {
            const auto paths = expanded(name, by);
            return std::any_of(paths.begin(), paths.end(), [&](const auto& path) { return take(path, out); });
        }
        if (loaded_[by].elf.runpath.empty())
            for (size_t i = by;; i = loaded_[i].needed_by) {
                if (in_folders(loaded_[i].elf.rpath, ":", name, i, out)) return true;
                if (i == 0) break;
            }
        if (const char* given = std::getenv("LD_LIBRARY_PATH"); given && *given && in_folders(given, ":;", name, 0, out)) return true;
        if (in_folders(loaded_[by].elf.runpath, ":", name, by, out)) return true;
        if (loaded_[by].elf.no_default_folders) return false;
        if (const auto known = cache().find(name); known != cache().end())
            for (const auto& path : known->second)
                if (take(path, out)) return true;
        for (const auto& folder : {std::string("/lib/") + multiarch, std::string("/usr/lib/") + multiarch, std::string("/lib64"),
                                   std::string("/usr/lib64"), std::string("/lib"), std::string("/usr/lib")})
            if (take(folder + "/" + name, out)) return true;
        return false;
    }

    bool in_folders(const std::string& list, const char* separators, const std::string& name, size_t by, Loaded& out) {
        if (list.empty()) return false;
        for (const auto& folder : split(list, separators))
            for (const auto& path : expanded(folder.empty() ? "." : folder, by)) {
                if (take(path + "/" + name, out)) return true;
                for (const char* level : {"4", "3", "2"})  // where only builds for newer CPUs stand
                    if (take(path + "/glibc-hwcaps/x86-64-v" + level + "/" + name, out)) return true;
            }
        return false;
    }

    // $LIB is the distribution's choice: each is tried.
    std::vector<std::string> expanded(std::string text, size_t by) const {
        const auto* platform = reinterpret_cast<const char*>(getauxval(AT_PLATFORM));
        replace_token(text, "ORIGIN", fs::path(loaded_[by].path).parent_path().string());
        replace_token(text, "PLATFORM", platform ? platform : "");
        if (text.find("$LIB") == std::string::npos && text.find("${LIB}") == std::string::npos) return {text};
        std::vector<std::string> out;
        for (const auto& value : {std::string("lib/") + multiarch, std::string("lib64"), std::string("lib")}) {
            out.push_back(text);
            replace_token(out.back(), "LIB", value);
        }
        return out;
    }

    bool take(const std::string& path, Loaded& out) {
        if (tried_ >= most_files) return false;
        ++tried_;
        auto elf = read_elf(path);
        if (!elf.elf || elf.machine != loaded_.front().elf.machine) return false;
        out.path = path;
        out.elf = std::move(elf);
        return true;
    }

    const LoaderCache& cache() {
        if (!cache_read_) {
            cache_read_ = true;
            std::ifstream file("/etc/ld.so.cache", std::ios::binary);
            std::string bytes;
            for (char part[65536]; bytes.size() < largest_cache && (file.read(part, sizeof part), file.gcount() > 0);)
                bytes.append(part, static_cast<size_t>(file.gcount()));
            cache_ = parse_loader_cache(bytes);
        }
        return cache_;
    }

    std::vector<Loaded> loaded_;
    size_t tried_ = 0;
    LoaderCache cache_;
    bool cache_read_ = false;
};

}  // namespace

std::vector<std::string> needed_libraries(const std::string& program, const Elf& elf) {
    return Search().run(program, elf);
}

}  // namespace polter::launch
