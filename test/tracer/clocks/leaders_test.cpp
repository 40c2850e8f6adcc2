// SPDX-License-Identifier: BSD-3-Clause
// Which ranks compare clocks: all agree, whoever is missing, and nobody waits for ever.
#include "../../../tracer/mpi/clocks/leaders.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "../../../tracer/clocks/narrowing.hpp"

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
    bool by_mpi = false;  // it has no datagrams
};

using Ranks = std::vector<int>;

constexpr uint64_t limit_ns = 300'000'000;

struct Process {
    int rank;
    pid_t pid;
    int answer;  // what it takes for the leaders comes through here
};

// Whether leaders are to agree on datagrams, where a test asks for that.
std::optional<bool> by_datagrams;

bool as_expected(const mpi::Leaders& agreed) {
    if (!by_datagrams || agreed.members.empty()) return true;
    if (*by_datagrams != bool(agreed.datagrams)) return false;
    if (!agreed.datagrams || agreed.self == 0) return agreed.compared.empty();
    for (const auto& each : agreed.compared)
        if (each.sent > each.there || each.there > each.back) return false;
    return agreed.compared.size() >= clocks::Narrowing::least_slow;
}

std::vector<Process> start(const Experiment& experiment, const std::vector<Rank>& ranks, int size, bool confirms = true) {
    std::vector<Process> out;
    for (const Rank& rank : ranks) {
        int ends[2];
        REQUIRE(pipe(ends) == 0);
        const pid_t child = fork();
        if (child == 0) {
            setenv("OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank.local_rank).c_str(), 1);
            setenv("OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(rank.local_size).c_str(), 1);
            if (rank.by_mpi) setenv("POLTER_CLOCK_EXCHANGE", "mpi", 1);
            Ranks leaders;
            const auto agreed = mpi::agree_on_leaders(experiment.path, "world", rank.rank, size, rank.clock, limit_ns, confirms);
            for (const auto& leader : agreed.members) leaders.push_back(leader.rank);
            const auto bytes = leaders.size() * sizeof(int);
            _exit(write(ends[1], leaders.data(), bytes) == static_cast<ssize_t>(bytes) && as_expected(agreed) ? 0 : 1);
        }
        close(ends[1]);
        out.push_back({rank.rank, child, ends[0]});
    }
    return out;
}

std::map<int, Ranks> answers(const std::vector<Process>& processes) {
    std::map<int, Ranks> out;
    for (const Process& process : processes) {
        int leader = 0;
        out[process.rank];
        while (read(process.answer, &leader, sizeof leader) == sizeof leader) out[process.rank].push_back(leader);
        close(process.answer);
        int status = 0;
        waitpid(process.pid, &status, 0);
        CHECK(status == 0);
    }
    return out;
}

void kill_all(const std::vector<Process>& processes) {
    for (const Process& process : processes) {
        kill(process.pid, SIGKILL);
        waitpid(process.pid, nullptr, 0);
        close(process.answer);
    }
}

// What each of these processes of a world of `size` ranks takes for the leaders.
std::map<int, Ranks> agree(const Experiment& experiment, const std::vector<Rank>& ranks, int size, bool confirms = true) {
    return answers(start(experiment, ranks, size, confirms));
}

// As a leader of a killed job leaves it.
void leave_behind(const Experiment& experiment, const std::string& name, const std::string& text = "") {
    const auto folder = experiment.path / ".clocks" / "world.2" / "1";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / name) << text;
}

const std::vector<Rank> two{{0, 0, 1, "a"}, {1, 0, 1, "b"}};
const std::string killed = "1.1.0123456789abcdef..b", first_killed = "0.1.0123456789abcde0..a", nonce = "00000000000000ff";

}  // namespace

TEST_CASE("one rank of each clock") {
    Experiment experiment;
    const auto all = agree(experiment, {{0, 0, 2, "a"}, {1, 1, 2, "a"}, {2, 0, 2, "b"}, {3, 1, 2, "b"}, {4, 0, 1, "b"}, {5, 0, 1, "c"}}, 6);
    for (const int leader : {0, 2, 5}) CHECK(all.at(leader) == Ranks{0, 2, 5});
    for (const int other : {1, 3}) CHECK(all.at(other).empty());
    CHECK(all.at(4).empty());  // another node with the clock of rank 2
}

