// SPDX-License-Identifier: BSD-3-Clause
#include "forked.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/lockfree/spsc_queue.hpp>
#include <cstdio>
#include <cstring>
#include <deque>
#include <new>

#include "replay/base/error.hpp"
#include "replay/trace/child_process.hpp"
#include "traffic.hpp"

namespace polter::replay {

namespace {

constexpr size_t ring_bytes = 256 * 1024;     // several full batches; what does not fit waits in the sender
constexpr int polls_before_look = 1 << 14;    // without a message, until process 0 looks whether the others still exist
constexpr int most_processes = 8;             // the estimate was measured with two
constexpr uint64_t worth_bytes = 8ull << 20;  // of events: less is replayed in a fraction of a second
constexpr double decoding_ahead_part = 0.75;  // of the time of one process, with one that decodes ahead

// Bytes from one process to another. Its memory is inside it, so it works in memory shared by processes.
using Ring = boost::lockfree::spsc_queue<uint8_t, boost::lockfree::capacity<ring_bytes>>;

// One ring for each ordered pair, mapped by all processes.
class Rings {
  public:
    explicit Rings(int processes) : processes_(static_cast<size_t>(processes)) {
        memory_ = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        for (size_t i = 0; good() && i < processes_ * processes_; ++i) new (at(i)) Ring();
    }
    ~Rings() {
        if (good()) munmap(memory_, bytes());
    }
    Rings(const Rings&) = delete;
    Rings& operator=(const Rings&) = delete;

    bool good() const { return memory_ != MAP_FAILED; }
    Ring& from_to(int from, int to) { return *at(static_cast<size_t>(from) * processes_ + static_cast<size_t>(to)); }

  private:
    size_t bytes() const { return processes_ * processes_ * sizeof(Ring); }
    Ring* at(size_t i) const { return static_cast<Ring*>(memory_) + i; }

    size_t processes_;
    void* memory_ = MAP_FAILED;
};

// A message is its length and its bytes.
class ForkedTransport : public Transport {
  public:
    ForkedTransport(std::unique_ptr<Rings> rings, int rank, int size, std::vector<pid_t> children)
        : rings_(std::move(rings)), rank_(rank), children_(std::move(children)), peers_(static_cast<size_t>(size)) {}
    ~ForkedTransport() override {
        for (const pid_t child : children_) kill(child, SIGKILL);
        for (const pid_t child : children_) waitpid(child, nullptr, 0);
    }
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(peers_.size()); }

    void send(int to, std::vector<uint8_t> message) override {
        Peer& peer = peers_[static_cast<size_t>(to)];
        peer.unsent.push_back({std::move(message)});
        push(to, peer);
    }

    bool receive(int* from, std::vector<uint8_t>* message) override {
        for (int other = 0; other < size(); ++other) push(other, peers_[static_cast<size_t>(other)]);
        for (int looked = 0; looked < size(); ++looked) {
            next_ = next_ + 1 < size() ? next_ + 1 : 0;
            if (next_ == rank_ || !pull(next_, peers_[static_cast<size_t>(next_)])) continue;
            Peer& peer = peers_[static_cast<size_t>(next_)];
            message->swap(peer.incoming);
            peer.incoming.clear();
            peer.received = 0;
            *from = next_;
            polls_ = 0;
            return true;
        }
        if (++polls_ % polls_before_look == 0) look_after_children();
        return false;
    }

    void close() override {
        for (int other = 0; other < size(); ++other)
            for (Peer& peer = peers_[static_cast<size_t>(other)]; !peer.unsent.empty();) {
                push(other, peer);
                look_after_children();
            }
        look_after_children(0);
    }
    [[noreturn]] void abort(int code) override { _exit(code); }  // the others follow

  private:
    struct Sending {
        std::vector<uint8_t> message;
        size_t sent = 0;  // of the length and the bytes
    };
    struct Peer {
        std::deque<Sending> unsent;
        uint64_t length = 0;
        std::vector<uint8_t> incoming;
        size_t received = 0;  // of the length and the bytes
    };

