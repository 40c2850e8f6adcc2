// SPDX-License-Identifier: BSD-3-Clause
#include "exchange.hpp"

#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "../../clocks/narrowing.hpp"
#include "../../write/clock.hpp"
#include "../core/process.hpp"
#include "leaders.hpp"

namespace polter::mpi {
namespace {

constexpr int tag = 24'511;  // of the creation, among those of other groups on MPI_COMM_WORLD
constexpr uint64_t meeting_ns = 1'000'000'000;
constexpr uint64_t patience_ns = 200'000;  // of polling before the CPU is left to others for longer:
// for that part of what was waited until then, so a round trip is measured by that much too long at most, and many processes that wait for
// their turn on few CPUs leave these to those whose turn it is.
constexpr uint64_t pause_part = 8, shortest_pause_ns = 50'000, longest_pause_ns = 10'000'000;

// What the child sends; the answer is a stamp.
enum Question : uint64_t { another = 0, last = 1 };

}  // namespace

std::unique_ptr<ClockExchange> ClockExchange::begin(const std::string& experiment, const std::string& world, int rank, int size,
                                                    const std::string& clock) {
    const std::vector<int> ranks = agree_on_leaders(experiment, world, rank, size, clock, meeting_ns);
    if (ranks.empty()) return nullptr;
    std::unique_ptr<ClockExchange> out(new ClockExchange(ranks));
    out->self_ = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
    MPI_Group all, leaders;
    if (pmpi.Comm_group(constants.comm_world, &all) != MPI_SUCCESS) return nullptr;
    // Where it fails, the program's own errors are not to be raised.
    MPI_Errhandler before;
    pmpi.Comm_get_errhandler(constants.comm_world, &before);
    pmpi.Comm_set_errhandler(constants.comm_world, constants.errors_return);
    const bool made = pmpi.Group_incl(all, static_cast<int>(ranks.size()), out->ranks_.data(), &leaders) == MPI_SUCCESS &&
                      pmpi.Comm_create_group(constants.comm_world, leaders, tag, &out->comm_) == MPI_SUCCESS;
    pmpi.Comm_set_errhandler(constants.comm_world, before);
    pmpi.Errhandler_free(&before);
    pmpi.Group_free(&all);
    if (!made) return nullptr;
    pmpi.Group_free(&leaders);
    pmpi.Comm_set_errhandler(out->comm_, constants.errors_return);
    return out;
}

uint64_t ClockExchange::run(write::Archive* archive, uint64_t limit_ns) {
    spent_ns_ = 0;
    for (int step = 1; step < leaders() && works_; step *= 2) {
        if (self_ < step && self_ + step < leaders()) works_ = answer(self_ + step, limit_ns);
        if (self_ >= step && self_ < 2 * step) works_ = ask(self_ - step, limit_ns, archive);
    }
    compared_at_ns_ = write::now();
    return spent_ns_;
}

void ClockExchange::repeat(uint64_t interval_ns) {
    interval_ns_ = interval_ns;
    met_at_ns_ = write::now();
}

uint64_t ClockExchange::joint_collective(write::Archive* archive, uint64_t limit_ns) {
    if (!works_ || ++collectives_ < next_) return 0;
    const uint64_t began = write::now();
    static uint64_t words[2];  // whether clocks are compared now; collectives until the next meeting
    if (self_ == 0) {
        const uint64_t since = began - compared_at_ns_,
                       each = std::max<uint64_t>((began - met_at_ns_) / (collectives_ - met_at_collective_), 1);
        words[0] = since >= interval_ns_;
        const uint64_t left = words[0] ? interval_ns_ : interval_ns_ - since;
        // What is known is how long collectives took until now.
        words[1] = std::clamp<uint64_t>(left / each, 1, collectives_);
        met_at_ns_ = began;
        met_at_collective_ = collectives_;
    }
    works_ = spread(words, 2, limit_ns);
    if (!works_) return write::now() - began;
    next_ = collectives_ + std::max<uint64_t>(words[1], 1);
    if (words[0]) run(archive, limit_ns);
    return write::now() - began;
}

bool ClockExchange::spread(void* words, int count, uint64_t limit_ns) {
    for (int step = 1; step < leaders(); step *= 2) {
        if (self_ < step && self_ + step < leaders() && !send(words, count, self_ + step, limit_ns)) return false;
        if (self_ >= step && self_ < 2 * step && !receive(words, count, self_ - step, limit_ns)) return false;
    }
    return true;
}

void ClockExchange::end() {
    if (works_) pmpi.Comm_free(&comm_);
}

bool ClockExchange::wait(MPI_Request& request, uint64_t limit_ns) {
    const uint64_t began = write::now();
    for (int done = 0;;) {
        if (pmpi.Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
        if (done) return true;
        const uint64_t waited = write::now() - began;
        if (waited > limit_ns) break;
        if (waited < patience_ns) {
            // Who is to answer may be waiting for this CPU.
            polter_noise_yield(thread.noise);
            continue;
        }
        const timespec pause{0, static_cast<long>(std::clamp(waited / pause_part, shortest_pause_ns, longest_pause_ns))};
        nanosleep(&pause, nullptr);
    }
    pmpi.Cancel(&request);
    pmpi.Request_free(&request);
    return false;
}

bool ClockExchange::send(const void* words, int count, int to, uint64_t limit_ns) {
    MPI_Request request;
    if (pmpi.Isend(words, count * static_cast<int>(sizeof(uint64_t)), constants.byte, to, 0, comm_, &request) != MPI_SUCCESS) return false;
    return wait(request, limit_ns);
}

bool ClockExchange::receive(void* words, int count, int from, uint64_t limit_ns) {
    MPI_Request request;
    if (pmpi.Irecv(words, count * static_cast<int>(sizeof(uint64_t)), constants.byte, from, 0, comm_, &request) != MPI_SUCCESS)
        return false;
    return wait(request, limit_ns);
}

// The first exchange only brings both together.
bool ClockExchange::ask(int parent, uint64_t limit_ns, write::Archive* archive) {
    // A message that comes after all would still be written to these.
    static uint64_t question, there;
    auto stamps = nlohmann::ordered_json::array();
    uint64_t met = 0;
    clocks::Narrowing interval;
    do {
        MPI_Request answer;
        if (pmpi.Irecv(&there, sizeof there, constants.byte, parent, 0, comm_, &answer) != MPI_SUCCESS) return false;
        question = interval.enough() ? last : another;
        const uint64_t before = write::now();
        if (!send(&question, 1, parent, limit_ns) || !wait(answer, limit_ns)) return false;
        const uint64_t back = write::now();
        if (!met) {
            met = back;
            continue;
        }
        stamps.push_back({before, there, back});
        interval.add(static_cast<int64_t>(before), static_cast<int64_t>(there), static_cast<int64_t>(back));
    } while (question != last);
    spent_ns_ += write::now() - met;
    if (archive) archive->define({{"compared_with", ranks_[static_cast<size_t>(parent)]}, {"stamps", stamps}});
    return true;
}

bool ClockExchange::answer(int child, uint64_t limit_ns) {
    static uint64_t question, stamp;
    uint64_t met = 0;
    do {
        if (!receive(&question, 1, child, limit_ns)) return false;
        stamp = write::now();
        if (!met) met = stamp;
        if (!send(&stamp, 1, child, limit_ns)) return false;
    } while (question != last);
    spent_ns_ += write::now() - met;
    return true;
}

}  // namespace polter::mpi
