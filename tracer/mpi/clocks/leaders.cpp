// SPDX-License-Identifier: BSD-3-Clause
#include "leaders.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "../../conventions.hpp"
#include "../../write/clock.hpp"
#include "../../write/own_part.hpp"

namespace polter::mpi {
namespace {

constexpr const char* decision = "agreed";
constexpr time_t most_age_s = 10;  // of what another leader of the same job left

long number(const char* text) {
    if (!text || !*text) return -1;
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    return *end ? -1 : value;
}

// Slurm's "2(x3),1": two tasks on each of three nodes, one on the next.
int slurm_tasks(const char* list, long node) {
    for (const char* at = list; at && *at && node >= 0;) {
        char* end = nullptr;
        const long tasks = std::strtol(at, &end, 10);
        long nodes = 1;
        if (end == at) return 0;
        if (std::strncmp(end, "(x", 2) == 0) nodes = std::strtol(end + 2, &end, 10);
        if (*end == ')') ++end;
        if (node < nodes) return static_cast<int>(tasks);
        node -= nodes;
        at = *end == ',' ? end + 1 : nullptr;
    }
    return 0;
}

// "<rank>.<ranks on its node>.<process>.<clock>", as the name of an empty file. By its process it is told from that of another job that had
// the same name.
struct Leader {
    int rank = 0, on_node = 0, process = 0;
    std::string clock;
};

std::string file_name(const Leader& leader) {
    return std::to_string(leader.rank) + "." + std::to_string(leader.on_node) + "." + std::to_string(leader.process) + "." + leader.clock;
}

bool parse(const char* name, Leader& leader) {
    int read = 0;
    if (std::sscanf(name, "%d.%d.%d.%n", &leader.rank, &leader.on_node, &leader.process, &read) != 3 || !read) return false;
    leader.clock = name + read;
    return leader.rank >= 0 && leader.on_node > 0;
}

class Meeting {
  public:
    Meeting(std::string folder, const Leader& self) : folder_(std::move(folder)), self_(self) {}

    // False: this one takes no part.
    bool enter() {
        const size_t slash = folder_.rfind('/');
        mkdir(folder_.substr(0, slash).c_str(), 0777);
        mkdir(folder_.c_str(), 0777);
        own_ = folder_ + "/" + file_name(self_);
        const int file = ::open(own_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
        if (file < 0) return false;  // not ours alone: a job before had the same name, or the disk is full
        struct stat status {};
        fstat(file, &status);
        entered_ = status.st_mtime;
        ::close(file);
        return true;
    }

    // By rank. Empty: there are two of a rank, so two jobs have one name.
    std::map<int, Leader> present() const {
        std::map<int, Leader> leaders;
        bool twice = false;
        DIR* list = opendir(folder_.c_str());
        while (const dirent* entry = list ? readdir(list) : nullptr) {
            Leader leader;
            struct stat status {};
            if (!parse(entry->d_name, leader) || fstatat(dirfd(list), entry->d_name, &status, 0) != 0) continue;
            if (std::abs(status.st_mtime - entered_) <= most_age_s) twice |= !leaders.emplace(leader.rank, leader).second;
        }
        if (list) closedir(list);
        if (twice) leaders.clear();
        return leaders;
    }

    // The first one decides for all.
    void propose(const std::vector<Leader>& leaders) const {
        const std::string draft = folder_ + "/draft." + std::to_string(self_.rank), target = folder_ + "/" + decision;
        std::string text;
        for (const Leader& leader : leaders) text += file_name(leader) + "\n";
        const int file = ::open(draft.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
        const bool whole = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
        if (file >= 0) ::close(file);
        // Where no list can be written, that nobody is to take part still can be said.
        if (link(whole ? draft.c_str() : own_.c_str(), target.c_str()) != 0 && errno != EEXIST) return;
        unlink(draft.c_str());
    }

    // The ranks that take part; none unless this process does.
    bool decided(std::vector<int>& ranks) const {
        const int file = ::open((folder_ + "/" + decision).c_str(), O_RDONLY | O_CLOEXEC);
        if (file < 0) return false;
        std::string text;
        char block[4096];
        for (ssize_t got; (got = ::read(file, block, sizeof block)) > 0;) text.append(block, static_cast<size_t>(got));
        ::close(file);
        ranks.clear();
        bool takes_part = false;
        for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
            takes_part |= text.compare(at, end - at, file_name(self_)) == 0;
            ranks.push_back(std::atoi(text.c_str() + at));
        }
        if (!takes_part) ranks.clear();
        return true;
    }

  private:
    std::string folder_, own_;
    Leader self_;
    time_t entered_ = 0;
};

// The lowest rank of each clock.
std::vector<Leader> one_a_clock(const std::map<int, Leader>& leaders) {
    std::set<std::string> clocks;
    std::vector<Leader> first;
    for (const auto& [rank, leader] : leaders)
        if (clocks.insert(leader.clock).second) first.push_back(leader);
    if (first.size() < 2) first.clear();
    return first;
}

std::string harmless(std::string name) {
    for (char& c : name)
        if (c == '/' || c == '\0') c = '_';
    return name.substr(0, 100);
}

}  // namespace

LocalRank local_rank() {
    constexpr const char* names[][2] = {{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                        {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"}};
    for (const auto& [rank, size] : names)
        if (number(std::getenv(rank)) >= 0 && number(std::getenv(size)) > 0)
            return {static_cast<int>(number(std::getenv(rank))), static_cast<int>(number(std::getenv(size)))};
    const int tasks = slurm_tasks(std::getenv("SLURM_STEP_TASKS_PER_NODE"), number(std::getenv("SLURM_NODEID")));
    if (tasks > 0 && number(std::getenv("SLURM_LOCALID")) >= 0) return {static_cast<int>(number(std::getenv("SLURM_LOCALID"))), tasks};
    return {};
}

std::string clock_name() {
    if (const char* given = std::getenv(trace::env_clock); given && *given) return harmless(given);
    char text[64] = "";
    const int file = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file < 0) return "";
    const ssize_t got = ::read(file, text, sizeof text - 1);
    ::close(file);
    text[strcspn(text, "\n")] = 0;
    return got > 0 ? harmless(text) : "";
}

std::vector<int> agree_on_leaders(const std::string& experiment, const std::string& world, int rank, int size, const std::string& clock,
                                  uint64_t limit_ns) {
    const LocalRank local = local_rank();
    // One node, a rank that is not its node's first, or a launcher that does not say.
    if (clock.empty() || local.rank != 0 || local.size >= size) return {};
    const write::OwnPart own_part;
    Meeting meeting(experiment + "/" + trace::clocks_folder + "/" + harmless(world) + "." + std::to_string(size),
                    {rank, local.size, getpid(), clock});
    if (!meeting.enter()) return {};
    const uint64_t began = write::now();
    std::vector<int> ranks;
    for (long pause_ns = 200'000; !meeting.decided(ranks); pause_ns = std::min(pause_ns * 3 / 2, 10'000'000l)) {
        const uint64_t waited = write::now() - began;
        const auto leaders = meeting.present();
        int counted = 0;
        for (const auto& [first, leader] : leaders) counted += leader.on_node;
        if (counted >= size || waited > limit_ns) {
            // Whoever is present waits for the decision, so all of them can be counted on.
            meeting.propose(one_a_clock(leaders));
            if (meeting.decided(ranks)) break;
            if (waited > 10 * limit_ns) return {};  // a file system on which nothing can be decided
        }
        const timespec pause{0, pause_ns};
        nanosleep(&pause, nullptr);
    }
    return ranks;
}

}  // namespace polter::mpi
