// SPDX-License-Identifier: BSD-3-Clause
#include "exchange.hpp"

#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "../../write/clock.hpp"
#include "leaders.hpp"

namespace polter::mpi {
namespace {

constexpr int tag = 24'511;    // of the creation, among those of other groups on MPI_COMM_WORLD
constexpr int exchanges = 24;  // the first only brings both together
constexpr uint64_t meeting_ns = 1'000'000'000;
constexpr uint64_t patience_ns = 200'000;  // of polling before the CPU is left to others

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
    const int count = static_cast<int>(ranks_.size());
    spent_ns_ = 0;
    for (int step = 1; step < count && works_; step *= 2) {
        if (self_ < step && self_ + step < count) works_ = answer(self_ + step, limit_ns);
        if (self_ >= step && self_ < 2 * step) works_ = ask(self_ - step, limit_ns, archive);
    }
    return spent_ns_;
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
        if (waited < patience_ns) continue;
        const timespec pause{0, 50'000};
        nanosleep(&pause, nullptr);
    }
    pmpi.Cancel(&request);
    pmpi.Request_free(&request);
    return false;
}

bool ClockExchange::send(uint64_t& stamp, int to, uint64_t limit_ns) {
    MPI_Request request;
    if (pmpi.Isend(&stamp, sizeof stamp, constants.byte, to, 0, comm_, &request) != MPI_SUCCESS) return false;
    return wait(request, limit_ns);
}

bool ClockExchange::ask(int parent, uint64_t limit_ns, write::Archive* archive) {
    // A message that comes after all would still be written to these.
    static uint64_t sent, there;
    auto stamps = nlohmann::ordered_json::array();
    uint64_t met = 0;
    for (int i = 0; i < exchanges; ++i) {
        MPI_Request answer;
        if (pmpi.Irecv(&there, sizeof there, constants.byte, parent, 0, comm_, &answer) != MPI_SUCCESS) return false;
        const uint64_t before = sent = write::now();
        if (!send(sent, parent, limit_ns) || !wait(answer, limit_ns)) return false;
        const uint64_t back = write::now();
        if (i) stamps.push_back({before, there, back});
        if (!i) met = back;
    }
    spent_ns_ += write::now() - met;
    if (archive) archive->define({{"compared_with", ranks_[static_cast<size_t>(parent)]}, {"stamps", stamps}});
    return true;
}

bool ClockExchange::answer(int child, uint64_t limit_ns) {
    static uint64_t question, stamp;
    uint64_t met = 0;
    for (int i = 0; i < exchanges; ++i) {
        MPI_Request request;
        if (pmpi.Irecv(&question, sizeof question, constants.byte, child, 0, comm_, &request) != MPI_SUCCESS) return false;
        if (!wait(request, limit_ns)) return false;
        stamp = write::now();
        if (!i) met = stamp;
        if (!send(stamp, child, limit_ns)) return false;
    }
    spent_ns_ += write::now() - met;
    return true;
}

}  // namespace polter::mpi
