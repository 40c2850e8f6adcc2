// SPDX-License-Identifier: BSD-3-Clause
// The stack of regions outside MPI calls. Regions that are never left must not fill the memory: below a fixed depth they are only counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "call_sites.hpp"

namespace polter::replay {

inline constexpr uint32_t unnamed_region = UINT32_MAX;     // an MPI record outside of all regions
inline constexpr uint32_t no_region = unnamed_region - 1;  // outside of all regions; in a Place: no MPI call

// Where something happened: in an MPI call (`operation`) that was made from `caller`, or in `caller` itself. `call_site`: of the call.
struct Place {
    uint32_t operation = no_region, caller = no_region, call_site = no_call_site;
    auto operator<=>(const Place&) const = default;
};

class RegionStack {
  public:
    void enter(uint32_t region) {
        if (kept_.size() < deepest)
            kept_.push_back(region);
        else
            ++below_;
    }
    void leave() {
        if (below_ > 0)
            --below_;
        else if (!kept_.empty())
            kept_.pop_back();
    }
    void stand_in(uint32_t region) { kept_.assign(1, region); }
    uint32_t innermost() const { return kept_.empty() ? no_region : kept_.back(); }

  private:
    static constexpr size_t deepest = 1024;
    std::vector<uint32_t> kept_;
    size_t below_ = 0;
};

}  // namespace polter::replay
