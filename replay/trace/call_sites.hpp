// SPDX-License-Identifier: BSD-3-Clause
// Call sites: where the program called MPI from, and the cost of the calls by site (tracer/README.md, Call sites).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace polter::replay {

inline constexpr uint32_t no_call_site = UINT32_MAX;

struct CallSite {
    std::string function, file;  // file: a path, empty where it is not known
    uint32_t line = 0;
    std::string text() const;  // "exchange (halo.c:123)"; the function alone where no line is known
};

// The column "called from": caller and call site, as far as known; long scopes are shortened.
std::string called_from(const std::string& caller, const std::string& call_site);

// Decodes the call sites of a location: the trace names one only where it differs from the site that followed the previous one last time.
class CallSiteReader {
  public:
    uint32_t follow(uint32_t named) {  // no_call_site: the record names none
        State& before = states_[last_];
        const uint32_t site = named == no_call_site ? before.next : named;
        if (site == before.next) {
            before.doubted = false;
        } else if (before.next == no_call_site || before.doubted) {
            before = {site, false};
        } else {
            before.doubted = true;
        }
        if (site == no_call_site) return site;
        last_ = size_t{site} + 1;
        if (states_.size() <= last_) states_.resize(last_ + 1);
        return site;
    }

  private:
    struct State {
        uint32_t next = no_call_site;
        bool doubted = false;  // the last prediction after this site was wrong
    };
    std::vector<State> states_ = std::vector<State>(1);  // by call site + 1; 0: before the first call
    size_t last_ = 0;
};

// Sums over all calls of one MPI function from one call site, on all ranks.
struct CallSiteSums {
    int64_t calls = 0, ns = 0;
    int64_t delay = 0;  // growth of the ranks' delays in these calls, with all noise removed; negative: wait states absorbed delay
};
using CallSiteCosts = std::map<std::pair<uint32_t, uint32_t>, CallSiteSums>;  // by region and call site

}  // namespace polter::replay
