// SPDX-License-Identifier: BSD-3-Clause
// Phases of point-to-point messages: who waits for whom does not depend on time.
#include "random.hpp"

namespace polter::truth {

namespace {

constexpr auto ignore_statuses = MPI_STATUSES_IGNORE;

void send(const Phase& p, int64_t i, int to) {
    const int bytes = p.bytes(i, p.rank);
    if (p.is.synchronous)
        MPI_Ssend(Phase::out, bytes, MPI_CHAR, to, p.tag(), p.comm);
    else
        MPI_Send(Phase::out, bytes, MPI_CHAR, to, p.tag(), p.comm);
}

void receive(const Phase& p, int64_t i, int from) {
    MPI_Recv(Phase::in, p.bytes(i, from), MPI_CHAR, from, p.tag(), p.comm, MPI_STATUS_IGNORE);
}

MPI_Request isend(const Phase& p, int64_t i, int to) {
    MPI_Request request;
    const int bytes = p.bytes(i, p.rank);
    if (p.is.synchronous)
        MPI_Issend(Phase::out, bytes, MPI_CHAR, to, p.tag(), p.comm, &request);
    else
        MPI_Isend(Phase::out, bytes, MPI_CHAR, to, p.tag(), p.comm, &request);
    return request;
}

MPI_Request ireceive(const Phase& p, int64_t i, int from) {
    MPI_Request request;
    MPI_Irecv(Phase::in, p.bytes(i, from), MPI_CHAR, from, p.tag(), p.comm, &request);
    return request;
}

void wait_all(std::vector<MPI_Request>& requests) {
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), ignore_statuses);
}

// -1: none.
int partner(const Phase& p) {
    const int other = p.alone() ? -1 : p.rank / p.offset() % 2 == 0 ? p.rank + p.offset() : p.rank - p.offset();
    return other < p.size ? other : -1;
}

int right(const Phase& p) {
    return (p.rank + p.offset()) % p.size;
}

int left(const Phase& p) {
    return (p.rank + p.size - p.offset()) % p.size;
}

// The lower one sends first.
void pairs(const Phase& p, int64_t i) {
    p.work(i);
    const int other = partner(p);
    if (other < 0) return;
    if (p.rank < other) send(p, i, other);
    receive(p, i, other);
    if (p.rank > other) send(p, i, other);
}

void exchange(const Phase& p, int64_t i) {
    p.work(i, 1 - p.is.overlap);
    const int other = partner(p);
    if (other < 0) return p.work(i, p.is.overlap, 1);
    std::vector<MPI_Request> requests{ireceive(p, i, other), isend(p, i, other)};
    p.work(i, p.is.overlap, 1);
    wait_all(requests);
}

void shift_sendrecv(const Phase& p, int64_t i) {
    p.work(i);
    if (p.alone()) return;
    MPI_Sendrecv(Phase::out, p.bytes(i, p.rank), MPI_CHAR, right(p), p.tag(), Phase::in, p.bytes(i, left(p)), MPI_CHAR, left(p), p.tag(),
                 p.comm, MPI_STATUS_IGNORE);
}

// In each ring of the shift every second rank receives first.
void shift_blocking(const Phase& p, int64_t i) {
    p.work(i);
    if (p.alone()) return;
    int rings = p.size, step = p.offset();
    while (step != 0) {
        const int rest = rings % step;
        rings = step;
        step = rest;
    }
    int place = 0;
    for (int r = p.rank % rings; r != p.rank; r = (r + p.offset()) % p.size) ++place;
    if (place % 2 == 0) send(p, i, right(p));
    receive(p, i, left(p));
    if (place % 2 == 1) send(p, i, right(p));
}

void shift_nonblocking(const Phase& p, int64_t i) {
    p.work(i, 1 - p.is.overlap);
    if (p.alone()) return p.work(i, p.is.overlap, 1);
    std::vector<MPI_Request> requests{ireceive(p, i, left(p)), isend(p, i, right(p))};
    p.work(i, p.is.overlap, 1);
    wait_all(requests);
}

// A near-square grid of the communicator's ranks.
struct Plane {
    int rows = 1, columns, row, column;
    explicit Plane(const Phase& p) {
        for (int r = 1; r * r <= p.size; ++r)
            if (p.size % r == 0) rows = r;
        columns = p.size / rows;
        row = p.rank / columns;
        column = p.rank % columns;
    }
    int at(int r, int c) const { return (r + rows) % rows * columns + (c + columns) % columns; }
};

void halo(const Phase& p, int64_t i) {
    const Plane plane(p);
    std::vector<int> around;
    if (plane.rows > 1) around.insert(around.end(), {plane.at(plane.row - 1, plane.column), plane.at(plane.row + 1, plane.column)});
    if (plane.columns > 1) around.insert(around.end(), {plane.at(plane.row, plane.column - 1), plane.at(plane.row, plane.column + 1)});
    p.work(i, 1 - p.is.overlap);
    std::vector<MPI_Request> requests;
    for (const int other : around) requests.push_back(ireceive(p, i, other));
    for (const int other : around) requests.push_back(isend(p, i, other));
    p.work(i, p.is.overlap, 1);
    wait_all(requests);
}

void wavefront(const Phase& p, int64_t i) {
    const Plane plane(p);
    if (plane.row > 0) receive(p, i, p.rank - plane.columns);
    if (plane.column > 0) receive(p, i, p.rank - 1);
    p.work(i);
    if (plane.row + 1 < plane.rows) send(p, i, p.rank + plane.columns);
    if (plane.column + 1 < plane.columns) send(p, i, p.rank + 1);
}

