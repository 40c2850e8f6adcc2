// SPDX-License-Identifier: BSD-3-Clause
// The sidecar: what a rank says about itself, one JSON object a line (../README.md has the format). Each line is one write(2) with
// O_APPEND, so that a kill leaves whole lines, and at most the last one torn.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace polter::write {

class Sidecar {
  public:
    // False on failure, with the reason. The file must not exist yet.
    bool open(const std::string& path, std::string& error);
    // False if the line could not be written whole; errno says why.
    bool line(const nlohmann::ordered_json& object);

  private:
    int file_ = -1;  // never closed: the process's end does that, and a forked child may still share it
};

}  // namespace polter::write
