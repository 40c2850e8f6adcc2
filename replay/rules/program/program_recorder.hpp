// SPDX-License-Identifier: BSD-3-Clause
// Follows the rules through a pass over all noise, and writes down what each rank does (model/program.hpp).
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "replay/engine/engine.hpp"
#include "replay/model/program.hpp"

namespace polter::replay {

struct Scratch;

class ProgramRecorder {
  public:
    // `most_calls`: of all ranks together; beyond that nothing more is kept, and Programs::not_covered says so.
    ProgramRecorder(int32_t ranks, uint64_t most_calls);

    // By the rules, at each MPI call: its records are known; it is about to be concluded; it has waited (not of collectives); it has ended.
    void published(Engine&, Thread&);
    void concluding(Engine&, Thread&);
    void waited(Engine&, Thread&, const Scratch&, const CallEnd&);
    void ended(Engine&, Thread&);
    void cut_off(Thread&);  // the trace ends inside of the call
    // By the engine's observer.
    void noise(const Engine&, const Thread&, const PendingNoise&, int64_t begin, int64_t end);

    Programs finish(const Engine&);

  private:
    struct Rank {
        std::map<std::tuple<bool, int32_t, uint32_t, uint32_t>, uint32_t> links;
        std::vector<uint32_t> received;                                                  // by link: receives so far
        std::unordered_map<const Match*, std::pair<uint32_t, uint32_t>> sent, expected;  // link and message, while a wait may refer to it
        std::vector<std::pair<const Match*, size_t>> open_sends;                         // … and the index in Program::sends
        int64_t last_leave = 0, last_approximated = 0;
        int64_t enter_approximated = 0;
        bool started = false, concludes = false;
        ProgramCall call;
    };
    uint32_t link(Rank&, Program&, bool out, int32_t peer, uint32_t comm, uint32_t tag);
    void send(Engine&, Thread&, const Operation&, bool only_send);
    void expect(Engine&, Thread&, const Match*);
    ProgramWait wait_for(Thread&, const Match&, bool posting);
    void not_covered(const char* why) { ++programs_.not_covered[why]; }
    bool full();

    Programs programs_;
    std::vector<Rank> ranks_;
    std::map<std::pair<const LearnedStructure*, uint64_t>, int32_t> structures_;  // by the data that it is for; 0: of its class
    uint64_t most_calls_;
};

}  // namespace polter::replay
