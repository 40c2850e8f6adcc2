// SPDX-License-Identifier: BSD-3-Clause
#include "self.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "launch.hpp"

namespace polter::validation {

std::string text_of(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

SelfRun::SelfRun(const std::string& program, std::vector<std::string> words, const std::filesystem::path& folder, const std::string& name)
    : out_(folder / (name + ".out")), errors_(folder / (name + ".err")) {
    words.insert(words.begin(), program);
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    child_ = fork();
    if (child_ < 0) throw launch::Error(fmt::format("{}: cannot be started: {}", program, std::strerror(errno)));
    if (child_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int a = open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), b = open(errors_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(a, STDOUT_FILENO);
    dup2(b, STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
}

SelfRun::~SelfRun() {
    if (child_ < 0) return;
    kill(child_, SIGTERM);
    waitpid(child_, nullptr, 0);
}

void SelfRun::interrupt() const {
    if (child_ > 0) kill(child_, SIGINT);
}

std::string SelfRun::output() {
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text_of(out_);
    const std::string said = text_of(errors_);
    throw launch::Error(
        fmt::format("a run of the validation failed ({}): {}",
                    WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status)) : fmt::format("exit code {}", WEXITSTATUS(status)),
                    said.substr(said.size() > 1000 ? said.size() - 1000 : 0)));
}

}  // namespace polter::validation
