// SPDX-License-Identifier: BSD-3-Clause
// Parallel regions as OTF2 has them: ThreadFork and ThreadJoin on the thread that begins a region, ThreadTeamBegin and ThreadTeamEnd around
// the share of each member, Enter and Leave of barriers.
//
// A worker's share ends where its function returns, since it is not seen when it leaves the region's last barrier. The master's implicit
// barrier has a region, as it is seen to come back from it.
//
// A team is known by its master and its size: runtimes keep their threads in a pool, so the same threads come again. Of a pool that shrinks
// threads end, and when it grows again, new ones take their places: such a thread continues the location of one that has ended.
#include "teams.hpp"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "../../conventions.hpp"
#include "../../threads/openmp_hooks.h"
#include "core/process.hpp"
#include "locks.hpp"

namespace polter::mpi {
namespace {

constexpr int most_members = 1024;       // of one team
constexpr uint32_t most_retired = 1000;  // teams of one master

struct Team {
    explicit Team(int size) : members(static_cast<size_t>(size)) {}
    uint32_t comm = 0;
    std::vector<std::atomic<write::Location*>> members;  // by number in the team
};

// Those of one master.
struct Teams {
    std::array<std::atomic<Team*>, most_members + 1> by_size{};
    std::atomic<uint32_t> retired = 0;
};
std::mutex teams_mutex;

struct Own {
    Teams* teams = nullptr;  // as a master
    Team* team = nullptr;    // of the share that the thread is in, if it is recorded
    uint32_t within = 0;     // regions that the thread has begun in that share
    bool dynamic = false;    // since the last barrier, work was handed out as threads asked
    bool at_barrier = false;
    uint32_t barrier_region = 0;  // entered
};
constinit thread_local Own own;

// Local ids; defined by the first region, so that programs without have none.
struct Regions {
    std::once_flag defined;
    uint32_t barrier = 0, implicit_barrier = 0, dynamic_barrier = 0, task = 0, taskwait = 0;
} regions;

void define_regions() {
    regions.barrier = process.archive->region_id(trace::openmp_barrier_name, nullptr, 0);
    regions.implicit_barrier = process.archive->region_id(trace::openmp_implicit_barrier_name, nullptr, 0);
    regions.dynamic_barrier = process.archive->region_id(trace::openmp_dynamic_barrier_name, nullptr, 0);
    regions.task = process.archive->region_id(trace::openmp_task_name, nullptr, 0);
    regions.taskwait = process.archive->region_id(trace::openmp_taskwait_name, nullptr, 0);
}

bool active() {
    return process.on.load(std::memory_order_relaxed);
}

void warn(std::atomic<bool>& warned, const char* text) {
    if (!warned.exchange(true, std::memory_order_relaxed)) process.archive->warn(text);
}

Team* team_of(Teams& teams, int size) {
    if (size < 1 || size > most_members) {
        static std::atomic<bool> warned;
        warn(warned, "parallel regions of more than 1024 threads are not recorded");
        return nullptr;
    }
    std::atomic<Team*>& slot = teams.by_size[static_cast<size_t>(size)];
    if (Team* team = slot.load(std::memory_order_acquire)) [[likely]]
        return team;
    const write::NoCancel no_cancel;
    const std::lock_guard lock(teams_mutex);
    if (Team* team = slot.load(std::memory_order_relaxed)) return team;
    if (teams.retired.load(std::memory_order_relaxed) > most_retired) {
        static std::atomic<bool> warned;
        warn(warned, "parallel regions are not recorded any more: the runtime exchanges their threads all the time");
        return nullptr;
    }
    auto team = std::make_unique<Team>(size);
    team->comm = process.comms->new_id();
    process.archive->define({{"comm", team->comm}, {"team", size}});
    slot.store(team.get(), std::memory_order_release);
    return team.release();
}

// That of a thread that has none; `before`: of the thread whose place it takes. NULL: it gets none.
write::Location* begin_location(write::Location* before) {
    const write::NoCancel no_cancel;
    ++thread.depth;  // a signal handler in between must not wait for the lock
    write::Location* mine = nullptr;
    {
        const std::lock_guard lock(process.places_mutex);
        if (active()) mine = place_thread(before);
    }
    --thread.depth;
    return mine;
}

write::Location* whose_place(Teams& teams, int number, int size) {
    Team* team = size < 1 || size > most_members ? nullptr : teams.by_size[static_cast<size_t>(size)].load(std::memory_order_acquire);
    return team && number >= 0 && number < size ? team->members[static_cast<size_t>(number)].load(std::memory_order_acquire) : nullptr;
}

// False: this region has no records of the thread. A place that belongs to another thread, as one that ends has not given it back yet, or
// threads have exchanged their places: the team is not used again, so that the k-th region of each member stays the same one.
bool take_place(Teams& teams, Team& team, int number, write::Location& mine) {
    if (number < 0 || static_cast<size_t>(number) >= team.members.size()) return false;
    std::atomic<write::Location*>& place = team.members[static_cast<size_t>(number)];
    write::Location* before = place.load(std::memory_order_acquire);
    if (before == &mine) [[likely]]
        return true;
    if (!before && place.compare_exchange_strong(before, &mine)) {
        process.archive->define({{"comm", team.comm}, {"member", number}, {"thread", trace::thread_of(mine.id())}});
        return true;
    }
    Team* current = &team;
    if (teams.by_size[team.members.size()].compare_exchange_strong(current, nullptr)) teams.retired.fetch_add(1, std::memory_order_relaxed);
    static std::atomic<bool> warned;
    warn(warned, "some parallel regions lack the records of a thread: the runtime made new threads, or exchanged their places");
    return false;
}

int fork(polter_parallel* parallel) {
    if (!recording() || thread.depth > 0) return 0;
    if (own.team || (thread.location && thread.location->team_ending())) {  // or in a task in its last barrier
        ++own.within;
        return 1;
    }
    if (!thread.location && !adopt_thread_now()) return 0;
    const Use use(thread.location);
    if (!use) return 0;
    if (!own.teams) {
        std::call_once(regions.defined, define_regions);
        own.teams = new Teams{};
    }
    parallel->master = own.teams;
    use.at().fork(use.at().early_stamp(), parallel->requested);
    return 1;
}

void begin_share(polter_parallel* parallel, int number, int size) {
    if (!recording()) return;
    if (!parallel->master && size > 1) not_recorded(polter_nested_regions);
    if (!parallel->master) return;
    if (own.team) return;
    Teams& teams = *static_cast<Teams*>(parallel->master);
    if (!thread.location && !begin_location(whose_place(teams, number, size))) return;
    const Use use(thread.location);
    if (!use) return;
    write::Location& location = use.at();
    Team* team = team_of(teams, size);
    if (!team || !take_place(teams, *team, number, location)) return;
    location.end_team();  // of its share before
    own.team = team;
    own.dynamic = parallel->dynamic != 0;
    const bool sampled = location.sampled();
    if (sampled) [[unlikely]]
        location.begin_sample();
    const uint64_t time = parallel->master == own.teams ? location.early_stamp() : location.stamp();  // behind the fork, on a worker
    location.team_begin(time, team->comm);
    if (sampled) [[unlikely]]
        location.sample(location.read_clock() - time);  // stands for the end as well
}

void enter(write::Location& location, uint32_t region, const void* from) {
    own.at_barrier = true;
    own.barrier_region = trace::region_count + region;
    location.enter_openmp(location.early_stamp(), own.barrier_region, from);
}

void end_share(polter_parallel* parallel) {
    if (!recording() || !parallel->master || !own.team) return;
    const Use use(thread.location);
    if (!use) return;
    write::Location& location = use.at();
    if (parallel->master == own.teams) {
        enter(location, own.dynamic ? regions.dynamic_barrier : regions.implicit_barrier, parallel->from);
    } else {
        location.team_ends(location.early_stamp(), own.team->comm);
        own.team = nullptr;
    }
}

void join(polter_parallel* parallel) {
    if (!parallel->master) {
        if (own.within > 0) --own.within;
        return;
    }
    if (!recording()) return;
    const Use use(thread.location);
    if (!use) return;
    write::Location& location = use.at();
    const uint64_t time = location.stamp();
    if (own.team) {
        if (own.at_barrier) location.leave_openmp(time, own.barrier_region);
        location.team_end(time, own.team->comm);
        own.at_barrier = false;
        own.team = nullptr;
    }
    location.join(time);
}

void enter_barrier(const void* from) {
    if (!own.team || own.within > 0 || thread.depth > 0 || !recording()) return;
    const Use use(thread.location);
    if (!use) return;
    write::Location& location = use.at();
    const bool sampled = location.sampled();
    uint64_t before = 0;
    if (sampled) [[unlikely]] {
        location.begin_sample();
        before = location.read_clock();
    }
    enter(location, own.dynamic ? regions.dynamic_barrier : regions.barrier, from);
    own.dynamic = false;
    if (sampled) [[unlikely]]
        location.sample(location.read_clock() - before);  // stands for the Leave as well
}

void leave_barrier() {
    if (!own.at_barrier) return;
    own.at_barrier = false;
    if (!recording()) return;
    if (const Use use(thread.location); use) use.at().leave_openmp(use.at().stamp(), own.barrier_region);
}

void dynamic_loop() {
    if (own.team && own.within == 0) own.dynamic = true;
}

// In a share, or in the last barrier of one. What is begun is ended, whatever happens to the tracing.
bool in_share() {
    return recording() && thread.depth == 0 && own.within == 0 && thread.location && (own.team || thread.location->team_ending());
}

int begin_task(const void* from) {
    if (!in_share()) return 0;
    const Use use(thread.location);
    if (use) use.at().begin_task(use.at().early_stamp(), trace::region_count + regions.task, from);
    return static_cast<bool>(use);
}

void end_task() {
    if (!recording()) return;
    if (const Use use(thread.location); use) use.at().end_task(use.at().early_stamp(), trace::region_count + regions.task);
}

int enter_taskwait(const void* from) {
    if (!in_share()) return 0;
    const Use use(thread.location);
    if (use) use.at().enter_openmp(use.at().early_stamp(), trace::region_count + regions.taskwait, from);
    return static_cast<bool>(use);
}

void leave_taskwait() {
    if (!recording()) return;
    if (const Use use(thread.location); use) use.at().leave_openmp(use.at().stamp(), trace::region_count + regions.taskwait);
}

constexpr polter_openmp_hooks hooks{fork,         join,         begin_share,    end_share,     enter_barrier, leave_barrier,
                                    not_recorded, dynamic_loop, lock_wanted,    lock_had,      lock_got,      lock_released,
                                    begin_task,   end_task,     enter_taskwait, leave_taskwait};

}  // namespace

void not_recorded(int what) {
    static std::array<std::atomic<bool>, polter_not_recorded_kinds> told;
    std::atomic<bool>& once = told[static_cast<size_t>(what)];
    if (once.load(std::memory_order_relaxed)) return;
    if (const Use use(thread.location); use && !once.exchange(true, std::memory_order_relaxed))
        process.archive->define({{"not_recorded", trace::not_recorded_names[static_cast<size_t>(what)]}});
}

// The runtime itself is not asked: it would begin earlier than the program wants.
uint32_t pages_for_openmp() {
    constexpr unsigned others = 16;  // of threads that are none of OpenMP's, and of teams that grow again
    if (!dlsym(RTLD_DEFAULT, "omp_get_max_threads")) return 0;
    const char* asked = std::getenv("OMP_NUM_THREADS");
    unsigned long threads = asked ? std::strtoul(asked, nullptr, 10) : 0;
    cpu_set_t cpus;
    if (threads == 0 && sched_getaffinity(0, sizeof cpus, &cpus) == 0) threads = static_cast<unsigned long>(CPU_COUNT(&cpus));
    return static_cast<uint32_t>(std::min<unsigned long>(threads, most_members)) + others;
}

void follow_openmp() {
    auto* at = static_cast<std::atomic<const polter_openmp_hooks*>*>(dlsym(RTLD_DEFAULT, "polter_openmp_hooks"));
    if (at) at->store(&hooks, std::memory_order_release);
}

}  // namespace polter::mpi
