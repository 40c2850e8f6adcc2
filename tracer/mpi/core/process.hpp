// SPDX-License-Identifier: BSD-3-Clause
// What this process knows while it is traced, from MPI_Init to MPI_Finalize.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "../../write/archive.hpp"
#include "../clocks/exchange.hpp"
#include "comms.hpp"
#include "detail.hpp"
#include "mpi.hpp"
#include "requests.hpp"

namespace polter::mpi {

struct Window;
using Windows = std::unordered_map<uint64_t, Window>;  // by handle, see windows.hpp
struct Partitioned;
using Files = std::unordered_map<uint64_t, uint32_t>;  // by handle: the local id of the communicator

struct Process {
    std::atomic<bool> on{false};  // calls are traced; false before MPI_Init, after MPI_Finalize, after a failure, in a forked child
    Detail detail;
    bool merges_polls = true;  // failing polls in a row become one call in the trace
    bool threaded = false;     // MPI_THREAD_MULTIPLE: the tables below need their lock
    write::Archive* archive = nullptr;
    std::atomic<write::Archive*> ended = nullptr;  // behind MPI_Finalize, which counts what is lost: the same
    polter_session* session = nullptr;             // with the exporter's daemon
    Comms* comms = nullptr;
    Requests* requests = nullptr;
    Messages* messages = nullptr;
    Windows* windows = nullptr;
    Files* files = nullptr;
    Partitioned* partitioned = nullptr;
    ClockExchange* clocks = nullptr;  // NULL: this rank compares no clocks
    uint32_t next_window = 0;         // id
    std::mutex mutex;                 // of all these tables
    std::atomic<uint64_t> request_id{1};
    std::atomic<uint32_t> threads{1};
    // Held by whoever gives a thread its location, ends one, or ends the tracing: a thread that the program started may do so at any time.
    std::mutex places_mutex;
};
extern Process process;

// Holds the tables' lock where it is needed.
class TableLock {
  public:
    TableLock() {
        if (process.threaded) process.mutex.lock();
    }
    ~TableLock() {
        if (process.threaded) process.mutex.unlock();
    }
    TableLock(const TableLock&) = delete;
};

inline uint64_t new_request_id() {
    return process.request_id.fetch_add(1, std::memory_order_relaxed);
}

// Memory that a thread's calls use over and over.
struct Scratch {
    std::vector<MPI_Request> handles;
    std::vector<uint32_t> taken;
    std::vector<MPI_Status> statuses;
    // A Fortran program's arguments in C.
    std::vector<MPI_Request> requests;
    std::vector<MPI_Datatype> types[2];
    std::vector<int> indices;
};

struct Thread {
    write::Location* location = nullptr;
    polter_noise* noise = nullptr;  // where the thread writes its page itself, and must be told of its yields
    write::NoiseFeed* feed = nullptr;
    Scratch* scratch = nullptr;
    uint32_t depth = 0;  // of MPI calls: an MPI may call its own functions by their public names
};
extern constinit thread_local Thread thread;

inline Scratch& scratch() {
    if (!thread.scratch) thread.scratch = new Scratch;
    return *thread.scratch;
}

template <typename T>
T* room(std::vector<T>& memory, int count) {
    if (memory.size() < static_cast<size_t>(count)) memory.resize(static_cast<size_t>(count));
    return memory.data();
}

// A thread's first traced call: its location. NULL if there is none to be had.
write::Location* adopt_thread();
// The same where another thread may be ending the trace meanwhile.
write::Location* adopt_thread_now();
// The same for a thread that takes the place of one that has ended, `before` if that has: it continues that one's location. So there are no
// more locations than such threads at one time. Under places_mutex.
write::Location* place_thread(write::Location* before);

// Around what a thread writes at any time, also while another one ends the trace. False: the thread has no location, or nothing is recorded
// any more. An MPI call of a signal handler in between is not the program's.
class Use {
  public:
    explicit Use(write::Location* location) : location_(location) {
        ++thread.depth;
        if (location_ && !location_->begin_use(process.on)) [[unlikely]]
            location_ = nullptr;
    }
    ~Use() {
        if (location_) location_->end_use();
        --thread.depth;
    }
    Use(const Use&) = delete;
    explicit operator bool() const { return location_ != nullptr; }
    write::Location& at() const { return *location_; }

  private:
    write::Location* location_;
};

// False: nothing is recorded. Behind the end of the trace the event is counted.
inline bool recording() {
    if (process.on.load(std::memory_order_relaxed)) [[likely]]
        return true;
    if (thread.location && process.ended.load(std::memory_order_relaxed)) thread.location->miss();
    return false;
}

}  // namespace polter::mpi
