// SPDX-License-Identifier: BSD-3-Clause
// Compares the clocks of the job's hosts by messages between their leaders: at the end of MPI_Init, before MPI_Finalize, and where the user
// asks for it at collectives of all ranks. The sidecar gets all stamps; what follows from them is computed when sealing (../../clocks/).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../write/archive.hpp"
#include "../core/mpi.hpp"
#include "leaders.hpp"

namespace polter::mpi {

// How long a leader waits for another one's answer. Processes may come to MPI_Finalize at very different times.
inline constexpr uint64_t clocks_at_init_ns = 2'000'000'000, clocks_at_collective_ns = 2'000'000'000,
                          clocks_at_finalize_ns = 10'000'000'000;

class ClockExchange {
  public:
    // NULL: one clock, or this rank is not a leader. Collective over the leaders.
    static std::unique_ptr<ClockExchange> begin(const std::string& experiment, const std::string& world, int rank, int size,
                                                const std::string& clock);

    // Each leader with its parent and its children in a binomial tree. Gives up when a peer has not answered for `limit_ns`; nothing is
    // exchanged any more then. Returns the time that it took without the waiting for others to come.
    uint64_t run(write::Archive*, uint64_t limit_ns);
    // From now on also about every so often, see joint_collective.
    void repeat(uint64_t interval_ns);
    bool repeats() const { return interval_ns_ != 0; }
    // All ranks have taken part in a collective that ends for none before all have begun it. All leaders count these, and the first one
    // says at which count they come together: there it decides whether clocks are compared, and when they come together next. Returns the
    // time that it took.
    uint64_t joint_collective(write::Archive*, uint64_t limit_ns);
    // Gives the communicator back.
    void end();

  private:
    explicit ClockExchange(Leaders);
    bool make_communicator();
    bool run_by_datagrams(write::Archive*, uint64_t limit_ns);
    bool run_by_mpi(write::Archive*, uint64_t limit_ns);
    void tell(write::Archive*, int parent, const std::vector<ClockStamps>&) const;
    bool ask(int parent, uint64_t limit_ns, write::Archive*);
    bool answer(int child, uint64_t limit_ns);
    bool wait(MPI_Request&, uint64_t limit_ns);
    bool send(const void* words, int count, int to, uint64_t limit_ns);
    bool receive(void* words, int count, int from, uint64_t limit_ns);
    bool spread(uint64_t (&words)[2], uint64_t limit_ns);  // from the first leader to all
    int leaders() const { return static_cast<int>(leaders_.members.size()); }

    Leaders leaders_;
    const int self_, parent_;  // positions among them
    const std::vector<int> children_;
    // By datagrams:
    std::vector<Datagrams::Peer> child_peers_;
    Datagrams::Peer parent_peer_;
    uint64_t round_ = 0;
    // Else:
    MPI_Comm comm_{};
    bool works_ = true;
    uint64_t spent_ns_ = 0;

    uint64_t interval_ns_ = 0;  // 0: not at collectives
    uint64_t collectives_ = 0, next_ = 1;
    uint64_t compared_at_ns_ = 0;                     // the first leader's: when clocks were compared last,
    uint64_t met_at_ns_ = 0, met_at_collective_ = 0;  // and when and where the leaders came together last
};

}  // namespace polter::mpi
