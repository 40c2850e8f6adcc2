// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>

namespace polter::replay {

// Hosts as numbers from 0 on.
class Hosts {
  public:
    uint32_t operator[](int32_t host) { return numbers_.try_emplace(host, static_cast<uint32_t>(numbers_.size())).first->second; }

  private:
    std::map<int32_t, uint32_t> numbers_;
};

}  // namespace polter::replay
