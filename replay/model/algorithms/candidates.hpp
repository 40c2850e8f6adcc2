// SPDX-License-Identifier: BSD-3-Clause
// Which algorithms a collective may be using.
#pragma once

#include <cstdint>
#include <vector>

#include "decisions.hpp"
#include "replay/trace/mpi_calls.hpp"
#include "schedule.hpp"

namespace polter::replay {

// Exchanges of all with all where sizes may differ between members.
bool varies_by_member(uint8_t operation);

// What an operation waits for where it is taken for an algorithm. No rank has MPI work after MPI_Finalize, so it counts as N-to-N. So do
// v-forms, unless one showed otherwise.
Waits structural_waits(uint8_t operation, Waits waits);

// Of one class of collectives. `data`: all bytes that it moves, once (the vector of a reduction, the blocks of all members together);
// unknown: where sizes may differ between members.
struct CollectiveKind {
    uint8_t operation = 0;
    Waits waits = Waits::for_nobody;
    bool nonblocking = false;
    uint64_t data = 0;
    bool links_apart = false;       // mutations for the tests: messages never share links
    bool usual_calls_tell = false;  // … an algorithm is fitted from what calls usually take, alone
    bool by_member = false;    // each instance says what each member's part is (BlockSizes); `data`: of one of them
    // What costs "for all data" are for, in bytes.
    uint64_t scale() const { return by_member ? BlockSizes::unit : data; }
    static constexpr uint64_t unknown = UINT64_MAX;
};

// Whether the records say how long each member's part is, and the algorithms whose. Of blocking ones.
bool has_sizes_by_member(uint8_t operation);

// … between the root and each member: who only sends then goes on once all have come, by whose records its messages are known.
bool has_sizes_by_root(uint8_t operation);

// … what each pair of members exchanges (BlockSizes::of_pairs). Its algorithms have many messages of as many lengths, so each is looked at
// in fewer instances and for fewer eager limits than others, and where members are too many, sizes are not followed.
bool has_sizes_by_pair(uint8_t operation);
constexpr size_t most_members_in_pairs = 64;

// From the size as the trace records it for a member that is not the root.
uint64_t data_of(uint8_t operation, uint64_t size, uint32_t members);

struct Candidate {
    Pattern pattern;
    double handicap = 1;   // its error counts so many times as much: what no MPI uses for this needs better evidence
    bool decided = false;  // by the rules of the library: these come first
};
std::vector<Candidate> candidates(const CollectiveKind&, uint32_t members, Library library = Library::unknown);

// From which part of the data on (in millionths) a message could be a rendezvous. `sizes`: where each instance has its own.
std::vector<int64_t> eager_limits(const Pattern&, const CollectiveKind&, uint32_t members, const std::vector<const BlockSizes*>& sizes = {});

// Whether a member sends or receives several messages at once that are long enough for the others' sake to be later.
bool long_enough_to_share(const Pattern&, const CollectiveKind&, uint32_t members, const std::vector<const BlockSizes*>& sizes);

}  // namespace polter::replay
