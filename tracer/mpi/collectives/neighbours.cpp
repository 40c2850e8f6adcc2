// SPDX-License-Identifier: BSD-3-Clause
#include "neighbours.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

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

// The communicator's local id; false: not followed. At its first neighbourhood collective its neighbours go to the sidecar.
bool neighbourhood(MPI_Comm comm, uint32_t& id) {
    const TableLock lock;
    Comm* known = process.comms->find(comm);
    if (!known) return false;
    id = known->id;
    if (known->neighbours) return true;
    known->neighbours = true;
    const Neighbours neighbours = neighbours_of(comm, known->rank);
    process.archive->define({{"comm", known->id}, {"in", neighbours.in}, {"out", neighbours.out}});
    return true;
}

// What its completion has to know.
Request request_of(MPI_Comm comm) {
    Request request;
    if (!neighbourhood(comm, request.collective.comm)) return request;
    request.kind = Request::collecting;
    request.unlisted = trace::operation_neighbours;
    request.collective.op = static_cast<OTF2_CollectiveOp>(trace::operation_neighbours);
    return request;
}

}  // namespace

NeighbourCollective::NeighbourCollective(Call& call, MPI_Comm comm) : call_(call) {
    if (call) known_ = neighbourhood(comm, comm_);
}

void NeighbourCollective::end(int) {
    if (!call_) return;
    call_.come_back();
    known_ ? call_.leave_on(comm_) : call_.leave();
}

NeighbourRequest::NeighbourRequest(Call& call, MPI_Comm comm, RequestVariables request) : Begins(call, request) {
    if (!call) return;
    request_ = request_of(comm);
    if (request_.kind == Request::nothing) return;
    request_.id = new_request_id();
    call.at().collective_request(call.entered(), request_.id, request_.collective.comm, request_.unlisted);
}

NeighbourInit::NeighbourInit(Call& call, MPI_Comm comm, RequestVariables request) : Begins(call, request) {
    if (call) request_ = request_of(comm);
    request_.persistent = true;
    request_.active = false;
}

}  // namespace polter::mpi::handler
