// SPDX-License-Identifier: BSD-3-Clause
// Compares the clocks of the job's hosts by messages between their leaders, at the end of MPI_Init and before MPI_Finalize. The sidecar
// gets all stamps; what follows from them is computed when sealing (../../clocks/).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../write/archive.hpp"
#include "../core/mpi.hpp"

namespace polter::mpi {

class ClockExchange {
  public:
    // NULL: one clock, or this rank is not a leader. Collective over the leaders.
    static std::unique_ptr<ClockExchange> begin(const std::string& experiment, const std::string& world, int rank, int size,
                                                const std::string& clock);

    // Each leader with its parent and its children in a binomial tree, all pairs of a round at the same time. Gives up when a peer has not
    // answered for `limit_ns`; nothing is exchanged any more then. Returns
    // the time that it took without the waiting for others to come.
    uint64_t run(write::Archive*, uint64_t limit_ns);
    // Gives the communicator back.
    void end();

  private:
    explicit ClockExchange(std::vector<int> ranks) : ranks_(std::move(ranks)) {}
    bool ask(int parent, uint64_t limit_ns, write::Archive*);
    bool answer(int child, uint64_t limit_ns);
    bool wait(MPI_Request&, uint64_t limit_ns);
    bool send(uint64_t& stamp, int to, uint64_t limit_ns);

    std::vector<int> ranks_;  // of the leaders in MPI_COMM_WORLD
    int self_ = 0;            // position in it
    MPI_Comm comm_{};
    bool works_ = true;
    uint64_t spent_ns_ = 0;
};

}  // namespace polter::mpi
