// SPDX-License-Identifier: BSD-3-Clause
#include "exchange.hpp"

#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "../../clocks/narrowing.hpp"
#include "../../write/clock.hpp"
#include "../core/process.hpp"

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
    Leaders leaders = agree_on_leaders(experiment, world, rank, size, clock, meeting_ns);
    if (leaders.members.empty()) return nullptr;
    std::unique_ptr<ClockExchange> out(new ClockExchange(std::move(leaders)));
    return out->leaders_.datagrams || out->make_communicator() ? std::move(out) : nullptr;
}

ClockExchange::ClockExchange(Leaders leaders)
    : leaders_(std::move(leaders)), self_(leaders_.self), parent_(parent_of(self_)), children_(children_of(self_, this->leaders())) {
    const auto peer = [&](int position) {
        const Leader& leader = leaders_.members[static_cast<size_t>(position)];
        return Datagrams::peer(leader.nonce, leader.address);
    };
    for (const int child : children_) child_peers_.push_back(peer(child));
    if (parent_ >= 0) parent_peer_ = peer(parent_);
}

bool ClockExchange::make_communicator() {
    MPI_Group all, leaders;
    if (pmpi.Comm_group(constants.comm_world, &all) != MPI_SUCCESS) return false;
    std::vector<int> ranks;
    for (const Leader& leader : leaders_.members) ranks.push_back(leader.rank);
    // Where it fails, the program's own errors are not to be raised.
    MPI_Errhandler before;
    pmpi.Comm_get_errhandler(constants.comm_world, &before);
    pmpi.Comm_set_errhandler(constants.comm_world, constants.errors_return);
    const bool made = pmpi.Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &leaders) == MPI_SUCCESS &&
                      pmpi.Comm_create_group(constants.comm_world, leaders, tag, &comm_) == MPI_SUCCESS;
    pmpi.Comm_set_errhandler(constants.comm_world, before);
    pmpi.Errhandler_free(&before);
    pmpi.Group_free(&all);
    if (!made) return false;
    pmpi.Group_free(&leaders);
    pmpi.Comm_set_errhandler(comm_, constants.errors_return);
    return true;
}

uint64_t ClockExchange::run(write::Archive* archive, uint64_t limit_ns) {
    spent_ns_ = 0;
    ++round_;
    works_ = works_ && (leaders_.datagrams ? run_by_datagrams(archive, limit_ns) : run_by_mpi(archive, limit_ns));
    compared_at_ns_ = write::now();
    return spent_ns_;
}

// All pairs at the same time. Who has agreed on datagrams has compared already.
bool ClockExchange::run_by_datagrams(write::Archive* archive, uint64_t limit_ns) {
    Datagrams& datagrams = *leaders_.datagrams;
    std::vector<ClockStamps> stamps = std::exchange(leaders_.compared, {});
    if (round_ == 1) {
        if (parent_ >= 0) tell(archive, parent_, stamps);
        return true;
    }
    if (parent_ >= 0) {
        stamps = datagrams.compare(parent_peer_, round_, limit_ns);
        if (!stamps.empty()) tell(archive, parent_, stamps);
    }
    const bool came = datagrams.serve_all(child_peers_, round_, limit_ns);
    spent_ns_ = datagrams.take_spent_ns();
    return came && (parent_ < 0 || !stamps.empty());
}

// All pairs of a level at the same time.
bool ClockExchange::run_by_mpi(write::Archive* archive, uint64_t limit_ns) {
    if (parent_ >= 0 && !ask(parent_, limit_ns, archive)) return false;
    return std::all_of(children_.begin(), children_.end(), [&](int child) { return answer(child, limit_ns); });
}

void ClockExchange::tell(write::Archive* archive, int parent, const std::vector<ClockStamps>& exchanges) const {
    auto stamps = nlohmann::ordered_json::array();
    for (const ClockStamps& each : exchanges) stamps.push_back({each.sent, each.there, each.back});
    if (archive) archive->define({{"compared_with", leaders_.members[static_cast<size_t>(parent)].rank}, {"stamps", stamps}});
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
    works_ = spread(words, limit_ns);
    if (!works_) return write::now() - began;
    next_ = collectives_ + std::max<uint64_t>(words[1], 1);
    if (words[0]) run(archive, limit_ns);
    return write::now() - began;
}

bool ClockExchange::spread(uint64_t (&words)[2], uint64_t limit_ns) {
    if (Datagrams* const datagrams = leaders_.datagrams.get()) {
        if (parent_ >= 0) {
            const auto decision = datagrams->ask_decision(parent_peer_, collectives_, limit_ns);
            if (!decision) return false;
            words[0] = decision->compares;
            words[1] = decision->next;
        }
        datagrams->decide(collectives_, {words[0], words[1]});
        return datagrams->serve_decision(child_peers_, collectives_, limit_ns);
    }
    if (parent_ >= 0 && !receive(words, 2, parent_, limit_ns)) return false;
    return std::all_of(children_.begin(), children_.end(), [&](int child) { return send(words, 2, child, limit_ns); });
}

void ClockExchange::end() {
    if (!leaders_.datagrams && works_) pmpi.Comm_free(&comm_);
    leaders_.datagrams.reset();
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
    std::vector<ClockStamps> stamps;
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
    tell(archive, parent, stamps);
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
