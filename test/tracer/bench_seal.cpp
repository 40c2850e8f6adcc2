// SPDX-License-Identifier: BSD-3-Clause
// Seconds, memory and open files that sealing takes, by ranks and workers: one JSON line each.
//
//     bench_seal FOLDER [RANKS[:ROUNDS]…]    default: 1 100 1000 10000; what was made stays in FOLDER
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "../../tracer/seal/seal.hpp"
#include "seal_job.hpp"

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

void measure(const fs::path& folder, const seal_test::JobSpec& job, unsigned workers) {
    const auto experiment = folder / fmt::format("{}-{}", job.ranks, workers);
    fs::remove_all(experiment);
    seal_test::write_job(experiment, job);
    const pid_t pid = fork();  // so that each has its own peak of memory
    if (pid == 0) {
        const auto begin = Clock::now();
        const auto report = polter::seal::seal({.experiment = experiment, .command = "ring", .workers = workers});
        const std::chrono::duration<double> took = Clock::now() - begin;
        rusage own{}, children{};
        getrusage(RUSAGE_SELF, &own);
        getrusage(RUSAGE_CHILDREN, &children);
        fmt::print("{{\"ranks\": {}, \"workers\": {}, \"seconds\": {:.3f}, \"events\": {}, \"peak_mib\": {}, \"worker_peak_mib\": {}}}\n",
                   job.ranks, workers, took.count(), report.events, own.ru_maxrss / 1024, children.ru_maxrss / 1024);
        std::fflush(stdout);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) fmt::print("{{\"ranks\": {}, \"workers\": {}, \"failed\": {}}}\n", job.ranks, workers, status);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    std::vector<std::string> wanted(argv + 2, argv + argc);
    if (wanted.empty()) wanted = {"1", "100", "1000", "10000"};
    for (const auto& each : wanted) {
        seal_test::JobSpec job{.ranks = static_cast<uint32_t>(std::strtoul(each.c_str(), nullptr, 10)), .ranks_a_host = 64};
        if (const auto colon = each.find(':'); colon != std::string::npos)
            job.rounds = static_cast<unsigned>(std::strtoul(each.c_str() + colon + 1, nullptr, 10));
        for (const unsigned workers : {1u, 2u}) measure(argv[1], job, workers);
    }
    return 0;
}
