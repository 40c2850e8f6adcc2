// SPDX-License-Identifier: BSD-3-Clause
#include "folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

namespace polter::seal {
namespace {

constexpr int directory = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr int deepest = 8;  // folders in folders that are removed; the tracer makes three

[[noreturn]] void fail(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

struct CloseDirectory {
    void operator()(DIR* at) const { closedir(at); }
};

std::vector<std::string> names_in(int fd) {
    std::vector<std::string> names;
    const int own = openat(fd, ".", directory);
    const std::unique_ptr<DIR, CloseDirectory> at(own < 0 ? nullptr : fdopendir(own));
    if (!at) {
        if (own >= 0) close(own);
        return names;
    }
    while (const dirent* entry = readdir(at.get()))
        if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) names.emplace_back(entry->d_name);
    return names;
}

void remove_in(int fd, const std::string& name, int depth) {
    if (unlinkat(fd, name.c_str(), 0) == 0 || (errno != EISDIR && errno != EPERM)) return;
    {
        const File inner(openat(fd, name.c_str(), directory | O_NOFOLLOW));
        if (inner && depth < deepest)
            for (const auto& one : names_in(inner.fd())) remove_in(inner.fd(), one, depth + 1);
    }
    unlinkat(fd, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

File::~File() {
    if (fd_ >= 0) close(fd_);
}

uint64_t File::size() const {
    struct stat about;
    return fd_ >= 0 && fstat(fd_, &about) == 0 ? static_cast<uint64_t>(about.st_size) : 0;
}

size_t read_at(const File& file, void* to, size_t size, uint64_t offset) {
    size_t read = 0;
    while (read < size) {
        const ssize_t got = pread(file.fd(), static_cast<char*>(to) + read, size - read, static_cast<off_t>(offset + read));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        read += static_cast<size_t>(got);
    }
    return read;
}

Folder Folder::open(const std::filesystem::path& path) {
    File file(::open(path.c_str(), directory));
    struct stat about;
    if (!file || fstat(file.fd(), &about) != 0) fail(path.string());
    return {std::move(file), about.st_uid, path.string()};
}

std::optional<Folder> Folder::sub(const std::string& name) const {
    File file(openat(file_.fd(), name.c_str(), directory | O_NOFOLLOW));
    if (file) return Folder(std::move(file), owner_, shown(name));
    if (errno == ENOENT) return {};
    if (errno == ELOOP || errno == ENOTDIR) errno = ENOTDIR;  // a symbolic link is none
    fail(shown(name));
}

Folder Folder::make(const std::string& name) const {
    if (mkdirat(file_.fd(), name.c_str(), 0777) != 0 && errno != EEXIST) fail(shown(name));
    auto made = sub(name);
    if (made) return std::move(*made);
    errno = ENOENT;
    fail(shown(name));
}

Folder Folder::make_private(const std::string& name) const {
    remove(name);
    if (mkdirat(file_.fd(), name.c_str(), 0700) != 0) fail(shown(name));
    auto made = sub(name);
    struct stat about;
    // Between the two calls another user may have put something else there.
    if (!made || fstat(made->file_.fd(), &about) != 0 || about.st_uid != geteuid() || (about.st_mode & 077) != 0) {
        errno = EPERM;
        fail(shown(name));
    }
    return std::move(*made);
}

File Folder::open_file(const std::string& name, std::string& why) const {
    // A named pipe would block without O_NONBLOCK.
    File file(openat(file_.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat about;
    if (!file || fstat(file.fd(), &about) != 0) {
        why = fmt::format("{}: {}", shown(name), errno == ELOOP ? "a symbolic link, which is not followed" : std::strerror(errno));
        return {};
    }
    if (!S_ISREG(about.st_mode)) {
        why = fmt::format("{}: not a regular file", shown(name));
        return {};
    }
    if (about.st_uid != owner_ && about.st_uid != geteuid()) {
        why = fmt::format("{}: belongs to another user than the experiment: not read", shown(name));
        return {};
    }
    return file;
}

File Folder::open_file(const std::string& name) const {
    std::string why;
    return open_file(name, why);
}

bool Folder::has(const std::string& name) const {
    struct stat about;
    return fstatat(file_.fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
}

std::vector<std::string> Folder::folders() const {
    auto names = names_in(file_.fd());
    std::erase_if(names, [&](const std::string& name) {
        struct stat about;
        return fstatat(file_.fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(about.st_mode);
    });
    std::sort(names.begin(), names.end());
    return names;
}

void Folder::move_to(const std::string& name, const Folder& other) const {
    if (renameat(file_.fd(), name.c_str(), other.file_.fd(), name.c_str()) != 0) fail(other.shown(name));
}

void Folder::take(const std::string& path, const std::string& name) const {
    if (renameat(AT_FDCWD, path.c_str(), file_.fd(), name.c_str()) != 0) fail(shown(name));
}

void Folder::remove(const std::string& name) const noexcept {
    try {
        remove_in(file_.fd(), name, 0);
    } catch (...) {  // no memory for names
    }
}

std::string Folder::reach() const {
    return fmt::format("/proc/self/fd/{}", file_.fd());
}

std::string Folder::shown(const std::string& name) const {
    return name.empty() ? shown_ : fmt::format("{}/{}", shown_, name);
}

std::string text_of(const Folder& folder, const std::string& name, size_t most) {
    const File file = folder.open_file(name);
    std::string text(std::min<uint64_t>(file.size(), most), '\0');
    text.resize(text.empty() ? 0 : read_at(file, text.data(), text.size(), 0));
    return text;
}

std::string text_of(const std::filesystem::path& folder, const std::string& name, size_t most) {
    try {
        return text_of(Folder::open(folder), name, most);
    } catch (const std::system_error&) {
        return {};
    }
}

}  // namespace polter::seal