void pipeline(const Phase& p, int64_t i) {
    if (p.rank > 0) receive(p, i, p.rank - 1);
    p.work(i);
    if (p.rank + 1 < p.size) send(p, i, p.rank + 1);
}

// The lower one sends, and nobody tells it to wait.
void burst(const Phase& p, int64_t i) {
    const int other = partner(p);
    const double share = 1.0 / p.is.count;
    for (int k = 0; k < p.is.count; ++k) {
        if (p.rank < other) p.work(i, share, 2 + k);
        if (p.rank < other) send(p, i, other);
        if (other >= 0 && p.rank > other) receive(p, i, other);
        if (p.rank > other) p.work(i, share, 2 + k);
    }
}

void butterfly(const Phase& p, int64_t i) {
    p.work(i);
    for (int mask = 1; mask < p.size; mask *= 2) {
        const int other = p.rank ^ mask;
        if (other < p.size)
            MPI_Sendrecv(Phase::out, p.bytes(i, p.rank), MPI_CHAR, other, p.tag(), Phase::in, p.bytes(i, other), MPI_CHAR, other, p.tag(),
                         p.comm, MPI_STATUS_IGNORE);
    }
}

// A reduction over a binary tree by hand.
void tree(const Phase& p, int64_t i) {
    p.work(i);
    for (const int child : {2 * p.rank + 1, 2 * p.rank + 2})
        if (child < p.size) receive(p, i, child);
    if (p.rank > 0) send(p, i, (p.rank - 1) / 2);
}

// A random graph, the same in each iteration.
struct Graph {
    std::vector<int> to, from;
    explicit Graph(const Phase& p) {
        const double density = static_cast<double>(p.is.count) / p.size;
        const auto edge = [&](int a, int b) { return a != b && p.drawn(7, static_cast<uint64_t>(a) * p.size + b) < density; };
        for (int other = 0; other < p.size; ++other) {
            if (edge(p.rank, other)) to.push_back(other);
            if (edge(other, p.rank)) from.push_back(other);
        }
    }
};

void graph_waitall(const Phase& p, int64_t i) {
    const Graph graph(p);
    p.work(i, 1 - p.is.overlap);
    std::vector<MPI_Request> requests;
    for (const int other : graph.from) requests.push_back(ireceive(p, i, other));
    for (const int other : graph.to) requests.push_back(isend(p, i, other));
    p.work(i, p.is.overlap, 1);
    wait_all(requests);
}

void graph_send_wait(const Phase& p, int64_t i) {
    const Graph graph(p);
    p.work(i);
    std::vector<MPI_Request> requests;
    for (const int other : graph.from) requests.push_back(ireceive(p, i, other));
    for (const int other : graph.to) send(p, i, other);
    for (MPI_Request& request : requests) MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void graph_isend_recv(const Phase& p, int64_t i) {
    const Graph graph(p);
    p.work(i);
    std::vector<MPI_Request> requests;
    for (const int other : graph.to) requests.push_back(isend(p, i, other));
    for (const int other : graph.from) receive(p, i, other);
    wait_all(requests);
}

// A ring in which neighbours exchange; its requests are made once. Only a message whose receive is posted may be started again: SMPI
// numbers the messages in their requests. So both neighbours answer, and receives start first.
class Persistent : public Phase {
  public:
    explicit Persistent(const PhaseDescription& description) : Phase(description) {
        if (alone()) return;
        const auto bytes = static_cast<int>(is.bytes);
        const int neighbours[] = {left(*this), right(*this)};
        const size_t count = neighbours[0] == neighbours[1] ? 1 : 2;
        requests_.resize(2 * count);
        for (size_t k = 0; k < count; ++k) {
            MPI_Recv_init(in, bytes, MPI_CHAR, neighbours[k], tag(), comm, &requests_[k]);
            if (is.synchronous)
                MPI_Ssend_init(out, bytes, MPI_CHAR, neighbours[k], tag(), comm, &requests_[count + k]);
            else
                MPI_Send_init(out, bytes, MPI_CHAR, neighbours[k], tag(), comm, &requests_[count + k]);
        }
    }
    ~Persistent() override {
        for (MPI_Request& request : requests_) MPI_Request_free(&request);
    }
    void run(int64_t i) override {
        work(i, 1 - is.overlap);
        if (!requests_.empty()) MPI_Startall(static_cast<int>(requests_.size()), requests_.data());
        work(i, is.overlap, 1);
        if (!requests_.empty()) wait_all(requests_);
    }

  private:
    std::vector<MPI_Request> requests_;
};

}  // namespace

const PhaseKinds& message_phases() {
    static const PhaseKinds kinds{{"pairs", plain<pairs>},
                                  {"exchange", plain<exchange>},
                                  {"shift_sendrecv", plain<shift_sendrecv>},
                                  {"shift_blocking", plain<shift_blocking>},
                                  {"shift_nonblocking", plain<shift_nonblocking>},
                                  {"halo", plain<halo>},
                                  {"wavefront", plain<wavefront>},
                                  {"pipeline", plain<pipeline>},
                                  {"burst", plain<burst>},
                                  {"butterfly", plain<butterfly>},
                                  {"tree", plain<tree>},
                                  {"graph_waitall", plain<graph_waitall>},
                                  {"graph_send_wait", plain<graph_send_wait>},
                                  {"graph_isend_recv", plain<graph_isend_recv>},
                                  {"persistent", with_state<Persistent>}};
    return kinds;
}

}  // namespace polter::truth
