// SPDX-License-Identifier: BSD-3-Clause
#include "leaders.hpp"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "../../conventions.hpp"
#include "../../write/clock.hpp"
#include "../../write/own_part.hpp"

namespace polter::mpi {
namespace {

constexpr int most_meetings = 8;
constexpr uint64_t first_round = 1;  // of ClockExchange

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

// The lowest rank of each clock, this one among them. None: it is not, there is one clock only, or there are two of a rank, so two jobs
// have one name.
Leaders one_a_clock(const std::vector<Leader>& by_rank, const Leader& self) {
    std::set<std::string> clocks;
    std::set<int> ranks;
    Leaders first;
    bool takes_part = false;
    for (const Leader& leader : by_rank) {
        if (!ranks.insert(leader.rank).second) return {};
        if (!clocks.insert(leader.clock).second) continue;
        if (leader == self) {
            first.self = static_cast<int>(first.members.size());
            takes_part = true;
        }
        first.members.push_back(leader);
    }
    if (first.members.size() < 2 || !takes_part) first.members.clear();
    return first;
}

// Waits a little longer each time, and answers others in that time. All nodes together look at the folder at most 20000 times a second for
// long.
class Pause {
  public:
    Pause(int nodes, Datagrams* answers, bool lists_first = true)
        : longest_ns_(std::clamp(nodes * 50'000l, 2'000'000l, 100'000'000l)),
          not_listed_ns_(lists_first ? 16 * longest_ns_ : 0),
          answers_(answers) {}
    void wait() {
        const timespec pause{0, ns_};
        bool news = false;
        if (answers_)
            news = answers_->serve(write::now() + static_cast<uint64_t>(ns_));
        else
            nanosleep(&pause, nullptr);
        not_listed_ns_ += ns_;
        ns_ = news ? first_ns : std::min(ns_ * 3 / 2, longest_ns_);
    }
    // Whether the folder is to be listed now, which takes as long as there are nodes. Whoever came last saw all others there at once; who
    // came earlier lists again only in case the file system shows with delay what others made.
    bool lists() {
        if (not_listed_ns_ < 16 * longest_ns_) return false;
        not_listed_ns_ = 0;
        return true;
    }

  private:
    static constexpr long first_ns = 200'000;
    long ns_ = first_ns, longest_ns_, not_listed_ns_;
    Datagrams* answers_;
};

// Whether all ranks are on the nodes of these.
bool complete(const std::vector<Leader>& by_rank, int size) {
    int counted = 0, last = -1;
    for (const Leader& leader : by_rank)
        if (std::exchange(last, leader.rank) != leader.rank) counted += leader.on_node;
    return counted >= size;
}

// Compares with the parent among these. False: it cannot be reached, and MPI is needed.
bool compare_with_parent(Leaders& leaders, uint64_t limit_ns) {
    Datagrams* const datagrams = leaders.datagrams.get();
    const int parent = parent_of(leaders.self);
    if (leaders.members.empty() || parent < 0) return leaders.members.empty() || datagrams;
    if (!datagrams) return false;
    const Leader& other = leaders.members[static_cast<size_t>(parent)];
    Datagrams::Peer peer = Datagrams::peer(other.nonce, other.address);
    leaders.compared = datagrams->compare(peer, first_round, limit_ns);
    return !leaders.compared.empty();
}

void tell_news(const Datagrams* datagrams, const std::vector<Leader>& members) {
    std::vector<Datagrams::Peer> peers;
    for (const Leader& member : members) peers.push_back(Datagrams::peer(member.nonce, member.address));
    if (datagrams) datagrams->tell_news(peers);
}

// Those of whom each knows that the others are there; none: this one came too late for that, or cannot take part.
Leaders meet(const Meeting& meeting, int size, uint64_t until_ns, uint64_t limit_ns, bool confirms, std::unique_ptr<Datagrams>& datagrams,
             std::vector<Leader>& there) {
    const int nodes = size / std::max(1, meeting.self().on_node);  // if all have as many ranks
    std::optional<Meeting::Proposal> proposal;
    std::string own_proposal;
    there.clear();
    for (Pause pause(nodes, datagrams.get()); !(proposal = meeting.proposed()); pause.wait()) {
        const bool late = write::now() > until_ns;
        if (!late && !pause.lists()) continue;
        if (!late && !complete(meeting.present(false), size)) continue;
        const auto present = meeting.present(true);
        if (!late && !complete(present, size)) continue;
        own_proposal = meeting.propose(present);
        if (!(proposal = meeting.proposed())) {
            if (late) return {};  // a file system on which nothing can be decided
            continue;
        }
        if (proposal->nonce == own_proposal) tell_news(datagrams.get(), proposal->members);
        break;
    }
    if (!proposal->has(meeting.self())) return {};
    if (!confirms) {
        there = proposal->members;
        return one_a_clock(there, meeting.self());
    }
    // Those who take part, if all confirm.
    Leaders proposed = one_a_clock(proposal->members, meeting.self());
    proposed.datagrams = std::move(datagrams);
    const bool reached = compare_with_parent(proposed, limit_ns / 4);
    datagrams = std::move(proposed.datagrams);
    if (!meeting.confirm(*proposal, reached)) return {};
    // Whoever has confirmed is alive and stays until there is a decision. It needs nobody else for that: after half of the limit it takes
    // those who are there.
    const uint64_t began = write::now();
    const bool proposes = proposal->nonce == own_proposal;  // and so lists the confirmations, which takes as long as there are nodes
    std::optional<Meeting::Agreement> agreed;
    for (Pause pause(nodes, datagrams.get(), false); !(agreed = meeting.decided(*proposal)); pause.wait()) {
        const uint64_t waited = write::now() - began;
        if (waited > 10 * limit_ns) return {};
        if (waited <= limit_ns / 2 && !proposes && !pause.lists()) continue;
        const auto confirmed = meeting.confirmed(*proposal);
        if (confirmed.members.size() < proposal->members.size() && waited <= limit_ns / 2) continue;
        meeting.decide(*proposal, confirmed);
        tell_news(datagrams.get(), confirmed.members);
    }
    if (std::find(agreed->members.begin(), agreed->members.end(), meeting.self()) == agreed->members.end()) return {};
    there = agreed->members;
    Leaders out = one_a_clock(there, meeting.self());
    if (agreed->by_datagrams && out.members == proposed.members) {
        out.datagrams = std::move(datagrams);
        out.compared = std::move(proposed.compared);
    }
    return out;
}

std::string harmless(std::string name) {
    for (char& c : name)
        if (c == '/' || c == '\0') c = '_';
    return name.substr(0, 100);
}

// Hydra gives a job no name that its processes could read. What starts them on each node was told a port of the launcher's, though.
std::string hydra_port() {
    if (const char* given = std::getenv("PMI_PORT"); given && *given) return given;
    if (!std::getenv("PMI_FD")) return "";
    constexpr std::string_view option = "--control-port";
    pid_t process = getppid();
    for (int generation = 0; generation < 8 && process > 1; ++generation) {  // wrappers may be in between
        const std::string about = "/proc/" + std::to_string(process);
        std::ifstream command(about + "/cmdline", std::ios::binary);
        for (std::string word; std::getline(command, word, '\0');)
            if (word == option && std::getline(command, word, '\0')) return word;
        std::ifstream stat(about + "/stat");
        std::string line;
        std::getline(stat, line);
        const size_t name_end = line.rfind(") ");
        if (name_end == std::string::npos || std::sscanf(line.c_str() + name_end, ") %*c %d", &process) != 1) break;
    }
    return "";
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

int parent_of(int position) {
    return position ? position - static_cast<int>(std::bit_floor(static_cast<unsigned>(position))) : -1;
}

std::vector<int> children_of(int position, int members) {
    std::vector<int> out;
    for (int step = 1; position + step < members; step *= 2)
        if (position < step) out.push_back(position + step);
    return out;
}

Leaders agree_on_leaders(const std::string& experiment, const std::string& world, int rank, int size, const std::string& clock,
                         uint64_t limit_ns, bool confirms) {
    const LocalRank local = local_rank();
    // One node, a rank that is not its node's first, or a launcher that does not say.
    if (clock.empty() || local.rank != 0 || local.size >= size) return {};
    const write::OwnPart own_part;
    const std::string folder =
        experiment + "/" + trace::clocks_folder + "/" + harmless(world + hydra_port()) + "." + std::to_string(size) + "/";
    Leader self{rank, local.size, new_nonce(), "", clock};
    const char* const exchange = std::getenv(trace::env_clock_exchange);
    std::unique_ptr<Datagrams> datagrams;
    if (!exchange || std::string_view(exchange) != "mpi") datagrams = Datagrams::open(self.nonce);
    if (datagrams) self.address = datagrams->address();
    const uint64_t until_ns = write::now() + limit_ns;
    // What a killed job left may be in the first one. Where that keeps processes of this job apart they meet again in the next one.
    for (int number = 1; number <= most_meetings; ++number) {
        Meeting meeting(folder + std::to_string(number), self);
        if (!meeting.enter()) return {};
        std::vector<Leader> there;
        Leaders leaders = meet(meeting, size, until_ns, limit_ns, confirms, datagrams, there);
        if (!leaders.members.empty() || complete(there, size) || write::now() > until_ns) return leaders;
    }
    return {};
}

}  // namespace polter::mpi
