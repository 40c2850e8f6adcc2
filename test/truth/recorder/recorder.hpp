// SPDX-License-Identifier: BSD-3-Clause
// The recorder: MPI wrappers that keep what a rank does on the simulated machine, and the model of the processor it does it on.
// SMPI runs all ranks as actors of one process and one thread, so state is global and needs no locks.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "event.hpp"

namespace polter::truth {

struct Settings {
    uint64_t seed = 1;
    std::string command;                // for the trace
    std::vector<NoiseSource> noise;     // what the trace has accounts for
    bool cold = false;                  // the machine is not set up before the program begins, see rank_begins()
    bool quiet = false;                 // none of it hits: the truth
    std::string detailed, counters;     // directories of the archives to write; empty: none
    std::vector<std::string> habits;    // names: the archives are written again for each, to DIRECTORY-HABIT
    int64_t call_overhead_ns = 200;     // work at the beginning of each MPI call
    int64_t message_overhead_ns = 500;  // work at each end of each message, those inside collectives too
    double byte_overhead_ns = 0.02;     // and for each of its bytes
    double instructions_per_ns = 0;     // of computing: the traces have them as a counter; 0: they do not
    struct Delay {                      // before a call returns, as a disturbed network would; no noise, so no trace records it
        double probability = 0;
        int64_t mean_ns = 0, sigma_ns = 0;
        uint64_t seed = 1;
    } delay;
};

// Called by each rank before MPI_Init, with the same settings.
void configure(const Settings&);

// Computes: takes `ns` of unstolen processor time.
void compute(int64_t ns);

// A number in [0, 1) that depends on nothing but the seed and the three keys, so it is the same with and without noise.
double draw(uint64_t a, uint64_t b, uint64_t c);

// What follows is for the wrappers.

struct Pending {  // a request that has not completed
    enum class What { send, receive, collective, transfer } what = What::send;
    uint64_t id = 0;
    Event completion;  // of a collective: all but the time
    MPI_Comm comm = MPI_COMM_NULL;
};

struct PersistentRequest {  // between its starts
    Pending::What what;
    Event event;  // that each start records
    MPI_Comm comm;
};

struct Window {
    uint32_t id = 0;
    std::vector<int> started, posted;  // ranks, while the epoch lasts
    struct Transfer {
        int target;
        uint64_t id;
    };
    std::vector<Transfer> outstanding;  // that no synchronisation has completed
};

struct Rank {
    int world = 0;
    Processor processor;
    Recording::Rank* recorded = nullptr;
    std::unordered_map<MPI_Request, Pending> pending;
    std::unordered_map<MPI_Request, PersistentRequest> persistent;
    uint64_t next_request = 0;
    std::unordered_map<MPI_Comm, uint32_t> communicators;
    std::unordered_map<uint32_t, uint32_t> creations;  // collective creations so far, by parent
    std::unordered_map<MPI_Win, Window> windows;
    std::unordered_map<uint32_t, uint32_t> window_creations;  // by communicator
    uint64_t calls = 0;                                       // that have ended
    double instructions = 0;
};

Rank& rank_here();
uint32_t comm_id(Rank&, MPI_Comm);
void comm_created(Rank&, MPI_Comm parent, MPI_Comm made);

uint32_t window_created(Rank&, MPI_Comm);  // gives its id

// One MPI call: Enter when made, Leave when destroyed. ended() fixes the time of Leave: not before the rank has its processor back.
class Call {
  public:
    explicit Call(Region);
    ~Call();
    Call(const Call&) = delete;

    void ended();
    void began(Event);      // a record at Enter's time
    void completed(Event);  // a record at Leave's time; ended() was called
    void found(Event);      // by a probe: what its Leave tells
    Rank& rank() { return rank_; }

    // Records of a request that has completed, and forgets it.
    void completed(MPI_Request, const MPI_Status&);

  private:
    Rank& rank_;
    Region region_;
    int64_t enter_, leave_ = -1;
    Event last_;
};

// Around MPI_Init and MPI_Finalize. Before the first, and before any noise, the communicators are set up that SMPI builds for its own
// use in a program's first collectives: some N messages, which no trace of MPI calls can show.
void rank_begins();
void rank_ends();

}  // namespace polter::truth
