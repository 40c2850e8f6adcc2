// SPDX-License-Identifier: BSD-3-Clause
// Of traces without records of requests: the calls that begin and complete non-blocking messages, which only their names tell.
#pragma once

#include <cstdint>
#include <vector>

#include "definitions.hpp"

namespace polter::replay {

class RegionSet {  // of region references: asked for at each call
  public:
    void insert(uint32_t region) {
        if (region >= has_.size()) has_.resize(region + size_t{1});
        has_[region] = true;
    }
    bool contains(uint32_t region) const { return region < has_.size() && has_[region]; }

  private:
    std::vector<bool> has_;
};

struct MessageCalls {
    RegionSet post_receive, begin_send, begin_all, complete_all;  // begin_all: any number of both
};

MessageCalls message_calls(const Definitions&);  // mpi_calls.cpp

}  // namespace polter::replay
