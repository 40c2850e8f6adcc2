// SPDX-License-Identifier: BSD-3-Clause
// The simple commands in a shell's text, as far as they can be read without running it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace polter::launch {

// One list of words a simple command, in the order of the text. Quotes are removed, redirections and comments left out, "$0", "$1" … and
// "$@" replaced by `arguments` (what stands behind the text of `sh -c`, $0 first). A word that only running the shell would tell (other
// expansions) is empty. Reserved words stand as they are.
std::vector<std::vector<std::string>> shell_commands(std::string_view text, std::span<const std::string> arguments);

}  // namespace polter::launch
