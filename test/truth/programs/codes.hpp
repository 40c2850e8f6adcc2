// SPDX-License-Identifier: BSD-3-Clause
// Communication of published codes and benchmarks: which MPI calls, in which order, with which partners and relative sizes. One iteration
// is one step of the code. `compute_ns` is a rank's computing in one iteration, `bytes` the longest message of its halo or one block.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "programs.hpp"

namespace polter::truth {

// By name, of all codes_*.cpp.
const std::map<std::string, Program*>& codes();

// One rank of a code: its work, its buffers and its requests.
class Code {
  public:
    // `longest`: bytes of the longest message or buffer of a collective.
    Code(const Parameters&, int64_t longest);

    int rank() const { return here_.rank; }
    int size() const { return here_.size; }
    int bytes(double share = 1) const;  // of a message: at least 8

    void work(double share);  // of an iteration's computing

    // Partners that are MPI_PROC_NULL are skipped, as these codes do.
    void post(int from, int tag = 0);                     // MPI_Irecv
    void start(int to, int bytes, int tag = 0);           // MPI_Isend
    void send(int to, int bytes, int tag = 0);            // MPI_Send
    void receive(int from, int tag = 0);                  // MPI_Recv
    void wait_receives();                                 // MPI_Waitall
    void wait_sends();                                    // MPI_Waitall
    void wait_all();                                      // one MPI_Waitall for receives and sends
    void wait_each();                                     // MPI_Wait for each receive, in the order of posting
    void shift(int to, int from, int bytes);              // MPI_Sendrecv
    void exchange(int to, int from, int bytes);           // MPI_Irecv, MPI_Send, MPI_Wait
    void sum(int bytes, MPI_Comm comm = MPI_COMM_WORLD);  // MPI_Allreduce

    std::vector<MPI_Request> receives;
    std::vector<char> in, out;

  private:
    const Parameters& parameters_;
    Here here_;
    double lasting_;  // how much slower this rank is in all of the run
    int64_t stretches_ = 0;
    std::vector<MPI_Request> sends_;
};

// Of a block in three dimensions: the up to 26 blocks that touch it, on a grid without periodic boundaries.
struct Neighbour {
    int rank;
    int axes;         // in how many coordinates it differs: 1 a face, 2 an edge, 3 a corner
    bool lower;       // it comes before this one in the order of coordinates
    int tag, answer;  // of what is sent there; of what comes from there
};
std::vector<Neighbour> touching_blocks(const Grid&);

// The part of a halo's bytes that a face, an edge or a corner has.
double share_of_halo(const Neighbour&);

Program npb_cg, npb_mg, npb_ft, npb_is, npb_lu, npb_bt;                     // codes_npb.cpp
Program lulesh, hpcg, minighost, cloverleaf, comd, minimd;                  // codes_domains.cpp
Program sweep3d, pipelined_cg, pencil_fft, bfs, amg, kmeans, summa, nbody;  // codes_solvers.cpp

}  // namespace polter::truth
