// SPDX-License-Identifier: BSD-3-Clause
// Which details this process records. Details are what no other process depends on: user regions, counters, and calls of MPI functions
// that are local (mpi_regions.hpp). All other calls and the noise are always recorded, since a message without its partner, or noise of
// which only a part is known, would make the replay wrong. Detail is switched off by MPI_Pcontrol, or by what `polter run` was told.
// Of local functions those that cannot wait are left out from the beginning, unless it was told to record them.
#pragma once

#include <array>
#include <atomic>
#include <mpi_regions.hpp>
#include <nlohmann/json_fwd.hpp>

#include "../../write/clock.hpp"

namespace polter::mpi {

class Detail {
  public:
    // From the environment, as this rank begins. `began_ns`: where its trace begins.
    void begin(uint32_t rank, uint64_t began_ns);

    // Everything is recorded: the common case, one load.
    bool whole() const { return !reduced_.load(std::memory_order_relaxed); }
    bool on() const { return whole() || on_now(); }
    // A local function that is not recorded: its wrapper does nothing else then.
    bool leaves_out(uint32_t function) const { return excluded_[function]; }
    bool wanted(uint32_t function) const { return !excluded_[function] && on(); }

    // MPI_Pcontrol: 0 off, 1 on; all other levels leave it as it is.
    void set_level(int level, uint64_t time);
    // Which functions are left out, and what else polter run switched off, as a line of the sidecar; null: nothing.
    nlohmann::ordered_json restrictions() const;
    // How long MPI_Pcontrol had it switched off.
    uint64_t pcontrol_ns(uint64_t until) const;

  private:
    bool on_now() const;

    std::atomic<bool> reduced_{false};
    std::atomic<bool> off_{false};  // by MPI_Pcontrol
    std::atomic<uint64_t> off_since_{0}, off_ns_{0};
    bool restricted_ = false;  // to ranks or a time, by what polter run was told
    bool other_rank_ = false;  // this rank is to be without
    uint64_t from_ns_ = 0, until_ns_ = UINT64_MAX, began_ns_ = 0;
    std::array<bool, trace::region_count> excluded_{};
};

}  // namespace polter::mpi
