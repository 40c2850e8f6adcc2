// SPDX-License-Identifier: BSD-3-Clause
// Which ranks compare the clocks of their hosts: one a clock. They must agree before they use MPI, because a rank that is not traced takes
// no part in anything: waiting for it would stop the program.
//
// They agree by files in the experiment directory (README.md, "Comparing clocks").
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "datagrams.hpp"
#include "meeting.hpp"

namespace polter::mpi {

struct LocalRank {
    int rank = -1, size = 0;  // on its node, as the launcher says; size 0: it does not say
};
LocalRank local_rank();

// Names the clock that this process reads: equal for processes that read the same one. Empty: not known.
std::string clock_name();

// Those who compare clocks, one a clock, in the order of their ranks in MPI_COMM_WORLD, and this one's position among them. None: this one
// does not.
struct Leaders {
    std::vector<Leader> members;
    int self = 0;
    // By what they exchange; NULL: by MPI. Then they have compared already, each with its parent.
    std::unique_ptr<Datagrams> datagrams;
    std::vector<ClockStamps> compared;
};
// In a binomial tree over positions. The first one has no parent: -1.
int parent_of(int position);
std::vector<int> children_of(int position, int members);  // the nearest first

// Waits for the first ranks of other nodes, some twice `limit_ns` at most. `world`: names this MPI_COMM_WORLD; a killed job may have had
// the same name. `confirms` false: a mutation, for the test that shows what confirming is for.
Leaders agree_on_leaders(const std::string& experiment, const std::string& world, int rank, int size, const std::string& clock,
                         uint64_t limit_ns, bool confirms = true);

}  // namespace polter::mpi
