// SPDX-License-Identifier: BSD-3-Clause
// A program given as data: blocks of phases, each block repeated. test/truth/random_program.py writes such programs; their text has one
// line a block (`block REPEAT`) or phase (`KIND key=value …`). Every phase works on any number of ranks and cannot deadlock, whatever its
// values are, so that a program may be made smaller at will.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../recorder/recorder.hpp"

namespace polter::truth {

struct PhaseDescription {
    std::string kind;
    uint64_t id = 0;             // key of all that is drawn: phases keep theirs when others are dropped
    int64_t compute_ns = 0;      // mean of one iteration on one rank
    double imbalance = 0;        // half width of its spread over iterations, relative
    double skew = 0;             // half width of its spread over ranks, which stays
    double overlap = 0;          // share that is computed while communication is under way
    int64_t bytes = 8;           // the largest message, or part of a collective
    double spread = 0;           // messages have between bytes * (1 - spread) and bytes
    int root = 0, distance = 1;  // taken modulo the number of ranks
    int count = 1;               // messages of a burst, mean number of neighbours, tasks for each worker
    int groups = 1;              // sub-communicators that the ranks are split into
    bool strided = false;        // … of every groups-th rank, not of neighbours
    bool synchronous = false;    // Ssend, Issend
    bool rotate = false;         // the root changes with each iteration
};

struct Block {
    int64_t repeat = 1;
    std::vector<PhaseDescription> phases;
};

// Throws std::runtime_error, saying what is wrong with the file.
std::vector<Block> read_program(const std::string& file);

// What every rank runs between MPI_Init and MPI_Finalize.
void run_program(const std::vector<Block>&);

// A phase on one rank. Construction and destruction may communicate; all ranks do both in the same order.
class Phase {
  public:
    explicit Phase(const PhaseDescription&);
    virtual ~Phase();
    Phase(const Phase&) = delete;
    virtual void run(int64_t iteration) = 0;

    const PhaseDescription& is;
    MPI_Comm comm = MPI_COMM_WORLD;
    int rank = 0, size = 1, world = 0;  // in `comm`; in MPI_COMM_WORLD

    int tag() const { return 16 + static_cast<int>(is.id); }  // those below are the farms'
    bool alone() const { return size < 2; }
    int offset() const { return 1 + (is.distance - 1) % (size - 1); }  // never to oneself
    int root(int64_t iteration) const { return static_cast<int>((is.root + (is.rotate ? iteration : 0)) % size); }
    double drawn(uint64_t a, uint64_t b) const { return draw(is.id, a, b); }
    int bytes(int64_t iteration, int sender) const;  // of a message that both of its ends know
    void work(int64_t iteration, double share = 1, uint64_t part = 0) const;

    // What messages hold does not matter: all ranks send from one place and receive at another.
    static char *out, *in;
    static void make_room(int64_t bytes);
};

using MakePhase = std::unique_ptr<Phase>(const PhaseDescription&);
using PhaseKinds = std::map<std::string, MakePhase*>;
const PhaseKinds& message_phases();     // random_messages.cpp: point-to-point, completed in program order
const PhaseKinds& choice_phases();      // random_choices.cpp: what the program does next depends on time
const PhaseKinds& collective_phases();  // random_collectives.cpp
const PhaseKinds& window_phases();      // random_windows.cpp

// A phase without state of its own.
using Step = void(const Phase&, int64_t iteration);
template <Step* step>
std::unique_ptr<Phase> plain(const PhaseDescription& description) {
    struct Plain : Phase {
        using Phase::Phase;
        void run(int64_t iteration) override { step(*this, iteration); }
    };
    return std::make_unique<Plain>(description);
}
template <class P>
std::unique_ptr<Phase> with_state(const PhaseDescription& description) {
    return std::make_unique<P>(description);
}

}  // namespace polter::truth
