// SPDX-License-Identifier: BSD-3-Clause
// The programs that start another one given on their command line, and where on it that stands. The one table of launchers and wrappers.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace polter::launch {

enum class StarterKind { wrapper, mpi_launcher, other_launcher, shell, interpreter };

struct Starter {
    StarterKind kind;
    std::string_view names;       // separated by blanks; NAME*: whatever begins so
    std::string_view one_value;   // options that take a word of their own, without their dashes
    std::string_view two_values;  // those that take two
    int operands = 0;             // plain words in front of the program
    bool assignments = false;     // NAME=VALUE may stand in front of the program
};

// By the file's name; null: it starts nothing that could be read from its command line.
const Starter* find_starter(const std::string& path);

// Index of the program in words[0] words[1] …, where words[0] is the starter itself; words.size() if there is none. `is_program` says
// whether a word leads to an executable: of an option that a launcher's table does not have, the next word is its value unless it does.
std::size_t program_at(const Starter&, std::span<const std::string> words, bool (*is_program)(const std::string&));

}  // namespace polter::launch
