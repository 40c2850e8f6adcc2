// SPDX-License-Identifier: BSD-3-Clause
// GOAL programs for LogGOPSim (Hoefler, Schneider, Lumsdaine, HPDC'10): the measured run as computation without noise, sends and receives.
//
// Grammar: txt2bin.re of LogGOPSim. A label stands before it is referred to, and no line begins with a blank.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "../output.hpp"
#include "algorithms.hpp"
#include "survey.hpp"

namespace polter::exports {

class GoalWriter : public Sink {
  public:
    static Target::Kind kind() { return {"GOAL program", "// polter export: GOAL", false}; }
    GoalWriter(OutputFile& out, const std::string& trace, const replay::Definitions& definitions, const GoalSurvey& survey,
               GoalAlgorithms& algorithms);

    void begin(const Place&) override;
    void enter(int64_t time, uint32_t region, bool mpi) override;
    void leave(int64_t time) override;
    void record(const Record&) override;
    void noise(const NoiseSlice&) override;
    void end() override;
    void finish();  // ranks without events at the end

    struct Counts {
        uint64_t computations = 0, sends = 0, receives = 0;
        uint64_t collectives = 0, by_learned_algorithm = 0;
        uint64_t left_out_collectives = 0;  // not all members took part, or between two groups
        uint64_t left_out_records = 0;      // one-sided transfers, collectives of files and neighbours, other threads
    };
    const Counts& counts() const { return counts_; }

  private:
    struct Op {
        enum class Type : uint8_t { calc, send, receive } type = Type::calc;
        bool pending = false;  // a receive whose message is not known yet
        bool collective = false;
        uint64_t size = 0;  // ns or bytes
        Channel channel;    // of collectives: `tag` is the one to be written
    };
    struct Dependency {
        uint32_t of, on;
        bool start;  // on its start only
    };
    // The operation that the next one follows, and what it has to wait for besides.
    struct Chain {
        uint32_t last = none;
        bool blocks = true;
        std::vector<uint32_t> waits_for;
    };
    static constexpr uint32_t none = UINT32_MAX;

    uint32_t add(const Op& op, bool blocks);
    void block(uint32_t label);
    void compute(int64_t until);
    void collective(const Record&);
    void expand(const replay::Pattern&, uint32_t comm, uint32_t root, uint64_t data, uint64_t number);
    void write_rank();
    void open_rank();
    uint32_t written_tag(const Op& op);

    OutputFile& out_;
    const replay::Definitions& definitions_;
    const GoalSurvey& survey_;
    GoalAlgorithms& algorithms_;
    Counts counts_;
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> tags_;  // communicator, tag, partitioned → written
    int32_t next_rank_ = 0;

    // Of the rank.
    Place place_;
    CollectiveNumbers numbers_;
    std::vector<Op> ops_;
    std::vector<Dependency> dependencies_;  // by `of`
    Chain chain_;
    std::vector<uint32_t> call_;                        // what the call that is open ends with
    std::map<uint64_t, uint32_t> requests_;             // of messages
    std::map<uint64_t, Chain> collective_requests_;     // where they began
    int64_t since_ = 0, noise_ns_ = 0, last_call_ = 0;  // of the computation
    std::vector<bool> open_;                            // calls; true: of MPI
    size_t in_mpi_ = 0, next_late_ = 0;
    bool started_ = false;
};

}  // namespace polter::exports
