// SPDX-License-Identifier: BSD-3-Clause
// What became of a replay of a damaged archive, in a process with limits of time and memory.
#pragma once

#include <string>

namespace polter::test {

struct Verdict {
    enum class Kind {
        result,      // and it keeps its promises
        refused,     // InputError
        otf2_died,   // in the OTF2 library's own code
        otf2_stuck,  // there, without an end
        wrong,       // everything else: ours
    };
    Kind kind = Kind::wrong;
    std::string text;  // the error, or what is wrong
    bool warned = false;
};

// `write_approximated`: that is done too, into a directory beside it.
Verdict judge(const std::string& archive, bool write_approximated);

}  // namespace polter::test
