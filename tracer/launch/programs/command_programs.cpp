// SPDX-License-Identifier: BSD-3-Clause
#include "command_programs.hpp"

#include <algorithm>
#include <fstream>
#include <span>
#include <sstream>

#include "flavour.hpp"
#include "shell_words.hpp"
#include "starters.hpp"

namespace polter::launch {
namespace {

using Words = std::span<const std::string>;
constexpr int deepest = 16;
constexpr size_t most_programs = 256;

bool is_program(const std::string& word) {
    return find_program(word).has_value();
}

// What stands behind "#!", as the kernel reads it but for blanks within the argument. Empty: no script.
std::vector<std::string> interpreter_line(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    char start[256] = "";
    file.read(start, sizeof start - 1);
    std::string line(start, static_cast<size_t>(file.gcount()));
    if (!line.starts_with("#!")) return {};
    std::istringstream text(line.substr(2, line.find('\n') - 2));
    std::vector<std::string> words;
    for (std::string word; text >> word;)
        if (word != "-S") words.push_back(word);
    return words;
}

class Follower {
  public:
    CommandPrograms run(Words command) {
        follow(command, 0);
        return std::move(out_);
    }

  private:
    void follow(Words words, int depth) {
        // The shell's own words may stand in front of a command.
        while (!words.empty() && (words.front().find('=') != std::string::npos || is_reserved(words.front()))) {
            if (depth == 0) break;
            words = words.subspan(1);
        }
        if (words.empty() || depth > deepest || out_.programs.size() >= most_programs) return;
        const auto* starter = find_starter(words.front());
        const auto path = find_program(words.front());
        if (!path && !(starter && starter->kind == StarterKind::wrapper && depth > 0)) return;  // "exec" is the shell's own
        if (!starter) return program(*path, depth);
        switch (starter->kind) {
            case StarterKind::mpi_launcher:
                if (out_.launcher.empty()) {
                    out_.launcher = *path;
                    out_.is_launched = out_.programs.empty();
                }
                return launched(*starter, words, depth);
            case StarterKind::other_launcher:
            case StarterKind::wrapper: {
                const auto at = program_at(*starter, words, is_program);
                const auto before = out_.programs.size() + !out_.launcher.empty();
                follow(words.subspan(at), depth + 1);
                if (path && out_.programs.size() + !out_.launcher.empty() == before) add(*path, *path, true);
                return;
            }
            case StarterKind::shell:
                return shell(*path, words, depth);
            case StarterKind::interpreter:
                return add(*path, *path, true);
        }
    }

    static bool is_reserved(const std::string& word) {
        for (const char* known : {"if", "then", "else", "elif", "while", "until", "do", "{"})
            if (word == known) return true;
        return false;
    }

    // "mpirun -n 1 A : -n 1 B"
    void launched(const Starter& starter, Words words, int depth) {
        std::vector<std::string> part{words.front()};
        for (size_t i = 1; i <= words.size(); ++i) {
            if (i < words.size() && words[i] != ":") {
                part.push_back(words[i]);
                continue;
            }
            follow(Words(part).subspan(program_at(starter, part, is_program)), depth + 1);
            part.resize(1);
        }
    }

    void shell(const std::string& path, Words words, int depth) {
        add(path, path, true);
        if (words.size() > 1 && words[0].ends_with("busybox")) words = words.subspan(1);
        bool text = false;
        size_t at = 1;
        for (; at < words.size() && words[at].size() > 1 && words[at].front() == '-'; ++at) {
            text |= !words[at].starts_with("--") && words[at].find('c') != std::string::npos;
            if (words[at] == "-o" || words[at] == "-O" || words[at] == "--rcfile" || words[at] == "--init-file") ++at;
        }
        if (!text || at >= words.size()) return;
        for (const auto& simple : shell_commands(words[at], words.subspan(at + 1))) follow(simple, depth + 1);
    }

    void program(const std::string& path, int depth) {
        const auto line = interpreter_line(path);
        if (line.empty()) return add(path, path, false);
        // Its interpreter is the program; the script gives the name.
        const auto first = out_.programs.size();
        follow(line, std::max(depth, 1) + 1);
        if (out_.programs.size() == first) return add(path, path, true);
        out_.programs.resize(first + 1);
        out_.programs.back().path = path;
        out_.programs.back().starts_others = true;
    }

    void add(const std::string& path, const std::string& file, bool starts_others) {
        if (out_.programs.size() < most_programs) out_.programs.push_back({path, file, starts_others});
    }

    CommandPrograms out_;
};

}  // namespace

CommandPrograms programs_of(const std::vector<std::string>& command) {
    return Follower().run(command);
}

std::optional<std::vector<std::string>> with_other_program(const std::vector<std::string>& command, const std::vector<std::string>& program,
                                                           const std::vector<std::string>& options) {
    Words rest = command;
    const Starter* starter = nullptr;
    for (int depth = 0; depth < deepest && !rest.empty(); ++depth) {
        starter = find_starter(rest.front());
        if (!starter || starter->kind != StarterKind::wrapper) break;
        rest = rest.subspan(program_at(*starter, rest, is_program));
    }
    if (rest.empty() || !starter || (starter->kind != StarterKind::mpi_launcher && starter->kind != StarterKind::other_launcher)) return {};
    std::vector<std::string> out(command.begin(), command.end() - static_cast<long>(rest.size()) + 1);
    for (size_t begin = 1; begin <= rest.size();) {
        size_t end = begin;
        while (end < rest.size() && (starter->kind != StarterKind::mpi_launcher || rest[end] != ":")) ++end;
        std::vector<std::string> part{rest.front()};
        part.insert(part.end(), rest.begin() + static_cast<long>(begin), rest.begin() + static_cast<long>(end));
        const auto at = program_at(*starter, part, is_program);
        if (at >= part.size()) return {};
        if (begin > 1) out.push_back(":");
        out.insert(out.end(), options.begin(), options.end());
        out.insert(out.end(), part.begin() + 1, part.begin() + static_cast<long>(at));
        out.insert(out.end(), program.begin(), program.end());
        begin = end + 1;
    }
    return out;
}

}  // namespace polter::launch
