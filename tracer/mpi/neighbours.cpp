// SPDX-License-Identifier: BSD-3-Clause
#include "neighbours.hpp"

#include <algorithm>

namespace polter::mpi::handler {
namespace {

struct Neighbours {
    std::vector<int> in, out;  // ranks in the communicator
};

Neighbours neighbours_of(MPI_Comm comm, int rank) {
    Neighbours found;
    int topology = MPI_UNDEFINED;
    pmpi.Topo_test(comm, &topology);
    if (topology == MPI_DIST_GRAPH) {
        int in = 0, out = 0, weighted = 0;
        pmpi.Dist_graph_neighbors_count(comm, &in, &out, &weighted);
        found.in.resize(static_cast<size_t>(in));
        found.out.resize(static_cast<size_t>(out));
        // MPI_UNWEIGHTED is a variable of the library in one MPI: room for weights serves both.
        std::vector<int> in_weights(found.in.size() + 1), out_weights(found.out.size() + 1);
        pmpi.Dist_graph_neighbors(comm, in, found.in.data(), in_weights.data(), out, found.out.data(), out_weights.data());
    } else if (topology == MPI_GRAPH) {
        int count = 0;
        pmpi.Graph_neighbors_count(comm, rank, &count);
        found.in.resize(static_cast<size_t>(count));
        pmpi.Graph_neighbors(comm, rank, count, found.in.data());
        found.out = found.in;
    } else if (topology == MPI_CART) {
        int dimensions = 0;
        pmpi.Cartdim_get(comm, &dimensions);
        for (int d = 0; d < dimensions; d++) {
            int before = MPI_PROC_NULL, behind = MPI_PROC_NULL;
            pmpi.Cart_shift(comm, d, 1, &before, &behind);
            found.in.insert(found.in.end(), {before, behind});
        }
        found.out = found.in;
    }
    for (std::vector<int>* list : {&found.in, &found.out}) {
        std::erase(*list, MPI_PROC_NULL);
        std::sort(list->begin(), list->end());
        list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    return found;
}

}  // namespace

NeighbourCollective::NeighbourCollective(Call& call, MPI_Comm comm) : call_(call) {
    if (!call) return;
    const TableLock lock;
    Comm* known = process.comms->find(comm);
    if (!known) return;
    known_ = true;
    comm_ = known->id;
    if (known->neighbours) return;
    known->neighbours = true;
    const Neighbours neighbours = neighbours_of(comm, known->rank);
    process.archive->define({{"comm", known->id}, {"in", neighbours.in}, {"out", neighbours.out}});
}

void NeighbourCollective::end(int) {
    if (!call_) return;
    call_.come_back();
    known_ ? call_.leave_on(comm_) : call_.leave();
}

}  // namespace polter::mpi::handler
