// SPDX-License-Identifier: BSD-3-Clause
// How processes that cannot talk to each other yet find out, by files in one folder, which of them are there now. Whatever a killed job
// left in that folder, a decision names only processes that have answered a nonce of this meeting (README.md, "Comparing clocks").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace polter::mpi {

// "<rank>.<ranks on its node>.<nonce>.<address>.<clock>". The nonce tells it from a process of another job that had the same rank.
struct Leader {
    int rank = 0, on_node = 0;
    std::string nonce, address, clock;  // address: of its Datagrams, "" where it has none

    std::string text() const;
    bool operator==(const Leader&) const = default;
};

// 16 hexadecimal digits that no other process has.
std::string new_nonce();

class Meeting {
  public:
    // `folder` is made, with the one that it lies in.
    Meeting(std::string folder, Leader self) : folder_(std::move(folder)), self_(std::move(self)) {}

    // Makes this process's file. False: it cannot be, and this one takes no part.
    bool enter();

    // Who has entered, by rank. Of two with one rank, one may be a killed job's. `recently`: by the file system's clock.
    std::vector<Leader> present(bool recently) const;

    // The first proposal is everybody's. Its members show that they are there by a file with the proposal's nonce.
    struct Proposal {
        std::string nonce;
        std::vector<Leader> members;  // by rank
        bool has(const Leader&) const;
    };
    // Returns the nonce of what it proposes.
    std::string propose(const std::vector<Leader>&) const;
    std::optional<Proposal> proposed() const;
    // `by_datagrams`: this process needs no MPI for what follows. False: the file cannot be made.
    bool confirm(const Proposal&, bool by_datagrams) const;
    struct Agreement {
        std::vector<Leader> members;
        bool by_datagrams = false;  // for none of them MPI is needed
    };
    Agreement confirmed(const Proposal&) const;

    // The first decision is everybody's. Only who has confirmed may be in it, as those alone wait for it.
    void decide(const Proposal&, const Agreement&) const;
    std::optional<Agreement> decided(const Proposal&) const;

    const Leader& self() const { return self_; }

  private:
    void publish(const std::string& name, const std::string& text) const;
    std::optional<std::string> read(const std::string& name) const;

    std::string folder_, own_;
    Leader self_;
    long entered_ = 0;  // by the file system's clock, s
};

}  // namespace polter::mpi
