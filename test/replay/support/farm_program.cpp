// SPDX-License-Identifier: BSD-3-Clause
#include "farm_program.hpp"

#include <otf2/otf2.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "noisy_ranks.hpp"

namespace polter::test {

namespace {

using Form = FarmOptions::Form;

constexpr int64_t latency_ns = 3'000, far_latency_ns = 4'500, overhead_ns = 400, call_ns = 100, barrier_ns = 5'000;
constexpr int64_t ask_tag = 1, result_tag = 2, answer_tag = 3;

class Simulator : NoisyRanks {
  public:
    Simulator(const FarmOptions& options, bool noisy)
        : NoisyRanks((options.workers + 1) * (options.form == Form::two_farms ? 2 : 1), options.accounts, options.seed,
                     {noisy ? options.noise_every_ns : 0, options.noise_ns, options.noisy_rank}),
          options_(options),
          tasks_(options.seed) {
        for (size_t r = 0; r < ranks_.size(); ++r) {
            program_.trace.hosts[r] = r % 3 == 2 ? "far" : "near";
            start(r, static_cast<int64_t>(r) * 700);
        }
    }

    FarmProgram run() {
        const size_t phases = options_.form == Form::phases ? 3 : 1;
        for (size_t phase = 0; phase < phases; ++phase) {
            farm(0, 1);
            if (options_.form == Form::two_farms) farm(options_.workers + 1, options_.workers + 2);
            if (options_.form == Form::phases) barrier();
        }
        for (size_t r = 0; r < ranks_.size(); ++r) {
            add(r, Kind::leave, "main");
            program_.end = std::max(program_.end, ranks_[r].now);
        }
        made_.program = std::move(program_);
        return std::move(made_);
    }

  private:
    struct Worker {
        size_t rank;
        int64_t asked_at = 0, arrives = 0, then_arrives = 0;  // then: of the second of two messages
        int64_t waits_since = 0;                              // Enter of the call that will take the answer
        int64_t unfinished = 0;                               // prefetch: the task that it works on while it has asked
        uint64_t request = 0;                                 // waitany: the master's receive
        bool over = false;
    };

    int64_t latency(size_t a, size_t b) const {
        const auto& hosts = program_.trace.hosts;
        return hosts[a] == hosts[b] ? latency_ns : far_latency_ns;
    }

    void message(size_t r, Kind kind, size_t peer, int64_t tag, bool any) {
        Record& record = add(r, kind);
        record.peer = static_cast<int64_t>(peer);
        record.tag = tag;
        record.bytes = 8;
        record.wildcard = any && kind == Kind::recv;
        if (kind == Kind::irecv) record.request = ranks_[r].request;
    }

    // When it arrives.
    int64_t send(size_t r, size_t to, int64_t tag) {
        work(r, call_ns);
        add(r, Kind::enter, "MPI_Send");
        const int64_t begin = ranks_[r].now;
        message(r, Kind::send, to, tag, false);
        while (ranks_[r].next_noise < begin + call_ns) schedule_noise(r);  // nothing hits here: whether the message left before is open
        ranks_[r].now = begin + call_ns;
        add(r, Kind::leave, "MPI_Send");
        return begin + latency(r, to) + std::uniform_int_distribution<int64_t>(0, options_.jitter_ns)(ways_);
    }

    // Begins to receive; the Enter of the call that waits.
    int64_t post(size_t r, int64_t from, int64_t tag) {
        work(r, call_ns);
        if (options_.form != Form::nonblocking) {
            const char* any = options_.form == Form::probing ? "MPI_Probe" : options_.form == Form::waitany ? "MPI_Waitany" : "MPI_Recv";
            add(r, Kind::enter, from < 0 ? any : "MPI_Recv");
            return ranks_[r].now;
        }
        add(r, Kind::enter, "MPI_Irecv");
        Record& record = add(r, Kind::irecv_request);
        record.request = ++ranks_[r].request;
        record.peer = from;
        record.tag = tag;
        record.posted = true;
        work(r, call_ns);
        add(r, Kind::leave, "MPI_Irecv");
        work(r, call_ns);
        add(r, Kind::enter, "MPI_Wait");
        return ranks_[r].now;
    }

    // What a probe for anyone found is received by its source.
    void find(size_t r, size_t from, int64_t tag, int64_t arrives) {
        wait(r, arrives);
        work(r, call_ns);
        Record& record = add(r, Kind::leave, "MPI_Probe");
        record.peer = static_cast<int64_t>(from);
        record.tag = tag;
        record.posted = record.wildcard = true;
        work(r, call_ns);
        add(r, Kind::enter, "MPI_Recv");
    }

    void post_for(Worker& worker, size_t master) {
        work(master, call_ns);
        add(master, Kind::enter, "MPI_Irecv");
        Record& record = add(master, Kind::irecv_request);
        worker.request = record.request = ++ranks_[master].request;
        record.peer = static_cast<int64_t>(worker.rank);
        record.tag = ask_tag;
        record.posted = true;
        work(master, call_ns);
        add(master, Kind::leave, "MPI_Irecv");
    }

    void take_any(const Worker& worker, size_t master, int64_t since) {
        wait(master, std::max(worker.arrives, since + overhead_ns) - overhead_ns);
        work(master, overhead_ns);
        message(master, Kind::irecv, worker.rank, ask_tag, false);
        program_.trace.records[master].back().request = worker.request;
        add(master, Kind::leave, "MPI_Waitany");
    }

