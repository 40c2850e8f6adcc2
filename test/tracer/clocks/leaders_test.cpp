// SPDX-License-Identifier: BSD-3-Clause
// Which ranks compare clocks: all agree, whoever is missing, and nobody waits for ever.
#include "../../../tracer/mpi/clocks/leaders.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

using namespace polter;

namespace {

struct Experiment {
    std::filesystem::path path;
    Experiment() {
        char name[] = "/tmp/polter-leaders-XXXXXX";
        path = mkdtemp(name);
    }
    ~Experiment() { std::filesystem::remove_all(path); }
};

struct Rank {
    int rank, local_rank, local_size;
    std::string clock;
};

using Ranks = std::vector<int>;

// What each of these processes of a world of `size` ranks takes for the leaders.
std::map<int, Ranks> agree(const Experiment& experiment, const std::vector<Rank>& ranks, int size) {
    std::map<int, int> answers;
    std::vector<pid_t> children;
    for (const Rank& rank : ranks) {
        int ends[2];
        REQUIRE(pipe(ends) == 0);
        const pid_t child = fork();
        if (child == 0) {
            setenv("OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank.local_rank).c_str(), 1);
            setenv("OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(rank.local_size).c_str(), 1);
            const Ranks leaders = mpi::agree_on_leaders(experiment.path, "world", rank.rank, size, rank.clock, 300'000'000);
            const auto bytes = leaders.size() * sizeof(int);
            _exit(write(ends[1], leaders.data(), bytes) == static_cast<ssize_t>(bytes) ? 0 : 1);
        }
        close(ends[1]);
        answers[rank.rank] = ends[0];
        children.push_back(child);
    }
    for (const pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(status == 0);
    }
    std::map<int, Ranks> out;
    for (const auto& [rank, end] : answers) {
        int leader = 0;
        out[rank];
        while (read(end, &leader, sizeof leader) == sizeof leader) out[rank].push_back(leader);
        close(end);
    }
    return out;
}

}  // namespace

TEST_CASE("one rank of each clock") {
    Experiment experiment;
    const auto all = agree(experiment, {{0, 0, 2, "a"}, {1, 1, 2, "a"}, {2, 0, 2, "b"}, {3, 1, 2, "b"}, {4, 0, 1, "b"}, {5, 0, 1, "c"}}, 6);
    for (const int leader : {0, 2, 5}) CHECK(all.at(leader) == Ranks{0, 2, 5});
    for (const int other : {1, 3}) CHECK(all.at(other).empty());
    CHECK(all.at(4).empty());  // another node with the clock of rank 2
}

TEST_CASE("one node makes no file") {
    Experiment experiment;
    CHECK(agree(experiment, {{0, 0, 2, "a"}, {1, 1, 2, "a"}}, 2).at(0).empty());
    CHECK(std::filesystem::is_empty(experiment.path));
}

TEST_CASE("without the rank of a node that is not traced the others agree on themselves") {
    Experiment experiment;
    const auto all = agree(experiment, {{0, 0, 1, "a"}, {2, 0, 1, "c"}}, 3);
    CHECK(all.at(0) == all.at(2));
    CHECK(all.at(0) == Ranks{0, 2});
}

TEST_CASE("alone, a rank gives up") {
    Experiment experiment;
    CHECK(agree(experiment, {{1, 0, 1, "b"}}, 2).at(1).empty());
}

TEST_CASE("whoever comes after the decision, or has the name of a job before, takes no part") {
    Experiment experiment;
    CHECK(agree(experiment, {{0, 0, 1, "a"}, {2, 0, 1, "c"}}, 3).at(0) == Ranks{0, 2});
    for (const auto& [rank, leaders] : agree(experiment, {{0, 0, 1, "a"}, {1, 0, 1, "b"}, {2, 0, 1, "c"}}, 3)) CHECK(leaders.empty());
}

TEST_CASE("a directory that cannot be written to") {
    Experiment experiment;
    experiment.path /= "missing/there";
    CHECK(agree(experiment, {{0, 0, 1, "a"}, {1, 0, 1, "b"}}, 2).at(0).empty());
    experiment.path = experiment.path.parent_path().parent_path();
}

TEST_CASE("what Slurm says of a node") {
    setenv("SLURM_STEP_TASKS_PER_NODE", "2(x2),1", 1);
    setenv("SLURM_LOCALID", "0", 1);
    for (const auto& [node, tasks] : {std::pair{"0", 2}, {"1", 2}, {"2", 1}, {"3", 0}}) {
        setenv("SLURM_NODEID", node, 1);
        CHECK(mpi::local_rank().size == tasks);
    }
    for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID", "SLURM_NODEID"}) unsetenv(name);
}
