// SPDX-License-Identifier: BSD-3-Clause
#include "output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "replay/base/error.hpp"
#include "replay/base/temporary.hpp"
#include "replay/trace/otf2_watchdog.hpp"

namespace polter::exports {

namespace fs = std::filesystem;
using replay::InputError;

OutputFile::OutputFile(const std::string& path, std::string shown) : shown_(std::move(shown)) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) fail(errno);
    buffer_.reserve(2 * full);
}

OutputFile::~OutputFile() {
    if (fd_ >= 0) ::close(fd_);
}

void OutputFile::fail(int error) const {
    throw InputError(fmt::format("{}: cannot be written ({}); make room, or name a file elsewhere with -o", shown_, std::strerror(error)));
}

void OutputFile::flush() {
    std::string_view rest = buffer_;
    while (!rest.empty()) {
        const ssize_t written = ::write(fd_, rest.data(), rest.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) fail(written < 0 ? errno : EIO);
        rest.remove_prefix(static_cast<size_t>(written));
    }
    buffer_.clear();
}

void OutputFile::close() {
    flush();
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) fail(errno);  // a network file system, or a quota, may refuse as late as here
}

namespace {

bool of_kind(const std::string& path, const std::string& mark) {
    std::array<char, 1024> head{};
    std::ifstream in(path, std::ios::binary);
    in.read(head.data(), head.size());
    const std::string_view read(head.data(), static_cast<size_t>(in.gcount()));
    return read.empty() || read.find(mark) != std::string_view::npos;
}

}  // namespace

Target::Target(const std::string& path, const Kind& kind) : directory_(kind.directory) {
    fs::path target = fs::path(path).lexically_normal();
    if (!target.has_filename()) target = target.parent_path();
    std::error_code error;
    if (!kind.directory && fs::is_symlink(target, error))
        if (const fs::path followed = fs::canonical(target, error); !error) target = followed;
    path_ = target.string();
    const fs::file_status there = fs::status(target, error);
    if (!fs::status_known(there)) throw InputError(fmt::format("{}: cannot be written ({})", path, error.message()));
    if (fs::exists(fs::symlink_status(target, error))) {
        const auto refuse = [&](const char* why) {
            throw InputError(fmt::format("{}: {}; name another place with -o, or remove it", path, why));
        };
        if (kind.directory) refuse("exists already, and nothing in it is overwritten");
        if (fs::is_directory(there)) refuse("is a directory");
        if (fs::is_block_file(there)) refuse("is a block device");
        in_place_ = fs::exists(there) && !fs::is_regular_file(there);
        if (fs::is_regular_file(there) && !of_kind(path_, kind.mark))
            refuse(fmt::format("exists and is no {} that polter export wrote, so it is not overwritten", kind.name).c_str());
    }
    work_ = (in_place_ ? replay::temporary_directory() + "/polter-export" : path_) + ".partial-XXXXXX";
    if (!mkdtemp(work_.data()))
        throw InputError(fmt::format("{}: cannot be made ({}); does the folder that it shall lie in exist, and may you write there?", path,
                                     std::strerror(errno)));
    if (replay::watch) replay::watch_path(replay::watch->unfinished, work_);
    if (kind.directory) fs::create_directory(work_ + "/made");
}

Target::~Target() {
    std::error_code ignored;
    fs::remove_all(work_, ignored);
    if (replay::watch) replay::watch_path(replay::watch->unfinished, "");
}

std::unique_ptr<OutputFile> Target::open(const std::string& name) {
    if (in_place_) return std::make_unique<OutputFile>(path_, path_);
    return std::make_unique<OutputFile>(directory_ ? work_ + "/made/" + name : work_ + "/made", directory_ ? path_ + "/" + name : path_);
}

void Target::commit() {
    if (in_place_) return;
    std::error_code error;
    fs::rename(work_ + "/made", path_, error);
    if (error) throw InputError(fmt::format("{}: cannot be written ({})", path_, error.message()));
}

}  // namespace polter::exports
