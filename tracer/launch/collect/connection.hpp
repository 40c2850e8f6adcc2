// SPDX-License-Identifier: BSD-3-Clause
// Lines and bytes over a socket, with a limit to the other side's silence. Throws Error.
#pragma once

#include <cstddef>
#include <string>

#include "protocol.hpp"

namespace polter::launch::collect {

class Connection {
  public:
    explicit Connection(int socket) : socket_(socket) {}
    ~Connection();
    Connection(const Connection&) = delete;

    std::string line(int patience_s = silence_s);
    // Some of what comes, at least a byte.
    size_t read(char* to, size_t most);
    void write(const char* from, size_t size);
    void write_line(const std::string& text) { write((text + "\n").data(), text.size() + 1); }

  private:
    size_t fill(int patience_s);

    int socket_;
    std::string come_;  // and not taken yet
};

}  // namespace polter::launch::collect