    void receive(size_t r, int64_t since, size_t from, int64_t tag, int64_t arrives, bool any) {
        const bool blocking = options_.form != Form::nonblocking;
        wait(r, std::max(arrives, since + overhead_ns) - overhead_ns);
        work(r, overhead_ns);
        message(r, blocking ? Kind::recv : Kind::irecv, from, tag, any);
        add(r, Kind::leave, blocking ? "MPI_Recv" : "MPI_Wait");
    }

    void ask(Worker& worker, size_t master) {
        work(worker.rank, call_ns);
        const bool two = options_.form == Form::two_messages;
        worker.arrives = send(worker.rank, master, two ? result_tag : ask_tag);
        const auto& records = program_.trace.records[worker.rank];
        worker.asked_at = records[records.size() - 2].time;
        if (two) worker.then_arrives = send(worker.rank, master, ask_tag);
        if (worker.unfinished > 0) work(worker.rank, worker.unfinished);
        worker.unfinished = 0;
        worker.waits_since = post(worker.rank, static_cast<int64_t>(master), answer_tag);
    }

    void hear(Worker& worker, size_t master, int64_t sent_at, int64_t arrives) {
        receive(worker.rank, worker.waits_since, master, answer_tag, arrives, false);
        made_.restarts.emplace(worker.rank, ranks_[worker.rank].now);
        program_.orders.push_back({master, worker.rank, sent_at, ranks_[worker.rank].now});
    }

    void answer(Worker& worker, size_t master) {
        const int64_t arrives = send(master, worker.rank, answer_tag);
        const auto& records = program_.trace.records[master];
        hear(worker, master, records[records.size() - 2].time, arrives);
    }

    void farm(size_t master, size_t first) {
        FarmProgram::Farm& farm = made_.farms.emplace_back();
        farm.master = master;
        std::uniform_int_distribution<int64_t> length(options_.task_ns / 2, options_.task_ns * 3 / 2);
        std::vector<Worker> workers;
        size_t left = options_.tasks;
        for (size_t i = 0; i < options_.workers; ++i) workers.push_back({.rank = first + i});
        const bool results = options_.form == Form::results;
        if (results)
            for (Worker& worker : workers) {
                worker.waits_since = post(worker.rank, static_cast<int64_t>(master), answer_tag);
                answer(worker, master);
                work(worker.rank, length(tasks_));
                --left;
            }
        if (options_.form == Form::waitany)
            for (Worker& worker : workers) post_for(worker, master);
        for (Worker& worker : workers) ask(worker, master);
        for (size_t working = workers.size(); working > 0;) {
            const int64_t since = post(master, -1, -1);
            auto found = std::min_element(workers.begin(), workers.end(), [](const Worker& a, const Worker& b) {
                return std::tie(a.over, a.arrives) < std::tie(b.over, b.arrives);
            });
            if (options_.form == Form::waitany) {  // the first in the list of those that are there when it looks
                wait(master, found->arrives - overhead_ns);
                const int64_t looks = ranks_[master].now + overhead_ns;
                found = std::find_if(workers.begin(), workers.end(), [&](const Worker& w) { return !w.over && w.arrives <= looks; });
            }
            Worker& next = *found;
            const bool two = options_.form == Form::two_messages;
            if (options_.form == Form::waitany) {
                take_any(next, master, since);
            } else if (options_.form == Form::probing) {
                find(master, next.rank, ask_tag, next.arrives);
                receive(master, ranks_[master].now, next.rank, ask_tag, next.arrives, false);
            } else {
                receive(master, since, next.rank, two ? result_tag : ask_tag, next.arrives, true);
            }
            farm.asked.emplace_back(next.rank, next.asked_at);
            farm.taken.push_back(ranks_[master].now);
            if (two) receive(master, post(master, static_cast<int64_t>(next.rank), ask_tag), next.rank, ask_tag, next.then_arrives, false);
            const bool more = left > 0;
            if (!more) next.over = true, --working;
            if (!more && results) continue;  // told when all are over
            if (more && options_.form == Form::waitany) post_for(next, master);
            answer(next, master);
            if (!more) continue;
            --left;
            if (options_.form == Form::prefetch)
                next.unfinished = length(tasks_);
            else
                work(next.rank, length(tasks_));
            ask(next, master);
        }
        if (results)
            for (Worker& worker : workers) answer(worker, master);
    }

    void barrier() {
        int64_t last = 0;
        for (size_t r = 0; r < ranks_.size(); ++r) {
            work(r, call_ns);
            add(r, Kind::enter, "MPI_Barrier");
            add(r, Kind::collective_begin);
            last = std::max(last, ranks_[r].now);
        }
        for (size_t r = 0; r < ranks_.size(); ++r) {
            wait(r, last);
            work(r, barrier_ns);
            Record& record = add(r, Kind::collective_end);
            record.operation = OTF2_COLLECTIVE_OP_BARRIER;
            add(r, Kind::leave, "MPI_Barrier");
        }
    }

    const FarmOptions options_;
    std::mt19937_64 ways_{7};
    std::mt19937_64 tasks_;  // their lengths, in the order in which they are assigned
    FarmProgram made_;
};

}  // namespace

FarmProgram farm_program(const FarmOptions& options) {
    FarmProgram made = Simulator(options, true).run();
    made.truth = Simulator(options, false).run().program.end;
    return made;
}

}  // namespace polter::test
