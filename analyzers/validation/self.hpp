// SPDX-License-Identifier: BSD-3-Clause
// Runs this program as a user would.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace polter::validation {

// Standard output and errors go to files in `folder`, whose names begin with `name`.
class SelfRun {
  public:
    SelfRun(const std::string& program, std::vector<std::string> words, const std::filesystem::path& folder, const std::string& name);
    ~SelfRun();  // stops it, if it was not waited for
    SelfRun(const SelfRun&) = delete;
    SelfRun& operator=(const SelfRun&) = delete;

    void interrupt() const;  // as Ctrl-C does
    // Waits for its end; its standard output. Throws launch::Error: its exit code, and the last of what it said.
    std::string output();

  private:
    std::filesystem::path out_, errors_;
    pid_t child_ = -1;
};

std::string text_of(const std::filesystem::path& file);

}  // namespace polter::validation
