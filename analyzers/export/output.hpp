// SPDX-License-Identifier: BSD-3-Clause
// Where an export goes: written under another name beside its target, and renamed at the end. After an error nothing is left.
//
// Throws InputError: what cannot be written, why, what to do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace polter::exports {

class OutputFile {
  public:
    // `shown`: its name in messages.
    OutputFile(const std::string& path, std::string shown);
    ~OutputFile();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    void write(std::string_view bytes) {
        buffer_ += bytes;
        bytes_ += bytes.size();
        if (buffer_.size() >= full) flush();
    }
    uint64_t bytes() const { return bytes_; }
    void close();

  private:
    static constexpr size_t full = 1 << 18;
    void flush();
    [[noreturn]] void fail(int error) const;
    std::string shown_, buffer_;
    uint64_t bytes_ = 0;
    int fd_ = -1;
};

class Target {
  public:
    // What an existing file must begin with, or hold near its beginning, to be replaced.
    struct Kind {
        std::string name;  // "Perfetto trace"
        std::string mark;
        bool directory = false;
    };
    // Refuses what exists and is not of this kind, directories that exist, and what cannot be written.
    Target(const std::string& path, const Kind& kind);
    ~Target();  // removes what is unfinished
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;

    const std::string& shown() const { return path_; }
    // A file of the export; `name` only where the target is a directory.
    std::unique_ptr<OutputFile> open(const std::string& name = "");
    // For what is needed meanwhile; a path that does not exist yet.
    std::string scratch(const std::string& name) const { return work_ + "/" + name; }
    void commit();

  private:
    std::string path_, work_;  // work_: the directory that holds everything until the end
    bool directory_ = false, in_place_ = false;
};

}  // namespace polter::exports