TEST_CASE("leaders have compared their clocks by datagrams where each reaches its parent, else none of them has") {
    std::vector<Rank> ranks;
    for (int rank = 0; rank < 11; ++rank) ranks.push_back({rank, 0, 1, "clock" + std::to_string(rank)});
    for (const int without : {-1, 0, 7}) {
        CAPTURE(without);
        Experiment experiment;
        by_datagrams = without < 0;
        for (Rank& rank : ranks) rank.by_mpi = rank.rank == without;
        for (const auto& [rank, leaders] : agree(experiment, ranks, 11)) CHECK(leaders.size() == 11);
        by_datagrams.reset();
    }
}

TEST_CASE("a tree over positions") {
    for (const int members : {1, 2, 3, 11, 64}) {
        std::vector<int> parents(static_cast<size_t>(members), -1);
        for (int position = 0; position < members; ++position)
            for (const int child : mpi::children_of(position, members)) parents[static_cast<size_t>(child)] = position;
        for (int position = 0; position < members; ++position) CHECK(parents[static_cast<size_t>(position)] == mpi::parent_of(position));
    }
    CHECK(mpi::children_of(0, 64) == Ranks{1, 2, 4, 8, 16, 32});
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

TEST_CASE("a second job of the same name meets anew") {
    Experiment experiment;
    for (int job = 0; job < 3; ++job)
        for (const auto& [rank, leaders] : agree(experiment, two, 2)) CHECK(leaders == Ranks{0, 1});
}

TEST_CASE("nobody waits for a leader of a killed job") {
    SUBCASE("which had only come") {
        Experiment experiment;
        leave_behind(experiment, "here." + killed);
        CHECK(agree(experiment, {two[0]}, 2).at(0).empty());
        // Whoever does not ask for an answer takes it for there, and would wait for it by MPI.
        Experiment again;
        leave_behind(again, "here." + killed);
        CHECK(agree(again, {two[0]}, 2, false).at(0) == Ranks{0, 1});
    }
    SUBCASE("which came with all others, and the job that follows has all of them") {
        Experiment experiment;
        leave_behind(experiment, "here." + killed);
        leave_behind(experiment, "here." + first_killed);
        for (const auto& [rank, leaders] : agree(experiment, two, 2)) CHECK((leaders == Ranks{0, 1} || leaders.empty()));
    }
    SUBCASE("which had confirmed a proposal") {
        Experiment experiment;
        leave_behind(experiment, "here." + killed);
        leave_behind(experiment, "proposed", nonce + "\n" + first_killed + "\n" + killed + "\n");
        leave_behind(experiment, "confirmed." + nonce + ".m" + killed);
        for (const auto& [rank, leaders] : agree(experiment, two, 2)) CHECK(leaders == Ranks{0, 1});
    }
    SUBCASE("whose files say anything") {
        Experiment experiment;
        leave_behind(experiment, "here.7");
        leave_behind(experiment, "here.-1.1.0123456789abcdef..b");
        leave_behind(experiment, "proposed", "../../x\n\n0.0\n");
        for (const auto& [rank, leaders] : agree(experiment, two, 2)) CHECK(leaders == Ranks{0, 1});
    }
}

TEST_CASE("a job killed at any time: the leaders of the next one are in agreement") {
    std::mt19937 draw(1);
    for (int seed = 0; seed < 6; ++seed) {
        CAPTURE(seed);
        Experiment experiment;
        const std::vector<Rank> three{{0, 0, 1, "a"}, {1, 0, 1, "b"}, {2, 0, 1, "c"}};
        auto before = three;
        before.erase(before.begin() + static_cast<long>(draw() % 3));  // one is slow to come
        const auto processes = start(experiment, before, 3);
        usleep(static_cast<useconds_t>(draw() % 400'000));
        kill_all(processes);
        const auto all = agree(experiment, three, 3);
        for (const auto& [rank, leaders] : all)
            for (const int other : leaders) CHECK(all.at(other) == leaders);
    }
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
