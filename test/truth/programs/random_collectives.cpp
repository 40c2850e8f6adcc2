// SPDX-License-Identifier: BSD-3-Clause
// One collective a phase: blocking, or begun before a part of the work and completed after it.
#include "random.hpp"

namespace polter::truth {

namespace {

// The arguments of any collective of a phase.
struct Arguments {
    MPI_Comm comm;
    int root, count;
    char *out = Phase::out, *in = Phase::in;
    std::vector<int> counts, places;                                  // by rank: one block for each
    std::vector<int> counts_to, places_to, counts_from, places_from;  // by rank: one block for each pair

    Arguments(const Phase& p, int64_t i) : comm(p.comm), root(p.root(i)), count(static_cast<int>(p.is.bytes)) {
        const auto between = [&](int from, int to) { return p.bytes(1, from * p.size + to); };
        int end = 0, end_to = 0, end_from = 0;
        for (int r = 0; r < p.size; ++r) {
            append(counts, places, end, p.bytes(0, r));
            append(counts_to, places_to, end_to, between(p.rank, r));
            append(counts_from, places_from, end_from, between(r, p.rank));
        }
        own = counts[p.rank];
    }
    int own;

  private:
    static void append(std::vector<int>& counts, std::vector<int>& places, int& end, int count) {
        counts.push_back(count);
        places.push_back(end);
        end += count;
    }
};

// Blocking without a place for the request.
using Operation = void(const Arguments&, MPI_Request*);

void barrier(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Ibarrier(a.comm, r) : MPI_Barrier(a.comm);
}

void bcast(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Ibcast(a.out, a.count, MPI_CHAR, a.root, a.comm, r) : MPI_Bcast(a.out, a.count, MPI_CHAR, a.root, a.comm);
}

void reduce(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Ireduce(a.out, a.in, a.count, MPI_CHAR, MPI_MAX, a.root, a.comm, r)
                 : MPI_Reduce(a.out, a.in, a.count, MPI_CHAR, MPI_MAX, a.root, a.comm);
}

void allreduce(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Iallreduce(a.out, a.in, a.count, MPI_CHAR, MPI_MAX, a.comm, r)
                 : MPI_Allreduce(a.out, a.in, a.count, MPI_CHAR, MPI_MAX, a.comm);
}

void scan(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Iscan(a.out, a.in, a.count, MPI_CHAR, MPI_MAX, a.comm, r)
                 : MPI_Scan(a.out, a.in, a.count, MPI_CHAR, MPI_MAX, a.comm);
}

void exscan(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Iexscan(a.out, a.in, a.count, MPI_CHAR, MPI_MAX, a.comm, r)
                 : MPI_Exscan(a.out, a.in, a.count, MPI_CHAR, MPI_MAX, a.comm);
}

void gather(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Igather(a.out, a.count, MPI_CHAR, a.in, a.count, MPI_CHAR, a.root, a.comm, r)
                 : MPI_Gather(a.out, a.count, MPI_CHAR, a.in, a.count, MPI_CHAR, a.root, a.comm);
}

void scatter(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Iscatter(a.out, a.count, MPI_CHAR, a.in, a.count, MPI_CHAR, a.root, a.comm, r)
                 : MPI_Scatter(a.out, a.count, MPI_CHAR, a.in, a.count, MPI_CHAR, a.root, a.comm);
}

void allgather(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Iallgather(a.out, a.count, MPI_CHAR, a.in, a.count, MPI_CHAR, a.comm, r)
                 : MPI_Allgather(a.out, a.count, MPI_CHAR, a.in, a.count, MPI_CHAR, a.comm);
}

void alltoall(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Ialltoall(a.out, a.count, MPI_CHAR, a.in, a.count, MPI_CHAR, a.comm, r)
                 : MPI_Alltoall(a.out, a.count, MPI_CHAR, a.in, a.count, MPI_CHAR, a.comm);
}

void reduce_scatter_block(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Ireduce_scatter_block(a.out, a.in, a.count, MPI_CHAR, MPI_MAX, a.comm, r)
                 : MPI_Reduce_scatter_block(a.out, a.in, a.count, MPI_CHAR, MPI_MAX, a.comm);
}

void reduce_scatter(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Ireduce_scatter(a.out, a.in, a.counts.data(), MPI_CHAR, MPI_MAX, a.comm, r)
                 : MPI_Reduce_scatter(a.out, a.in, a.counts.data(), MPI_CHAR, MPI_MAX, a.comm);
}

void gatherv(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Igatherv(a.out, a.own, MPI_CHAR, a.in, a.counts.data(), a.places.data(), MPI_CHAR, a.root, a.comm, r)
                 : MPI_Gatherv(a.out, a.own, MPI_CHAR, a.in, a.counts.data(), a.places.data(), MPI_CHAR, a.root, a.comm);
}

void scatterv(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Iscatterv(a.out, a.counts.data(), a.places.data(), MPI_CHAR, a.in, a.own, MPI_CHAR, a.root, a.comm, r)
                 : MPI_Scatterv(a.out, a.counts.data(), a.places.data(), MPI_CHAR, a.in, a.own, MPI_CHAR, a.root, a.comm);
}

void allgatherv(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Iallgatherv(a.out, a.own, MPI_CHAR, a.in, a.counts.data(), a.places.data(), MPI_CHAR, a.comm, r)
                 : MPI_Allgatherv(a.out, a.own, MPI_CHAR, a.in, a.counts.data(), a.places.data(), MPI_CHAR, a.comm);
}

void alltoallv(const Arguments& a, MPI_Request* r) {
    r != nullptr ? MPI_Ialltoallv(a.out, a.counts_to.data(), a.places_to.data(), MPI_CHAR, a.in, a.counts_from.data(), a.places_from.data(),
                                  MPI_CHAR, a.comm, r)
                 : MPI_Alltoallv(a.out, a.counts_to.data(), a.places_to.data(), MPI_CHAR, a.in, a.counts_from.data(), a.places_from.data(),
                                 MPI_CHAR, a.comm);
}

template <Operation* operation>
void blocking(const Phase& p, int64_t i) {
    p.work(i);
    operation(Arguments(p, i), nullptr);
}

template <Operation* operation>
void nonblocking(const Phase& p, int64_t i) {
    p.work(i, 1 - p.is.overlap);
    const Arguments arguments(p, i);
    MPI_Request request;
    operation(arguments, &request);
    p.work(i, p.is.overlap, 1);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

template <Operation* operation>
void add(PhaseKinds& kinds, const std::string& name) {
    kinds[name] = plain<blocking<operation>>;
    kinds["i" + name] = plain<nonblocking<operation>>;
}

}  // namespace

const PhaseKinds& collective_phases() {
    static const PhaseKinds kinds = [] {
        PhaseKinds made;
        add<barrier>(made, "barrier");
        add<bcast>(made, "bcast");
        add<reduce>(made, "reduce");
        add<allreduce>(made, "allreduce");
        add<scan>(made, "scan");
        add<exscan>(made, "exscan");
        add<gather>(made, "gather");
        add<scatter>(made, "scatter");
        add<allgather>(made, "allgather");
        add<alltoall>(made, "alltoall");
        add<reduce_scatter_block>(made, "reduce_scatter_block");
        add<reduce_scatter>(made, "reduce_scatter");
        add<gatherv>(made, "gatherv");
        add<scatterv>(made, "scatterv");
        add<allgatherv>(made, "allgatherv");
        add<alltoallv>(made, "alltoallv");
        return made;
    }();
    return kinds;
}

}  // namespace polter::truth
