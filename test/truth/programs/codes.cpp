// SPDX-License-Identifier: BSD-3-Clause
#include "codes.hpp"

#include <algorithm>
#include <cmath>

namespace polter::truth {

const std::map<std::string, Program*>& codes() {
    static const std::map<std::string, Program*> all{{"npb_cg", npb_cg},
                                                     {"npb_mg", npb_mg},
                                                     {"npb_ft", npb_ft},
                                                     {"npb_is", npb_is},
                                                     {"npb_lu", npb_lu},
                                                     {"npb_bt", npb_bt},
                                                     {"lulesh", lulesh},
                                                     {"hpcg", hpcg},
                                                     {"minighost", minighost},
                                                     {"cloverleaf", cloverleaf},
                                                     {"comd", comd},
                                                     {"minimd", minimd},
                                                     {"sweep3d", sweep3d},
                                                     {"pipelined_cg", pipelined_cg},
                                                     {"pencil_fft", pencil_fft},
                                                     {"bfs", bfs},
                                                     {"amg", amg},
                                                     {"kmeans", kmeans},
                                                     {"summa", summa},
                                                     {"nbody", nbody}};
    return all;
}

Code::Code(const Parameters& parameters, int64_t longest)
    : in(std::max<int64_t>(longest, 64)),
      out(in.size()),
      parameters_(parameters),
      lasting_(1 + parameters.skew * (2 * draw(here_.rank, 1, 23) - 1)) {}

int Code::bytes(double share) const {
    return std::max(8, static_cast<int>(std::lround(static_cast<double>(parameters_.bytes) * share)));
}

void Code::work(double share) {
    compute_phase(parameters_, share * lasting_, rank(), stretches_++, 29);
}

void Code::post(int from, int tag) {
    if (from == MPI_PROC_NULL) return;
    MPI_Irecv(in.data(), static_cast<int>(in.size()), MPI_CHAR, from, tag, MPI_COMM_WORLD, &receives.emplace_back());
}

void Code::start(int to, int bytes, int tag) {
    if (to == MPI_PROC_NULL) return;
    MPI_Isend(out.data(), bytes, MPI_CHAR, to, tag, MPI_COMM_WORLD, &sends_.emplace_back());
}

void Code::send(int to, int bytes, int tag) {
    if (to != MPI_PROC_NULL) MPI_Send(out.data(), bytes, MPI_CHAR, to, tag, MPI_COMM_WORLD);
}

void Code::receive(int from, int tag) {
    if (from != MPI_PROC_NULL) MPI_Recv(in.data(), static_cast<int>(in.size()), MPI_CHAR, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void Code::wait_receives() {
    if (!receives.empty()) MPI_Waitall(static_cast<int>(receives.size()), receives.data(), MPI_STATUSES_IGNORE);
    receives.clear();
}

void Code::wait_sends() {
    if (!sends_.empty()) MPI_Waitall(static_cast<int>(sends_.size()), sends_.data(), MPI_STATUSES_IGNORE);
    sends_.clear();
}

void Code::wait_all() {
    receives.insert(receives.end(), sends_.begin(), sends_.end());
    sends_.clear();
    wait_receives();
}

void Code::wait_each() {
    for (MPI_Request& request : receives) MPI_Wait(&request, MPI_STATUS_IGNORE);
    receives.clear();
}

void Code::shift(int to, int from, int bytes) {
    MPI_Sendrecv(out.data(), bytes, MPI_CHAR, to, 0, in.data(), static_cast<int>(in.size()), MPI_CHAR, from, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

void Code::exchange(int to, int from, int bytes) {
    post(from);
    send(to, bytes);
    wait_each();
}

void Code::sum(int bytes, MPI_Comm comm) {
    MPI_Allreduce(out.data(), in.data(), bytes, MPI_CHAR, MPI_MAX, comm);
}

std::vector<Neighbour> touching_blocks(const Grid& grid) {
    std::vector<Neighbour> found;
    for (int number = 0; number < 27; ++number) {
        const int step[3] = {number / 9 - 1, number / 3 % 3 - 1, number % 3 - 1};
        Neighbour neighbour{0, 0, number < 13, number, 26 - number};
        bool inside = true;
        for (int d = 0; d < 3; ++d) {
            const int at = grid.coordinate(d) + step[d];
            inside = inside && at >= 0 && at < grid.size(d);
            neighbour.rank = neighbour.rank * grid.size(d) + at;
            neighbour.axes += step[d] != 0;
        }
        if (inside && neighbour.axes > 0) found.push_back(neighbour);
    }
    return found;
}

double share_of_halo(const Neighbour& neighbour) {
    return neighbour.axes == 1 ? 1 : neighbour.axes == 2 ? 0.03 : 0.001;
}

}  // namespace polter::truth