    void push(int to, Peer& peer) {
        while (!peer.unsent.empty()) {
            Ring& ring = rings_->from_to(rank_, to);
            auto& [message, sent] = peer.unsent.front();
            const uint64_t length = message.size();
            if (sent < sizeof length) sent += ring.push(reinterpret_cast<const uint8_t*>(&length) + sent, sizeof length - sent);
            if (sent >= sizeof length) sent += ring.push(message.data() + (sent - sizeof length), sizeof length + message.size() - sent);
            if (sent < sizeof length + message.size()) return;
            peer.unsent.pop_front();
        }
    }

    // True: a whole message has come.
    bool pull(int from, Peer& peer) {
        Ring& ring = rings_->from_to(from, rank_);
        constexpr size_t head = sizeof peer.length;
        if (peer.received < head) {
            peer.received += ring.pop(reinterpret_cast<uint8_t*>(&peer.length) + peer.received, head - peer.received);
            if (peer.received < head) return false;
            peer.incoming.resize(peer.length);
        }
        peer.received += ring.pop(peer.incoming.data() + (peer.received - head), head + peer.length - peer.received);
        return peer.received == head + peer.length;
    }

    // In process 0. One that has done its work may be gone; `options`: of waitpid().
    void look_after_children(int options = WNOHANG) {
        bool lost = false;
        std::erase_if(children_, [&](pid_t child) {
            int status = 0;
            if (waitpid(child, &status, options) != child) return false;
            lost = lost || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
            return true;
        });
        if (lost) throw ProcessLost("one of the processes that share the trace died");
    }

    std::unique_ptr<Rings> rings_;
    int rank_;
    std::vector<pid_t> children_;
    std::vector<Peer> peers_;
    int next_ = 0, polls_ = 0;
};

}  // namespace

std::unique_ptr<Transport> forked_together(int processes) {
    auto rings = std::make_unique<Rings>(processes);
    if (!rings->good()) return nullptr;
    std::fflush(nullptr);  // otherwise all would print what is still in the buffers
    const pid_t first = getpid();
    std::vector<pid_t> children;
    for (int rank = 1; rank < processes; ++rank) {
        const pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != first) _exit(1);
            // The same guard that the first one has: what crashes or hangs ends, and process 0 sees it.
            if (const auto end = go_apart()) _exit(end->exit_code == 0 && !end->signal ? 0 : 1);
            return std::make_unique<ForkedTransport>(std::move(rings), rank, processes, std::vector<pid_t>());
        }
        if (child > 0) {
            children.push_back(child);
            continue;
        }
        for (const pid_t started : children) kill(started, SIGKILL);
        for (const pid_t started : children) waitpid(started, nullptr, 0);
        return nullptr;
    }
    return std::make_unique<ForkedTransport>(std::move(rings), 0, processes, std::move(children));
}

// How many share it; 1: one with a process that decodes ahead is as fast.
static int fastest_processes(const std::string& trace, int free) {
    Archive archive(trace);
    double least = decoding_ahead_part;
    int fastest = 1;
    for (int processes = 2; processes <= std::min({most_processes, free, archive.definitions().ranks}); processes *= 2) {
        const double part = expected_part(crossing_traffic(archive, processes), processes, processes);
        if (part > least) continue;
        least = part;
        fastest = processes;
    }
    return fastest;
}

Division fastest_division(const std::string& trace, bool several) {
    Division division;
    if (event_bytes(trace) < worth_bytes) return division;
    cpu_set_t allowed;
    const double free = free_cores(sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1, 1);
    if (free < 2) return division;
    if (several) division.processes = fastest_processes(trace, static_cast<int>(free));
    division.decode_ahead = division.processes == 1;
    return division;
}

}  // namespace polter::replay
