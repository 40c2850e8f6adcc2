// SPDX-License-Identifier: BSD-3-Clause
// What the algorithms are put together from: messages, and exchanges of all members in rounds.
#pragma once

#include <utility>
#include <vector>

#include "schedule.hpp"

namespace polter::replay {

// What a message carries.
struct Load {
    Load(double part) : share(part) {}
    Load(double part, Blocks of) : share(part), blocks(of) {}
    double share;
    Blocks blocks;
};

class Builder {
  public:
    using Kind = Schedule::Kind;
    static constexpr uint32_t no_partner = UINT32_MAX;

    Builder(uint32_t members, uint32_t root, bool rendezvous) : members_(members), root_(root), rendezvous_(rendezvous) {
        schedule_.steps.resize(members);
    }
    uint32_t members() const { return members_; }
    uint32_t root() const { return root_; }  // its place
    uint32_t messages() const { return static_cast<uint32_t>(schedule_.shares.size()); }  // so far
    double part() const { return 1.0 / members_; }
    Load parts(uint32_t first, uint32_t count = 1) const { return {count * part(), {first % members_, count}}; }

    uint32_t send(uint32_t from, uint32_t to, const Load& load) {
        const auto message = static_cast<uint32_t>(schedule_.shares.size());
        schedule_.shares.push_back(load.share);
        schedule_.blocks.push_back(load.blocks);
        schedule_.ends.emplace_back(from, to);
        schedule_.steps[from].push_back({message, to, Kind::send, 1});
        return message;
    }
    void post(uint32_t message, uint32_t from, uint32_t at) {
        if (rendezvous_) schedule_.steps[at].push_back({message, from, Kind::post, 1});
    }
    void receive(uint32_t message, uint32_t from, uint32_t at) { schedule_.steps[at].push_back({message, from, Kind::receive, 1}); }
    void complete(uint32_t message, uint32_t to, uint32_t at) {
        if (rendezvous_) schedule_.steps[at].push_back({message, to, Kind::complete, 1});
    }
    void await_transfers() {
        for (auto& steps : schedule_.steps) steps.push_back({0, 0, Kind::transfers, 1});
    }
    // A blocking send and its receive.
    void pass(uint32_t from, uint32_t to, const Load& load) {
        const uint32_t message = send(from, to, load);
        complete(message, to, from);
        receive(message, from, to);
    }
    // The receives at `place` from step `first` on are taken as their messages come.
    void as_they_come(uint32_t place, size_t first) {
        auto& steps = schedule_.steps[place];
        if (first < steps.size()) steps[first].together = static_cast<uint32_t>(steps.size() - first);
    }
    size_t position(uint32_t place) const { return schedule_.steps[place].size(); }

    // Each member sends `load(member)` to `to(member)` and receives, both under way at once; no_partner: stands aside.
    template <class To, class Carries>
    void round(To to, Carries load) {
        std::vector<uint32_t> message(members_, 0), from(members_, no_partner), sent(members_, 0), partner(members_);
        for (uint32_t member = 0; member < members_; ++member) {
            partner[member] = to(member);
            if (partner[member] == no_partner) continue;
            sent[member] = message[partner[member]] = send(member, partner[member], load(member));
            from[partner[member]] = member;
        }
        for (uint32_t member = 0; member < members_; ++member) {
            if (from[member] != no_partner) post(message[member], from[member], member);
            if (from[member] != no_partner) receive(message[member], from[member], member);
            if (partner[member] != no_partner) complete(sent[member], partner[member], member);
        }
    }
    // The same where all send equally much.
    template <class To>
    void round_of(double share, To to) {
        round(to, [&](uint32_t) { return share; });
    }

    Schedule take();

  private:
    uint32_t members_, root_;
    bool rendezvous_;
    Schedule schedule_;
};

// Each appends its steps.
std::vector<uint32_t> children(uint32_t place, Shape, uint32_t members);  // those with most below them first (not the strided one's)
void tree_up(Builder&, Shape, Cargo, double all = 1);  // `all`: which part of the data all of it is
void tree_down(Builder&, Shape, Cargo, double all = 1);
void in_rounds(Builder&, Shape, Cargo);
void by_halves(Builder&, Shape);
void to_everyone(Builder&, Shape, Cargo);
void tree_up_in_segments(Builder&, Shape, double segment);  // `segment`: the part of the data in one
void tree_down_in_segments(Builder&, const Pattern&, uint32_t root);
void split(Builder&, Shape, Shape broadcast, const Partition*);
void set_up_all(Builder&, uint32_t root);  // `root`: the member at place 0

}  // namespace polter::replay
