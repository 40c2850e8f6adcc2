// SPDX-License-Identifier: BSD-3-Clause
// By which algorithm a collective is written as messages: the one that the replay learned, else the first that the MPI's rules name, else a
// dissemination.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "replay/model/model.hpp"

namespace polter::exports {

class GoalAlgorithms {
  public:
    // `mpi`: as the trace names it.
    GoalAlgorithms(const replay::Learned& learned, const std::string& mpi);

    struct Choice {
        std::optional<replay::Pattern> pattern;  // none: nobody waits for anybody
        bool learned = false;
    };
    const Choice& of(uint8_t operation, bool nonblocking, uint32_t members, uint64_t data);

  private:
    Choice choose(uint8_t operation, bool nonblocking, uint32_t members, uint64_t data) const;
    const replay::Learned& learned_;
    replay::Library library_;
    std::map<std::tuple<uint8_t, bool, uint32_t, uint64_t>, Choice> chosen_;
};

}  // namespace polter::exports
