// SPDX-License-Identifier: BSD-3-Clause
// How polter-collect gives the files of a node to polter run. Text lines end with a newline; sizes are in bytes.
//
//     collect 1 TOKEN HOST      from the node; what does not begin so is hung up on
//     go                        from polter run: it is this node's turn
//     file SIZE PATH            and then SIZE bytes. PATH: RANK_FOLDER/NAME or RANK_FOLDER/traces/NAME
//     end                       all files have been sent, which may be none
//     taken                     from polter run: they are in the experiment directory, and the node's may go
//     failed REASON             or: they are not
#pragma once

#include <cstddef>
#include <string>

namespace polter::launch::collect {

inline constexpr const char* program = "polter-collect";
inline constexpr size_t longest_line = 4096;
inline constexpr int hello_s = 5;     // until who has connected says that it is ours: others wait meanwhile
inline constexpr int silence_s = 60;  // of the other side, after which it is given up
inline constexpr int turn_s = 1800;   // the same until it is a node's turn

// What polter run tells polter-collect, in POLTER_COLLECT. Not on its command line: others can read that.
struct Invitation {
    std::string addresses;  // "10.0.0.1,192.168.1.1", of the launcher's host
    int port = 0;
    std::string token, job;

    std::string text() const { return addresses + ";" + std::to_string(port) + ";" + token + ";" + job; }
};

}  // namespace polter::launch::collect
