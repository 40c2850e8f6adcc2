// SPDX-License-Identifier: BSD-3-Clause
// A directory held by its descriptor, and what is directly in it: no rename or symbolic link of another process leads an operation
// elsewhere. Every name is one component, so O_NOFOLLOW is all that openat2's RESOLVE_BENEATH would give, on every kernel.
//
// Throws std::system_error unless it says otherwise.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace polter::seal {

// Owns a file descriptor; -1: none.
class File {
  public:
    File() = default;
    explicit File(int fd) : fd_(fd) {}
    File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    File& operator=(File&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~File();
    explicit operator bool() const { return fd_ >= 0; }
    int fd() const { return fd_; }
    uint64_t size() const;  // 0 where there is none

  private:
    int fd_ = -1;
};

// Reads up to `size` bytes at `offset`; fewer at the end or on error.
size_t read_at(const File&, void* to, size_t size, uint64_t offset);

class Folder {
  public:
    // The experiment itself. A symbolic link that the caller named is followed; who owns what it leads to is asked of the descriptor.
    static Folder open(const std::filesystem::path&);

    std::optional<Folder> sub(const std::string& name) const;  // unset: there is no such directory
    Folder make(const std::string& name) const;                // makes it where it is missing
    Folder make_private(const std::string& name) const;        // removes what is there; nobody else can enter the new one
    File open_file(const std::string& name,
                   std::string& why) const;  // a regular file of the experiment's owner or the caller's; does not throw
    File open_file(const std::string& name) const;
    bool has(const std::string& name) const;  // whatever it is
    std::vector<std::string> folders() const;
    void move_to(const std::string& name, const Folder& other) const;
    void take(const std::string& path, const std::string& name) const;  // `path` must be below a reach()
    void remove(const std::string& name) const noexcept;                // with all that is in it, as far as possible

    // A path that leads here whatever is renamed, for libraries that want paths. In this process and its children.
    std::string reach() const;
    uid_t owner() const { return owner_; }  // of the experiment
    std::string shown(const std::string& name = {}) const;

  private:
    Folder(File&& file, uid_t owner, std::string shown) : file_(std::move(file)), owner_(owner), shown_(std::move(shown)) {}
    File file_;
    uid_t owner_;
    std::string shown_;
};

// The beginning of a file in `folder`, at most `most` bytes; empty where it cannot be read. Does not throw.
std::string text_of(const Folder& folder, const std::string& name, size_t most);
std::string text_of(const std::filesystem::path& folder, const std::string& name, size_t most);

}  // namespace polter::seal
