// SPDX-License-Identifier: BSD-3-Clause
// Everybody sends to all others, or to all above, and takes theirs as they come.
#include "builder.hpp"

namespace polter::replay {

namespace {

// What one member does at a time: posts, sends, takes as they come, waits for its sends.
struct Portion {
    std::vector<uint32_t> from, to;
};

// `portions`: by member, then one after the other. A member meets each other one at most once.
void exchange(Builder& builder, const std::vector<std::vector<Portion>>& portions, Cargo cargo) {
    const uint32_t members = builder.members();
    // By sender and receiver. Messages are numbered by the order of sending; a receiver may come to its posts before.
    std::vector<std::vector<uint32_t>> sent(members, std::vector<uint32_t>(members));
    uint32_t next = builder.messages();
    for (uint32_t member = 0; member < members; ++member)
        for (const Portion& portion : portions[member])
            for (const uint32_t to : portion.to) sent[member][to] = next++;
    for (uint32_t member = 0; member < members; ++member)
        for (const Portion& portion : portions[member]) {
            for (const uint32_t from : portion.from) builder.post(sent[from][member], from, member);
            for (const uint32_t to : portion.to)
                builder.send(member, to, cargo == Cargo::all ? Load(1) : builder.parts(cargo == Cargo::theirs ? to : member));
            const size_t first = builder.position(member);
            for (const uint32_t from : portion.from) builder.receive(sent[from][member], from, member);
            builder.as_they_come(member, first);
            for (const uint32_t to : portion.to) builder.complete(sent[member][to], to, member);
        }
}

}  // namespace

void to_everyone(Builder& builder, Shape shape, Cargo cargo) {
    const uint32_t members = builder.members();
    const uint32_t portion = shape == Shape::everyone_by_4 || shape == Shape::everyone_and_self ? 4 : shape == Shape::everyone_by_32 ? 32 : members;
    std::vector<std::vector<Portion>> portions(members);
    for (uint32_t member = 0; member < members; ++member) {
        if (shape == Shape::everyone_by_number || shape == Shape::everyone_above) {
            Portion all;
            for (uint32_t other = 0; other < members; ++other) {
                if (other != member && (shape != Shape::everyone_above || other > member)) all.to.push_back(other);
                if (other != member && (shape != Shape::everyone_above || other < member)) all.from.push_back(other);
            }
            portions[member].push_back(std::move(all));
            continue;
        }
        // Backward from one's own number as Open MPI and MPICH do; oneself counts as the first.
        for (uint32_t first = 0; first < members; first += portion) {
            Portion some;
            const uint32_t least = shape == Shape::everyone_and_self ? 0 : 1;  // SMPI sends what is for oneself, too, as any other message
            for (uint32_t k = std::max(least, first); k < std::min(members, first + portion); ++k) {
                some.to.push_back((member + members - k) % members);
                some.from.push_back((member + k) % members);
            }
            portions[member].push_back(std::move(some));
        }
    }
    exchange(builder, portions, cargo);
}

}  // namespace polter::replay
