// SPDX-License-Identifier: BSD-3-Clause
// Several analysis processes as one: batches of records between them, what all know together, and the error of one that ends all.
//
// Process 0 prints and writes. Whoever fails tells the others, who then throw PeerError.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "replay/base/bytes.hpp"
#include "transport.hpp"

namespace polter::replay {

// Another process has failed: what() is what it had to say.
struct PeerError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Group {
  public:
    explicit Group(std::unique_ptr<Transport> transport);

    int rank() const { return transport_->rank(); }
    int size() const { return transport_->size(); }

    // Records for another process: appended to its batch, which goes when it is full or with flush().
    Bytes& to(int process) { return batches_[static_cast<size_t>(process)]; }
    void written(int process);  // a record is complete
    void flush();
    // Gives what has come to `handle(process, records)`; true if there was anything.
    bool deliver(const std::function<void(int, const Bytes&)>& handle);

    // Asks whether nobody has anything to do any more and nothing is under way. Called by one who has nothing to do; others need not have
    // come as far. `mine`: what all are to know of this process then. Until it is decided: empty; then what each said, by process.
    // By counting in two waves (Mattern, Distributed Computing 2(3), 1987, the four counter method).
    std::vector<Bytes> quiet(const Bytes& mine);
    // What each says, by process; all must call it. Records that come meanwhile are kept for deliver().
    std::vector<Bytes> gather(const Bytes& mine);

    // Between two looks at what has come, `idle` in vain so far: where there are fewer cores than processes, looking all the time would
    // keep the others from their work.
    static void rest(int idle);

    // Tells the others why this one cannot go on; called once, before close().
    void fail(const std::string& why);
    // Waits until all have come to their end; after an error not for ever.
    void close(bool failed);

    // The first byte of each message.
    enum class Kind : uint8_t { records, wave, wave_result, gather, gather_result, error, end };

  private:
    struct Round {  // process 0: what has come of what all say
        std::vector<Bytes> said;
        int missing = 0;
    };

    void send(int to, Kind kind, const Bytes& bytes);
    bool poll();  // takes one message from the transport
    void say(Kind kind, const Bytes& mine);
    void heard(Kind kind, int from, Bytes bytes);
    static std::vector<Bytes> split(const Bytes& result);

    std::unique_ptr<Transport> transport_;
    std::vector<Bytes> batches_;
    std::deque<std::pair<int, Bytes>> inbox_;
    Round wave_, gather_;
    bool waving_ = false;  // this process has said what it has to say
    std::vector<Bytes> wave_result_, gather_result_;
    uint64_t sent_ = 0, received_ = 0, received_before_ = UINT64_MAX;
    int ended_ = 0, idle_ = 0;
    bool closing_ = false;
};

}  // namespace polter::replay
