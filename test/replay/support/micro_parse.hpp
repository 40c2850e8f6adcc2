// SPDX-License-Identifier: BSD-3-Clause
// The language of micro/*.txt: a trace whose answer was computed by hand, beside that answer.
//
//     # why the answer is what it is
//     ranks 2                        hosts a b (optional)          accounts os:timer os:preempt        comm 1 0 2
//     property NAME VALUE            of the archive, without POLTER::
//     RANK TIME enter REGION
//     RANK TIME leave REGION [found SOURCE TAG COMM [any]]           … [polls N LAST GAP] failing polls in a row, as one call
//     RANK TIME noise ACCOUNT NS [CULPRIT]
//     RANK TIME send PEER TAG BYTES [sync|ready|buffered] [comm C]
//     RANK TIME isend PEER TAG BYTES REQUEST [sync|…] [comm C]       RANK TIME isend-complete REQUEST
//     RANK TIME irecv-request REQUEST [SOURCE TAG] [comm C]          (−1: any; without SOURCE TAG as foreign tools write it)
//     … part K: of the K-th partitioned request on that channel (isend, irecv-request; leave MPI_Parrived found SOURCE TAG COMM part K)
//     RANK TIME recv SOURCE TAG BYTES [any] [comm C]                 RANK TIME irecv SOURCE TAG BYTES REQUEST [comm C]
//     RANK TIME test REQUEST                                         RANK TIME cancelled REQUEST
//     RANK TIME begin                                                RANK TIME collective OPERATION ROOT BYTES [comm C]
//     RANK TIME request REQUEST [comm C [of neighbours|files]]                   RANK TIME complete OPERATION ROOT BYTES REQUEST [comm C]
//     window COMM                            (the next one)           RANK TIME leave REGION comm C   (a collective of files)
//     neighbours RANK COMM in RANKS out RANKS
//     RANK TIME window OPERATION WINDOW [apart]                      RANK TIME put PEER WINDOW BYTES
//     RANK TIME notify-out PEER WINDOW                               RANK TIME notify-in PEER WINDOW
//     RANK TIME lock PEER WINDOW exclusive|shared                    RANK TIME unlock PEER WINDOW
//     RANK TIME group-sync C WINDOW                                  (with the members of that communicator)
//     thread RANK                            a further thread of that rank's process; the next number behind the ranks
//     team COMM MEMBERS                      a team of threads; the numbers of ranks and threads
//     RANK TIME fork|join                    RANK TIME team-begin|team-end TEAM
//     RANK TIME create|thread-begin|thread-end|thread-wait TEAM NUMBER       RANK TIME acquire|release LOCK ORDER
//                                            regions pthread-join, omp-critical, omp-task; omp-barrier, omp-implicit-barrier, omp-(dynamic): barriers of a team
//     at SCENARIO RANK TIME APPROXIMATED     the event of that rank at that measured time; SCENARIO: all, none, or an account
//     total SCENARIO NS                      accumulated noise
//     windows N                              of the attribution
//     paid SOURCE NS WHERE                   of its share so much was paid there, over all windows (WHERE: the rest of the line)
//     origin SOURCE CULPRIT RANK NS          of its share so much was made by that culprit on that rank
//     cost RANK TIME NS                      of the noise event that began then; 0: it is not among those that cost
//     path before|after LENGTH HOPS          the critical path
//     fate WAITING ABSORBED_DOWNSTREAM REACHED         what became of the local noise of all ranks
//     bounds LOW HIGH                        of the approximated end
//     inside NS                              this accumulated noise lies within the bounds
//     conditional yes|no                     warning TEXT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace_spec.hpp"

namespace polter::test {

struct MicroExpectation {
    std::string scenario;
    int64_t rank = 0, time = 0, approximated = 0;
};

struct MicroPayment {
    std::string source;
    int64_t ns = 0;
    std::string where;
};

struct MicroOrigin {
    std::string source, culprit;
    int64_t rank = 0, ns = 0;
};

struct MicroCost {
    int64_t rank = 0, time = 0, ns = 0;
};

struct MicroPath {
    std::string when;
    int64_t length = 0, hops = 0;
};

struct MicroFate {
    int64_t waiting = 0, absorbed_downstream = 0, reached = 0;
};

struct Micro {
    TraceSpec trace;
    std::vector<MicroExpectation> events;
    std::vector<std::pair<std::string, int64_t>> totals;
    uint32_t windows = 10;
    std::vector<MicroPayment> paid;
    std::vector<MicroOrigin> origins;
    std::vector<MicroCost> costs;
    std::vector<MicroPath> paths;
    std::optional<MicroFate> fate;
    std::optional<std::pair<int64_t, int64_t>> bounds;
    std::vector<int64_t> inside;
    std::optional<bool> conditional;
    std::vector<std::string> warnings;
};

// Throws std::runtime_error with file and line.
Micro parse_micro(const std::string& path);

}  // namespace polter::test
