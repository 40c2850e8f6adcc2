// SPDX-License-Identifier: BSD-3-Clause
// Sources: Open MPI 4.1, ompi/mca/coll/tuned/coll_tuned_decision_fixed.c; MPICH 3.4, the default sizes of src/mpi/coll and Thakur,
// Rabenseifner, Gropp (2005); SimGrid 3.32, smpi_default_selector. Open MPI's rules for more than 512 members are merged.
#include "decisions.hpp"

#include <otf2/otf2.h>

#include <algorithm>

#include "candidates.hpp"

namespace polter::replay {

namespace {

constexpr uint64_t any = UINT64_MAX;

constexpr Pattern up(Shape shape, Cargo cargo = Cargo::all) {
    return {.up = shape, .cargo_up = cargo};
}
constexpr Pattern down(Shape shape, Cargo cargo = Cargo::all) {
    return {.down = shape, .cargo_down = cargo};
}
constexpr Pattern up_down(Shape first, Shape second, Cargo cargo_up = Cargo::all, Cargo cargo_down = Cargo::all) {
    return {first, second, false, cargo_up, cargo_down};
}
constexpr Pattern parts(Shape shape) {
    return up(shape, Cargo::parts);
}

// The first row that a collective fits into decides. Bytes: of the vector, or of one member's block.
struct Rule {
    uint64_t members_below, bytes_below;
    Pattern pattern;
};

template <size_t n>
void decide(const Rule (&rules)[n], uint64_t bytes, uint32_t members, std::vector<Pattern>* list) {
    for (const Rule& rule : rules)
        if (members < rule.members_below && bytes < rule.bytes_below) return list->push_back(rule.pattern);
}

constexpr Pattern doubling = up(Shape::recursive_doubling), rabenseifner = up(Shape::halving_doubling), two_rings = parts(Shape::ring_twice),
                  reduce_bcast = up_down(Shape::binomial, Shape::binomial);

constexpr Rule open_mpi_allreduce[] = {
    {4, 8, two_rings},        {4, 4096, doubling},        {4, 8192, two_rings},         {4, 16384, doubling},       {4, 262144, two_rings},
    {4, any, rabenseifner},   {8, 16, two_rings},         {16, 8192, doubling},         {16, any, rabenseifner},    {32, 64, two_rings},
    {32, 4096, doubling},     {32, any, rabenseifner},    {64, 128, two_rings},         {64, any, rabenseifner},    {128, 262144, doubling},
    {128, any, rabenseifner}, {256, 131072, reduce_bcast}, {256, 262144, doubling},     {512, 4096, reduce_bcast},  {512, any, rabenseifner},
    {any, 2048, reduce_bcast}, {any, 16384, doubling},    {any, any, rabenseifner},
};

constexpr Pattern linear_exchange = parts(Shape::everyone), bruck_exchange = parts(Shape::bruck_exchange), pairwise = parts(Shape::pairwise);
constexpr Rule open_mpi_alltoall[] = {
    {8, 524288, linear_exchange},  {8, 1048576, pairwise},        {16, any, linear_exchange},      {32, 4, linear_exchange},
    {32, 512, bruck_exchange},     {32, any, linear_exchange},    {64, 512, bruck_exchange},       {64, any, linear_exchange},
    {256, 1024, bruck_exchange},   {256, 262144, linear_exchange}, {256, any, pairwise},           {any, 512, bruck_exchange},
    {any, 131072, linear_exchange}, {any, any, pairwise},
};

constexpr Pattern linear_barrier = up_down(Shape::linear, Shape::linear);
constexpr Rule open_mpi_barrier[] = {
    {4, any, up(Shape::fold_upper)}, {8, any, linear_barrier}, {64, any, up(Shape::fold_upper)}, {256, any, up(Shape::dissemination)},
    {any, any, up(Shape::dissemination)},
};

constexpr Pattern basic_bcast = down(Shape::linear), pipeline = down(Shape::chain), binary = down(Shape::binary_by_levels),
                  binomial = down(Shape::binomial), knomial = down(Shape::quaternomial), scattered = down(Shape::scatter_doubling);
constexpr Rule open_mpi_bcast[] = {
    {4, 32, pipeline},     {4, 256, binary},     {4, 512, pipeline},     {4, 1024, knomial},      {4, 32768, basic_bcast},
    {4, 131072, binary},   {8, 64, binary},      {8, 128, binomial},     {8, 2048, binary},       {8, 8192, binomial},
    {8, 1048576, basic_bcast}, {16, 8, knomial}, {16, 64, binary},       {16, 4096, knomial},     {16, 16384, binary},
    {16, 32768, binomial}, {16, any, basic_bcast}, {32, 4096, knomial},  {32, 1048576, binomial}, {32, any, scattered},
    {64, 2048, binomial},  {128, any, knomial},  {256, 2, binomial},     {256, 16384, binary},    {any, any, knomial},
};

constexpr Pattern basic_reduce = up(Shape::linear_descending), chains = up(Shape::two_chains_a_pair), binary_up = up(Shape::binary_by_levels),
                  binomial_up = up(Shape::binomial);
constexpr Rule open_mpi_reduce[] = {
    {4, 8, basic_reduce},     {4, 16, binary_up},    {4, 32, up(Shape::chain)}, {4, 262144, basic_reduce}, {8, 4096, binary_up},
    {8, 65536, chains},       {8, 262144, binomial_up}, {8, 524288, basic_reduce}, {8, 1048576, binomial_up}, {16, 8192, binary_up},
    {16, any, binomial_up},   {32, 4096, binary_up}, {any, any, binomial_up},
};

constexpr Pattern halving = up(Shape::halving), butterfly = up(Shape::butterfly), reduce_ring = up(Shape::ring, Cargo::theirs),
                  reduce_scatterv = up_down(Shape::binomial, Shape::linear, Cargo::all, Cargo::parts);
constexpr Rule open_mpi_reduce_scatter[] = {
    {4, any, reduce_ring},    {8, 8, reduce_scatterv}, {32, 262144, halving},       {32, any, reduce_ring}, {64, 64, reduce_scatterv},
    {64, 2048, halving},      {64, 524288, butterfly}, {64, any, reduce_ring},      {128, 256, reduce_scatterv}, {128, 512, halving},
    {128, 262144, butterfly}, {128, any, reduce_ring}, {any, 512, reduce_scatterv}, {any, any, reduce_ring},
};

constexpr Rule open_mpi_allgather[] = {
    {32, any, parts(Shape::doubling_all)},         {64, 1024, parts(Shape::doubling_all)}, {64, 65536, parts(Shape::neighbour_exchange)},
    {256, 512, parts(Shape::doubling_all)},        {256, 65536, parts(Shape::neighbour_exchange)}, {any, 1024, parts(Shape::doubling_all)},
    {any, 131072, parts(Shape::neighbour_exchange)}, {any, any, parts(Shape::ring)},
};

constexpr Pattern gather_bcast = up_down(Shape::linear_ascending, Shape::binomial, Cargo::parts), bruck = parts(Shape::bruck),
                  neighbours = parts(Shape::neighbour_exchange), ring = parts(Shape::ring);
constexpr Rule open_mpi_allgatherv[] = {
    {3, 2048, ring},           {3, 4096, parts(Shape::pairwise)}, {3, 8192, ring},    {3, any, parts(Shape::pairwise)},
    {8, 256, gather_bcast},    {8, 4096, neighbours}, {8, 8192, ring},  {8, 16384, neighbours}, {8, 262144, bruck},   {8, any, neighbours},
    {16, 1024, gather_bcast},  {16, any, bruck},      {32, 128, gather_bcast}, {32, 262144, bruck},  {32, any, ring},
    {64, 256, gather_bcast},   {64, 8192, bruck},     {64, any, ring},  {128, 256, gather_bcast}, {128, 4096, bruck},  {128, any, ring},
    {256, 1024, bruck},        {256, 65536, neighbours}, {256, any, ring}, {512, 1024, bruck},  {512, any, ring},
    {any, 4096, bruck},        {any, any, neighbours},
};

constexpr Pattern linear_gather = up(Shape::linear_ascending, Cargo::parts), binomial_gather = up(Shape::binomial, Cargo::parts);
constexpr Rule open_mpi_gather[] = {
    {4, 2, linear_gather},     {4, 32768, binomial_gather}, {4, 65536, linear_gather},  {8, 1024, binomial_gather},
    {8, 8192, linear_gather},  {8, 32768, binomial_gather}, {8, any, linear_gather},    {any, any, binomial_gather},
};

constexpr Pattern linear_scatter = down(Shape::linear_by_turns, Cargo::parts), binomial_scatter = down(Shape::binomial, Cargo::parts),
                  scatter_at_once = down(Shape::linear_ascending, Cargo::parts);
constexpr Rule open_mpi_scatter[] = {
    {4, any, linear_scatter},   {8, 2048, binomial_scatter},   {8, 4096, linear_scatter},   {8, 8192, binomial_scatter},
    {8, any, linear_scatter},   {32, 16384, binomial_scatter}, {32, any, linear_scatter},   {64, 512, binomial_scatter},
    {64, 8192, linear_scatter}, {64, 16384, binomial_scatter}, {any, 512, binomial_scatter}, {any, any, linear_scatter},
};

// Of long data in longer ones: a pipeline of many pieces takes as long, and each of them is evaluated.
constexpr uint64_t most_segments = 64;

constexpr Pattern in_segments(Pattern pattern, uint64_t segment, uint64_t data) {
    segment = std::max(segment, (data + most_segments - 1) / most_segments);
    pattern.segment = segment < data ? static_cast<uint32_t>(segment * one_segment / data) : one_segment;
    return pattern;
}

// SMPI's reductions by Open MPI's rules.
Pattern smpi_segments(const Pattern& pattern, uint64_t data, uint32_t members) {
    constexpr uint64_t kb = 1024;
    if (pattern == binary_up) return in_segments(pattern, 32 * kb, data);
    if (pattern == chains) return in_segments(pattern, 64 * kb, data);
    const bool small = (members < 8 && data < 20 * kb) || data < 2 * kb;
    const bool cut = !small && members > 0.6016 / kb * static_cast<double>(data) + 1.3496;
    return in_segments(pattern, cut ? kb : data, data);
}

// SMPI's broadcasts by Open MPI's rules: for "basic linear" it has a chain and for the binary tree another one, both from member 0 and for
// 8 KiB at a time; what is left over is a broadcast of its own.
Pattern smpi_broadcast(const Pattern& pattern, uint64_t data, uint32_t members) {
    constexpr uint64_t segment = 8192;
    Pattern made = pattern;
    if (pattern == basic_bcast || pattern == pipeline) made.down = Shape::chain;
    if (pattern == binary) made.down = Shape::binary;
    if (made.down != Shape::chain && made.down != Shape::binary) return pattern;
    made.relay = true;
    if (data <= segment) return made;
    made = in_segments(made, segment, data);
    if (data % segment == 0 || data / segment >= most_segments) return made;
    std::vector<Pattern> rest;
    decide(open_mpi_bcast, data % segment, members, &rest);
    const Pattern last = smpi_broadcast(rest.front(), data % segment, members);
    made.rest = last.down;
    made.rest_relay = last.relay;
    return made;
}

void open_mpi(const CollectiveKind& kind, uint32_t members, std::vector<Pattern>* list) {
    const uint64_t block = kind.data / members;
    switch (kind.operation) {
        case OTF2_COLLECTIVE_OP_ALLREDUCE:
            return decide(open_mpi_allreduce, kind.data, members, list);
        case OTF2_COLLECTIVE_OP_ALLTOALL:
            return decide(open_mpi_alltoall, block, members, list);
        case OTF2_COLLECTIVE_OP_BARRIER:
            return decide(open_mpi_barrier, 0, members, list);
        case OTF2_COLLECTIVE_OP_BCAST:
            decide(open_mpi_bcast, kind.data, members, list);
            return list->push_back(smpi_broadcast(list->back(), kind.data, members));
        case OTF2_COLLECTIVE_OP_REDUCE:
            decide(open_mpi_reduce, kind.data, members, list);
            if (list->back() == basic_reduce) return;
            list->push_back(smpi_segments(list->back(), kind.data, members));
            (list->end() - 2)->segment = one_segment;
            return;
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER:
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK:
            return decide(open_mpi_reduce_scatter, kind.data, members, list);
        case OTF2_COLLECTIVE_OP_ALLGATHER:
            return decide(open_mpi_allgather, block, members, list);
        case OTF2_COLLECTIVE_OP_ALLGATHERV:
            return decide(open_mpi_allgatherv, block, members, list);
        case OTF2_COLLECTIVE_OP_GATHER:
            return decide(open_mpi_gather, block, members, list);
        case OTF2_COLLECTIVE_OP_GATHERV:
            return list->push_back(up(Shape::linear_ascending, Cargo::parts));
        case OTF2_COLLECTIVE_OP_SCATTER:
            return decide(open_mpi_scatter, block, members, list);
        case OTF2_COLLECTIVE_OP_SCATTERV:
            return list->push_back(down(Shape::linear_by_turns, Cargo::parts));
        default:
            return;
    }
}

void mpich(const CollectiveKind& kind, uint32_t members, std::vector<Pattern>* list) {
    const bool power = (members & (members - 1)) == 0;
    const uint64_t block = kind.data / members;
    switch (kind.operation) {
        case OTF2_COLLECTIVE_OP_ALLREDUCE:
            return list->push_back(kind.data <= 2048 ? doubling : rabenseifner);
        case OTF2_COLLECTIVE_OP_REDUCE:
            return list->push_back(kind.data < 2048 ? binomial_up : up(Shape::halving_gather));
        case OTF2_COLLECTIVE_OP_BARRIER:
            return list->push_back(up(Shape::dissemination));
        case OTF2_COLLECTIVE_OP_BCAST:
            if (kind.data < 12288 || members < 8) return list->push_back(binomial);
            return list->push_back(power && kind.data < 524288 ? scattered : down(Shape::scatter_ring));
        case OTF2_COLLECTIVE_OP_ALLTOALL:
            if (block <= 256 && members >= 8) return list->push_back(bruck_exchange);
            if (block <= 32768) return list->push_back(parts(Shape::everyone_by_32));
            return list->push_back(power ? parts(Shape::xor_pairwise) : pairwise);
        case OTF2_COLLECTIVE_OP_ALLGATHER:
        case OTF2_COLLECTIVE_OP_ALLGATHERV:
            if (power && kind.data < 524288) return list->push_back(parts(Shape::doubling_all));
            return list->push_back(parts(kind.data < 81920 ? Shape::bruck : Shape::ring));
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER:
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK:
            return list->push_back(kind.data < 524288 ? halving : up(Shape::pairwise, Cargo::theirs));
        case OTF2_COLLECTIVE_OP_GATHER:
            return list->push_back(binomial_gather);
        case OTF2_COLLECTIVE_OP_GATHERV:
            return list->push_back(up(Shape::linear, Cargo::parts));
        case OTF2_COLLECTIVE_OP_SCATTER:
            return list->push_back(binomial_scatter);
        case OTF2_COLLECTIVE_OP_SCATTERV:
            return list->push_back(down(Shape::linear_ascending, Cargo::parts));
        default:
            return;
    }
}

void smpi(const CollectiveKind& kind, std::vector<Pattern>* list) {
    switch (kind.operation) {
        case OTF2_COLLECTIVE_OP_ALLREDUCE:
            return list->push_back(up_down(Shape::linear, Shape::binomial));
        case OTF2_COLLECTIVE_OP_REDUCE:
            return list->push_back(up(Shape::linear));
        case OTF2_COLLECTIVE_OP_BARRIER:
            return list->push_back(linear_barrier);
        case OTF2_COLLECTIVE_OP_BCAST:
            return list->push_back(binomial);
        case OTF2_COLLECTIVE_OP_ALLTOALL:  // by default, and by its selectors that are named after MPIs
            list->push_back(linear_exchange);
            for (const Shape shape : {Shape::everyone_and_self, Shape::pairwise_from_self, Shape::xor_from_self}) list->push_back(parts(shape));
            return;
        case OTF2_COLLECTIVE_OP_ALLGATHER:
            return list->push_back(parts(Shape::everyone_by_number));
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER:
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK:
            list->push_back(up_down(Shape::linear, Shape::linear_ascending, Cargo::all, Cargo::parts));
            return list->push_back(up(Shape::doubling_all));  // by MPICH's rules
        case OTF2_COLLECTIVE_OP_GATHER:
        case OTF2_COLLECTIVE_OP_GATHERV:
            return list->push_back(up(Shape::linear, Cargo::parts));
        case OTF2_COLLECTIVE_OP_SCATTER:
        case OTF2_COLLECTIVE_OP_SCATTERV:
            return list->push_back(scatter_at_once);
        case OTF2_COLLECTIVE_OP_CREATE_HANDLE:
            for (const Shape gather : {Shape::split, Shape::split_from_tree, Shape::split_set_up})
                for (const Shape broadcast : {Shape::binomial, Shape::few_bytes_smpi}) list->push_back(up_down(gather, broadcast));
            return;
        default:
            return;
    }
}

// SMPI starts all messages of a non-blocking collective at once (smpi_nbc_impl.cpp); its barrier does not wait for all, so it is not here.
void smpi_nonblocking(const CollectiveKind& kind, std::vector<Pattern>* list) {
    switch (kind.operation) {
        case OTF2_COLLECTIVE_OP_BCAST:
            return list->push_back(down(Shape::linear_ascending));
        case OTF2_COLLECTIVE_OP_SCATTER:
        case OTF2_COLLECTIVE_OP_SCATTERV:
            return list->push_back(scatter_at_once);
        case OTF2_COLLECTIVE_OP_GATHER:
        case OTF2_COLLECTIVE_OP_GATHERV:
            return list->push_back(up(Shape::linear, Cargo::parts));
        case OTF2_COLLECTIVE_OP_REDUCE:
            return list->push_back(up(Shape::linear));
        case OTF2_COLLECTIVE_OP_ALLGATHER:
        case OTF2_COLLECTIVE_OP_ALLGATHERV:
            return list->push_back(parts(Shape::everyone_by_number));
        case OTF2_COLLECTIVE_OP_ALLREDUCE:
            return list->push_back(up(Shape::everyone_by_number));
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER:
        case OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK:
            return list->push_back(up(Shape::everyone_by_number, Cargo::theirs));
        case OTF2_COLLECTIVE_OP_ALLTOALL:
        case OTF2_COLLECTIVE_OP_ALLTOALLV:
        case OTF2_COLLECTIVE_OP_ALLTOALLW:
            return list->push_back(linear_exchange);
        case OTF2_COLLECTIVE_OP_SCAN:
        case OTF2_COLLECTIVE_OP_EXSCAN:
            return list->push_back(up(Shape::everyone_above));
        default:
            return;
    }
}

}  // namespace

std::optional<Library> library_named(std::string_view name, std::string_view version) {
    constexpr std::pair<std::string_view, Library> names[] = {
        {"openmpi", Library::open_mpi}, {"mpich", Library::mpich}, {"smpi", Library::smpi}, {"none", Library::none}};
    for (const auto& [known, library] : names)
        if (name == known) return library;
    if (name != "auto") return std::nullopt;
    if (version.starts_with("Open MPI")) return Library::open_mpi;
    return version.starts_with("MPICH") ? Library::mpich : Library::unknown;
}

// To create a window everybody tells all others where its memory is.
static std::vector<Pattern> of_window(Library library, uint32_t members) {
    constexpr uint64_t bytes = 8;
    std::vector<Pattern> list = decided(library, {OTF2_COLLECTIVE_OP_ALLGATHER, Waits::n_to_n, false, bytes * members}, members);
    for (Pattern& pattern : list) pattern.cargo_up = Cargo::all;  // as good as none
    return list;
}

std::vector<Pattern> decided(Library library, const CollectiveKind& kind, uint32_t members) {
    std::vector<Pattern> list;
    if (kind.operation == operation_fence || kind.operation == operation_window_free) {
        list = decided(library, {.operation = OTF2_COLLECTIVE_OP_BARRIER, .waits = Waits::n_to_n}, members);
        if (kind.operation == operation_fence) {  // a barrier before the transfers are complete, and one behind
            for (Pattern& pattern : list) pattern.twice = true;
            return list;
        }
        // A barrier; SMPI: two.
        const size_t once = list.size();
        for (size_t i = 0; i < once; ++i) list.push_back(list[i]), list.back().twice = true;
        return list;
    }
    if (kind.operation == operation_window) return of_window(library, members);
    if (kind.operation == operation_finalize) {  // MPI libraries synchronise by their process managers
        if (library != Library::smpi && library != Library::unknown) return list;
        return decided(library, {.operation = OTF2_COLLECTIVE_OP_BARRIER, .waits = Waits::n_to_n}, members);
    }
    if (kind.nonblocking) {
        if (library == Library::smpi || library == Library::unknown) smpi_nonblocking(kind, &list);
        return list;
    }
    if (kind.data == CollectiveKind::unknown) return list;
    if (library == Library::open_mpi || library == Library::unknown) open_mpi(kind, members, &list);
    if (library == Library::mpich || library == Library::unknown) mpich(kind, members, &list);
    if (library == Library::smpi || library == Library::unknown) smpi(kind, &list);
    return list;
}

}  // namespace polter::replay
