// SPDX-License-Identifier: BSD-3-Clause
// Several analysis processes as one: batches of records between them, collective agreement, and errors that end all.
//
// Process 0 prints and writes. A process that fails tells the others, which then throw PeerError.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "replay/base/bytes.hpp"
#include "transport.hpp"

namespace polter::replay {

// Another process has failed; what() is its message.
struct PeerError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Group {
  public:
    explicit Group(std::unique_ptr<Transport> transport);

    int rank() const { return transport_->rank(); }
    int size() const { return transport_->size(); }

    // Records for another process: appended to its batch, which is sent when it is full or by flush(). `awaited`: one record is enough for
    // a thread there to go on, so batches with such are sent earlier.
    Bytes& to(int process) { return batches_[static_cast<size_t>(process)]; }
    void written(int process, bool awaited);  // marks the end of a record
    void flush(bool all = true);              // or only what is awaited
    // Passes what has arrived to `handle(process, records)`; true if anything had.
    bool deliver(const std::function<void(int, const Bytes&)>& handle);

    // Termination detection; called by a process that cannot continue, at whatever point the others are. Returns nothing while undecided.
    // Once no process can continue and no record is under way: `mine` of each process, by process. Counts messages in two waves (the four
    // counter method; Mattern, Distributed Computing 2(3), 1987).
    std::vector<Bytes> quiet(const Bytes& mine);
    // `mine` of each process, by process. Collective; records that arrive meanwhile are kept for deliver().
    std::vector<Bytes> gather(const Bytes& mine);

    // Pause between two polls, after `idle` polls without a message: where there are fewer cores than processes, busy polling would slow
    // the others down.
    static void rest(int idle);

    // Tells the others why this process failed; called once, before close().
    void fail(const std::string& why);
    // Waits for the end of all processes; after an error, for a limited time.
    void close(bool failed);

    // The last byte of each message.
    enum class Kind : uint8_t { records, wave, wave_result, gather, gather_result, error, end };

  private:
    struct Round {  // in process 0: the contributions received so far
        std::vector<Bytes> said;
        int missing = 0;
    };

    void send(int to, Kind kind, Bytes bytes);
    void send_batch(int to);
    Bytes spare();
    bool poll();  // receives one message from the transport
    void say(Kind kind, const Bytes& mine);
    void heard(Kind kind, int from, Bytes bytes);
    static std::vector<Bytes> split(const Bytes& result);

    std::unique_ptr<Transport> transport_;
    std::vector<Bytes> batches_;
    std::vector<bool> awaited_;  // by process: its batch holds what is awaited
    std::deque<std::pair<int, Bytes>> inbox_;
    std::vector<Bytes> spare_;
    Round wave_, gather_;
    bool waving_ = false;  // this process has sent its contribution
    std::vector<Bytes> wave_result_, gather_result_;
    uint64_t sent_ = 0, received_ = 0, received_before_ = UINT64_MAX;
    int ended_ = 0, idle_ = 0;
    bool closing_ = false;
};

}  // namespace polter::replay
