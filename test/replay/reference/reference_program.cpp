// SPDX-License-Identifier: BSD-3-Clause
#include "reference_program.hpp"

#include <otf2/otf2.h>

#include <algorithm>
#include <deque>
#include <random>

namespace polter::test {

namespace {

using Kind = Record::Kind;

constexpr uint64_t rendezvous_bytes = 1'000'000;

class Generator {
  public:
    explicit Generator(uint64_t seed) : random_(seed), trace_(static_cast<size_t>(draw(2, 8))) {
        now_.assign(ranks(), 0);
        request_.assign(ranks(), 0);
        for (int64_t i = draw(1, 3); i > 0; --i) trace_.accounts.push_back("os:source" + std::to_string(i));
        trace_.comms.resize(2);
        for (size_t rank = ranks(); rank-- > 0;)  // not in the world's order
            if (rank % 2 == 0 || ranks() < 4) trace_.comms[1].push_back(rank);
        for (size_t rank = 0; rank < ranks(); ++rank) {
            trace_.hosts[rank] = rank < ranks() / 2 ? "a" : "b";
            now_[rank] = draw(0, 1'000);
            record(rank, Kind::enter).name = "main";
        }
        work_ns_ = int64_t{1} << draw(8, 20);  // of the whole trace: within one window of the engine, or over many
        noise_percent_ = draw(0, 60);
    }

    TraceSpec run() {
        for (int64_t step = draw(10, 40); step > 0; --step) {
            for (size_t rank = 0; rank < ranks(); ++rank) spend(rank, draw(1, work_ns_));
            one_step();
        }
        while (!under_way_.empty()) receive_one();
        for (size_t rank = 0; rank < ranks(); ++rank) {
            spend(rank, draw(1, work_ns_));
            record(rank, Kind::leave).name = "main";
        }
        return std::move(trace_);
    }

  private:
    struct UnderWay {
        size_t from, to;
        uint32_t comm;
        int64_t tag, sent;
        uint64_t bytes;
    };

    size_t ranks() const { return trace_.ranks(); }
    int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
    size_t draw_below(size_t below) { return static_cast<size_t>(draw(0, static_cast<int64_t>(below) - 1)); }
    bool draw_percent(int64_t percent) { return draw(1, 100) <= percent; }

    // ---- time ----------------------------------------------------------------------------------------------------------------------

    void add_noise(size_t rank, int64_t ns) {
        now_[rank] += ns;
        Record& noise = record(rank, Kind::noise);
        noise.name = trace_.accounts[draw_below(trace_.accounts.size())];
        noise.ns = ns;
    }
    // Work, prolonged by noise here and there; the noise never ends with it.
    void spend(size_t rank, int64_t ns) {
        while (ns > 1 && draw_percent(noise_percent_)) {
            const int64_t before = draw(0, ns - 1);
            now_[rank] += before;
            ns -= before;
            add_noise(rank, draw(1, draw_percent(10) ? 20'000 : 2'000));
        }
        now_[rank] += ns;
    }
    // Waiting, with noise in it that may last beyond.
    void wait(size_t rank, int64_t until) {
        while (now_[rank] + 1 < until && draw_percent(noise_percent_)) {
            now_[rank] = draw(now_[rank], until - 1);
            add_noise(rank, draw(1, 3'000));
        }
        now_[rank] = std::max(now_[rank], until);
    }

    // ---- records -------------------------------------------------------------------------------------------------------------------

    Record& record(size_t rank, Kind kind) {
        Record record;
        record.kind = kind;
        record.time = now_[rank];
        trace_.records[rank].push_back(record);
        return trace_.records[rank].back();
    }
    int64_t enter(size_t rank, const std::string& name) {
        spend(rank, draw(1, 300));
        record(rank, Kind::enter).name = name;
        return now_[rank];
    }
    void leave(size_t rank, const std::string& name) {
        spend(rank, draw(1, 600));
        record(rank, Kind::leave).name = name;
    }
    std::vector<size_t> members(uint32_t comm) const {
        std::vector<size_t> list;
        for (size_t rank = 0; rank < ranks(); ++rank)
            if (comm == 0) list.push_back(rank);
        if (comm != 0) list.assign(trace_.comms[comm].begin(), trace_.comms[comm].end());
        return list;
    }
    Record& message(size_t rank, Kind kind, const UnderWay& m, uint64_t request = 0) {
        const std::vector<size_t> list = members(m.comm);
        const size_t peer = rank == m.from ? m.to : m.from;
        Record& r = record(rank, kind);
        r.peer = std::find(list.begin(), list.end(), peer) - list.begin();
        r.comm = m.comm;
        r.tag = m.tag;
        r.bytes = m.bytes;
        r.request = request;
        r.posted = kind == Kind::irecv_request;
        return r;
    }
    UnderWay draw_message() {
        const auto comm = static_cast<uint32_t>(draw(0, 1));
        std::vector<size_t> list = members(comm);
        std::shuffle(list.begin(), list.end(), random_);
        return {list[0], list[1], comm, draw(1, 2), 0, std::vector<uint64_t>{8, 64, 5'000, 70'000}[draw_below(4)]};
    }
    int64_t arrives(const UnderWay& m) { return m.sent + 1'000 + static_cast<int64_t>(m.bytes / 8) + draw(0, 700); }

    // ---- messages ------------------------------------------------------------------------------------------------------------------

    void one_step() {
        switch (draw(0, 14)) {
            case 0:
            case 1:
                send_some();
                break;
            case 2:
            case 3:
                for (int64_t i = draw(1, 6); i > 0 && !under_way_.empty(); --i) receive_one();
                break;
            case 4:
                synchronous();
                break;
            case 5:
            case 6:
                exchange();
                break;
            case 7:
                ring();
                break;
            case 8:
                blocking_collective("MPI_Barrier", OTF2_COLLECTIVE_OP_BARRIER);
                break;
            case 9:
                blocking_collective("MPI_Allreduce", OTF2_COLLECTIVE_OP_ALLREDUCE);
                break;
            case 10:
                blocking_collective("MPI_Alltoallv", OTF2_COLLECTIVE_OP_ALLTOALLV);
                break;
            case 11:
                rooted();
                break;
            case 12:
                blocking_collective("MPI_Scan", OTF2_COLLECTIVE_OP_SCAN);
                break;
            case 13:
                nonblocking_collective();
                break;
            case 14:
                cancel();
                break;
        }
    }

    // Eager ones, taken later or much later; so a producer runs ahead.
    void send_some() {
        for (int64_t i = draw(1, 5); i > 0; --i) {
            UnderWay m = draw_message();
            const bool blocking = draw_percent(70);
            const std::string name = blocking ? "MPI_Send" : "MPI_Isend";
            m.sent = enter(m.from, name);
            const uint64_t request = blocking ? 0 : ++request_[m.from];
            message(m.from, blocking ? Kind::send : Kind::isend, m, request).mode = draw_percent(20) ? 3 : 0;
            leave(m.from, name);
            if (!blocking) {
                enter(m.from, "MPI_Wait");
                message(m.from, Kind::isend_complete, m, request);
                leave(m.from, "MPI_Wait");
            }
            under_way_.push_back(m);
        }
    }

    // Any of those under way, but the first on its channel.
    UnderWay take_one() {
        const size_t chosen = draw_below(under_way_.size());
        const UnderWay wanted = under_way_[chosen];
        const auto first = std::find_if(under_way_.begin(), under_way_.end(), [&](const UnderWay& m) {
            return m.from == wanted.from && m.to == wanted.to && m.comm == wanted.comm && m.tag == wanted.tag;
        });
        const UnderWay m = *first;
        under_way_.erase(first);
        return m;
    }
    void probe(const UnderWay& m) {
        enter(m.to, "MPI_Probe");
        wait(m.to, arrives(m));
        leave(m.to, "MPI_Probe");
        const std::vector<size_t> list = members(m.comm);
        Record& end = trace_.records[m.to].back();
        end.posted = true;
        end.peer = std::find(list.begin(), list.end(), m.from) - list.begin();
        end.tag = m.tag;
        end.comm = m.comm;
    }
    void receive_one() {
        const UnderWay m = take_one();
        if (draw_percent(15)) probe(m);
        if (draw_percent(60)) {
            enter(m.to, "MPI_Recv");
            wait(m.to, arrives(m));
            message(m.to, Kind::recv, m).wildcard = draw_percent(20);
            leave(m.to, "MPI_Recv");
            return;
        }
        const uint64_t request = ++request_[m.to];
        enter(m.to, "MPI_Irecv");
        message(m.to, Kind::irecv_request, m, request);
        leave(m.to, "MPI_Irecv");
        spend(m.to, draw(1, work_ns_));
        const std::string name = draw_percent(50) ? "MPI_Wait" : "MPI_Test";
        enter(m.to, name);
        wait(m.to, arrives(m));
        message(m.to, Kind::irecv, m, request);
        leave(m.to, name);
    }

    // A receive that takes no message, whatever is under way to it.
    void cancel() {
        const UnderWay m = draw_message();
        const uint64_t request = ++request_[m.to];
        enter(m.to, "MPI_Irecv");
        message(m.to, Kind::irecv_request, m, request);
        leave(m.to, "MPI_Irecv");
        if (draw_percent(50)) send_some();
        spend(m.to, draw(1, work_ns_));
        enter(m.to, "MPI_Cancel");
        leave(m.to, "MPI_Cancel");
        enter(m.to, "MPI_Wait");
        record(m.to, Kind::cancelled).request = request;
        leave(m.to, "MPI_Wait");
    }

    void synchronous() {  // by its mode, its name, or its size
        UnderWay m = draw_message();
        m.tag = 7;  // a channel of its own: nothing else is under way there
        const int64_t kind = draw(0, 2);
        if (kind == 2) m.bytes = rendezvous_bytes;
        const bool blocking = draw_percent(60);
        const std::string name =
            std::string("MPI_") + (blocking ? "" : "I") + (kind == 1 ? (blocking ? "Ssend" : "ssend") : (blocking ? "Send" : "send"));
        const uint64_t request = blocking ? 0 : ++request_[m.from];
        m.sent = enter(m.from, name);
        message(m.from, blocking ? Kind::send : Kind::isend, m, request).mode = kind == 0 ? 1 : 0;
        if (!blocking) {
            leave(m.from, name);
            spend(m.from, draw(1, work_ns_));
            enter(m.from, "MPI_Wait");
        }
        spend(m.to, draw(1, 2 * work_ns_));
        const int64_t posted = enter(m.to, "MPI_Recv");
        wait(m.from, posted + 1'500 + draw(0, 300));
        if (!blocking) message(m.from, Kind::isend_complete, m, request);
        leave(m.from, blocking ? name : "MPI_Wait");
        wait(m.to, std::max(arrives(m), posted));
        message(m.to, Kind::recv, m);
        leave(m.to, "MPI_Recv");
    }

    // Non-blocking both ways among pairs that chance chose; completed all at once or one by one.
    void exchange() {
        std::vector<size_t> order(ranks());
        for (size_t i = 0; i < ranks(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random_);
        std::vector<UnderWay> sent;
        for (size_t i = 0; i < ranks(); ++i)
            sent.push_back({order[i], order[(i + 1) % ranks()], 0, 8, 0, draw_percent(50) ? 64u : 30'000u});
        std::vector<std::vector<std::pair<UnderWay*, uint64_t>>> open(ranks());
        for (UnderWay& m : sent) {
            if (draw_percent(30)) spend(m.to, draw(1, work_ns_));
            enter(m.to, "MPI_Irecv");
            message(m.to, Kind::irecv_request, m, ++request_[m.to]);
            open[m.to].emplace_back(&m, request_[m.to]);
            leave(m.to, "MPI_Irecv");
        }
        for (UnderWay& m : sent) {
            m.sent = enter(m.from, "MPI_Isend");
            message(m.from, Kind::isend, m, ++request_[m.from]).mode = draw_percent(20) ? 1 : 0;
            open[m.from].emplace_back(&m, request_[m.from]);
            leave(m.from, "MPI_Isend");
        }
        std::vector<int64_t> posted(ranks(), 0);
        for (size_t rank = 0; rank < ranks(); ++rank) posted[rank] = now_[rank];
        for (size_t rank = 0; rank < ranks(); ++rank) {
            std::shuffle(open[rank].begin(), open[rank].end(), random_);
            const bool together = draw_percent(60);
            const std::string name = together ? "MPI_Waitall" : "MPI_Wait";
            if (together) enter(rank, name);
            for (const auto& [m, request] : open[rank]) {
                if (!together) enter(rank, name);
                const bool receives = m->to == rank;
                wait(rank, receives ? arrives(*m) : posted[m->to]);
                message(rank, receives ? Kind::irecv : Kind::isend_complete, *m, request);
                if (!together) leave(rank, name);
            }
            if (together) leave(rank, name);
        }
    }

    void ring() {
        std::vector<int64_t> sent(ranks());
        for (size_t rank = 0; rank < ranks(); ++rank) {
            sent[rank] = enter(rank, "MPI_Sendrecv");
            message(rank, Kind::send, {rank, (rank + 1) % ranks(), 0, 9, 0, 400});
        }
        for (size_t rank = 0; rank < ranks(); ++rank) {
            const size_t from = (rank + ranks() - 1) % ranks();
            const UnderWay m{from, rank, 0, 9, sent[from], 400};
            wait(rank, arrives(m));
            message(rank, Kind::recv, m);
            leave(rank, "MPI_Sendrecv");
        }
    }

    // ---- collectives ---------------------------------------------------------------------------------------------------------------

    void end_collective(size_t rank, Kind kind, uint32_t comm, int operation, int64_t root, uint64_t request = 0) {
        Record& end = record(rank, kind);
        end.operation = operation;
        end.comm = comm;
        end.peer = root;
        end.bytes = draw_percent(80) ? 8 : 4'000;  // members need not give the same
        end.request = request;
    }
    void blocking_collective(const std::string& name, int operation) {
        const auto comm = static_cast<uint32_t>(draw(0, 1));
        const std::vector<size_t> list = members(comm);
        std::vector<int64_t> came;
        for (const size_t rank : list) {
            if (draw_percent(30)) spend(rank, draw(1, 2 * work_ns_));
            came.push_back(enter(rank, name));
        }
        for (size_t i = 0; i < list.size(); ++i) {
            int64_t last = 0;
            for (size_t j = 0; j < list.size(); ++j) {
                const bool left_out =
                    (operation == OTF2_COLLECTIVE_OP_SCAN && j > i) || (operation == OTF2_COLLECTIVE_OP_ALLTOALLV && draw_percent(50));
                if (!left_out) last = std::max(last, came[j]);
            }
            wait(list[i], last);
            spend(list[i], 3'000 + draw(0, 500));
            end_collective(list[i], Kind::collective_end, comm, operation, 0);
            leave(list[i], name);
        }
    }
    void rooted() {
        const bool broadcast = draw_percent(50);
        const std::string name = broadcast ? "MPI_Bcast" : "MPI_Reduce";
        const auto comm = static_cast<uint32_t>(draw(0, 1));
        const std::vector<size_t> list = members(comm);
        const size_t root = draw_below(list.size());
        std::vector<int64_t> came;
        for (const size_t rank : list) came.push_back(enter(rank, name));
        const int64_t last = *std::max_element(came.begin(), came.end());
        const bool receivers = draw_below(4) == 0;  // who only sends waits for them
        for (size_t i = 0; i < list.size(); ++i) {
            if (broadcast && i != root) wait(list[i], came[root] + 2'000);
            if (!broadcast && i == root) wait(list[i], last + 2'000);
            if (receivers && broadcast && i == root) wait(list[i], last + 2'000);
            if (receivers && !broadcast && i != root) wait(list[i], came[root] + 2'000);
            end_collective(list[i], Kind::collective_end, comm, broadcast ? OTF2_COLLECTIVE_OP_BCAST : OTF2_COLLECTIVE_OP_REDUCE,
                           static_cast<int64_t>(root));
            leave(list[i], name);
        }
    }
    void nonblocking_collective() {
        const auto comm = static_cast<uint32_t>(draw(0, 1));
        const std::vector<size_t> list = members(comm);
        const int operation = std::vector<int>{OTF2_COLLECTIVE_OP_BARRIER, OTF2_COLLECTIVE_OP_ALLREDUCE, OTF2_COLLECTIVE_OP_SCAN,
                                               OTF2_COLLECTIVE_OP_REDUCE, OTF2_COLLECTIVE_OP_BCAST}[draw_below(5)];
        const size_t root = draw_below(list.size());
        std::vector<int64_t> came;
        for (const size_t rank : list) {
            came.push_back(enter(rank, "MPI_Istart"));
            Record& start = record(rank, Kind::collective_request);
            start.posted = draw_percent(70);
            start.comm = comm;
            start.request = ++request_[rank];
            leave(rank, "MPI_Istart");
            if (draw_percent(50)) spend(rank, draw(1, work_ns_));
        }
        for (size_t i = 0; i < list.size(); ++i) {
            enter(list[i], "MPI_Wait");
            int64_t last = 0;
            for (size_t j = 0; j < list.size(); ++j) {
                const bool matters = operation == OTF2_COLLECTIVE_OP_SCAN     ? j <= i
                                     : operation == OTF2_COLLECTIVE_OP_REDUCE ? i == root
                                     : operation == OTF2_COLLECTIVE_OP_BCAST  ? j == root && i != root
                                                                              : true;
                if (matters) last = std::max(last, came[j] + 2'500);
            }
            wait(list[i], last);
            end_collective(list[i], Kind::collective_complete, comm, operation, static_cast<int64_t>(root), request_[list[i]]);
            leave(list[i], "MPI_Wait");
        }
    }

    std::mt19937_64 random_;
    TraceSpec trace_;
    std::vector<int64_t> now_;
    std::vector<uint64_t> request_;
    std::deque<UnderWay> under_way_;
    int64_t work_ns_ = 0, noise_percent_ = 0;
};

}  // namespace

TraceSpec reference_program(uint64_t seed) {
    return Generator(seed).run();
}

}  // namespace polter::test
