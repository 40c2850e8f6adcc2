// SPDX-License-Identifier: BSD-3-Clause
// Which records of a process's threads belong together: the k-th ThreadTeamBegin of each member on a communicator is one execution of a
// parallel region, the k-th barrier of each member in it one barrier. A member that has ended its share has come to all later barriers.
#include "teams.hpp"

#include <algorithm>

#include "steps.hpp"

namespace polter::replay {

void Engine::happens(ThreadEvent& event, Thread& thread, int64_t time, const int64_t* delay, uint64_t node) {
    event.by = &thread;
    event.known = true;
    event.time = time;
    event.node = node;
    event.delay = lane_pool_.copy(delay);
    for (Thread* waiting : event.waiting) wake(waiting);
    event.waiting.clear();
}

void Engine::on_fork(Thread& thread) {
    come_to(thread);
    thread.last = thread.now;
    end_of_idleness(thread);
    if (thread.in_call) return;
    begin_interval(thread);
    if (recorder_) thread.node = recorder_->begin_call(thread.recorded(), thread.now);
    ThreadEvent& fork = thread.teams.forks.emplace_back();
    if (!learning_) happens(fork, thread, thread.now, thread.delay, thread.node);
    note(thread, thread.now, no_region);
}

std::shared_ptr<Team> Engine::team_of(uint32_t comm, uint64_t ordinal, const std::vector<int32_t>& members) {
    std::shared_ptr<Team>& team = teams_[{comm, ordinal}];
    if (team) return team;
    team = std::make_shared<Team>();
    team->comm = comm;
    team->ordinal = ordinal;
    team->members.resize(members.size());
    for (size_t i = 0; i < members.size(); ++i)
        team->members[i].end.by = members[i] < 0 ? nullptr : threads_[static_cast<size_t>(members[i])].get();
    team->fork.by = team->members[0].end.by;  // likely the master
    return team;
}

void Engine::on_team_begin(Thread& thread, uint32_t comm) {
    const bool first = !thread.started;
    come_to(thread);
    thread.last = thread.now;
    TeamPlaces& teams = thread.teams;
    if (thread.in_call && thread.kind != CallKind::thread_idle) end_of_idleness(thread);
    if (thread.in_call && thread.kind != CallKind::thread_idle) return;
    const auto defined = archive_.definitions().teams.find(comm);
    const bool known = defined != archive_.definitions().teams.end();
    const auto place = known ? std::find(defined->second.begin(), defined->second.end(), static_cast<int32_t>(thread.index))
                             : std::vector<int32_t>::const_iterator();
    if (!known || place == defined->second.end()) {
        count(Flaw::thread_missing);
        end_of_idleness(thread);
        return;
    }
    const std::shared_ptr<Team> team = learning_ ? nullptr : team_of(comm, teams.begun[comm]++, defined->second);
    const bool master = !teams.forks.empty();
    TeamPlace& mine = teams.open.emplace_back();
    mine.team = team;
    mine.comm = comm;
    mine.member = static_cast<size_t>(place - defined->second.begin());
    mine.master = master;
    if (master) {
        ThreadEvent fork = std::move(teams.forks.back());
        teams.forks.pop_back();
        const int64_t* delay = fork.delay;
        if (team) happens(team->fork, thread, fork.time, delay, fork.node);
        begin_interval(thread);
        note(thread, thread.now, no_region);
        return;
    }
    if (!thread.in_call) open_call(thread, CallKind::thread_idle, no_region, no_call_site);
    teams.fork = team ? &team->fork : nullptr;
    teams.begins = first;
    close_call(thread);
}

void Engine::ends_share(Thread& thread, Team& team, size_t member) {
    Team::Member& mine = team.members[member];
    mine.ended = true;
    mine.tasks = thread.teams.tasks;
    ++team.ended;
    if (recorder_) thread.node = recorder_->begin_call(thread.recorded(), thread.now);
    happens(mine.end, thread, thread.now, thread.delay, thread.node);
    for (uint64_t number = std::max(team.first_barrier, mine.barriers); number < team.first_barrier + team.barriers.size(); ++number) {
        Barrier& barrier = barrier_of(team, number);
        barrier.tasks = barrier.tasks || thread.teams.tasks;
        happens(barrier.arrivals[member], thread, thread.now, thread.delay, thread.node);
        ++barrier.left;
    }
}

void Engine::on_team_end(Thread& thread, uint32_t comm) {
    come_to(thread);
    thread.last = thread.now;
    end_of_idleness(thread);
    std::vector<TeamPlace>& open = thread.teams.open;
    const auto of_team = [&](const TeamPlace& place) { return place.comm == comm; };
    const auto found = std::find_if(open.rbegin(), open.rend(), of_team);
    if (found == open.rend() || thread.in_call) return;
    TeamPlace place = std::move(*found);
    open.erase(std::next(found).base(), open.end());
    if (place.team) ends_share(thread, *place.team, place.member);
    thread.teams.tasks = false;
    if (place.master) thread.teams.joining = place.team;
    begin_interval(thread);
    open_call(thread, place.master ? CallKind::thread_join : CallKind::thread_idle, no_region, no_call_site);
    note(thread, thread.now, no_region);
}

void Engine::on_join(Thread& thread) {
    come_to(thread);
    thread.last = thread.now;
    thread.teams.forks.clear();
    if (thread.in_call && thread.kind == CallKind::thread_join) close_call(thread);
}

ThreadEvent* Engine::team_fork(Thread& thread) {
    return std::exchange(thread.teams.fork, nullptr);
}

Barrier& Engine::barrier_of(Team& team, uint64_t number) {
    while (number >= team.first_barrier + team.barriers.size()) {
        Barrier& added = team.barriers.emplace_back();
        added.arrivals.resize(team.members.size());
        for (size_t i = 0; i < team.members.size(); ++i) {
            Team::Member& member = team.members[i];
            added.arrivals[i].by = member.end.by;
            if (!member.ended) continue;
            added.tasks = added.tasks || member.tasks;
            ++added.left;
            ThreadEvent& arrival = added.arrivals[i];
            arrival.known = true;
            arrival.time = member.end.time;
            arrival.node = member.end.node;
            arrival.delay = lane_pool_.copy(member.end.delay);
        }
    }
    return team.barriers[number - team.first_barrier];
}

void Engine::come_to_barrier(Thread& thread, std::vector<ThreadEvent*>& others) {
    thread.teams.at_barrier = !thread.teams.open.empty() && thread.teams.open.back().team;
    if (!thread.teams.at_barrier) return;
    TeamPlace& place = thread.teams.open.back();
    Team& team = *place.team;
    thread.teams.behind_barrier = true;
    const uint64_t number = thread.teams.barrier = team.members[place.member].barriers++;
    Barrier& barrier = barrier_of(team, number);
    barrier.tasks = barrier.tasks || std::exchange(thread.teams.tasks, false);
    happens(barrier.arrivals[place.member], thread, thread.enter, thread.delay, thread.enter_node);
    for (size_t i = 0; i < barrier.arrivals.size(); ++i)
        if (i != place.member) others.push_back(&barrier.arrivals[i]);
}

void Engine::leave_barrier(Thread& thread) {
    if (!std::exchange(thread.teams.at_barrier, false) || thread.teams.open.empty()) return;
    Team& team = *thread.teams.open.back().team;
    ++barrier_of(team, thread.teams.barrier).left;
    while (!team.barriers.empty() && team.barriers.front().left >= team.members.size()) {
        team.barriers.pop_front();
        ++team.first_barrier;
    }
}

void Engine::members_ends(Thread& thread, std::vector<ThreadEvent*>& others) {
    if (!thread.teams.joining || thread.teams.behind_barrier) return;
    for (Team::Member& member : thread.teams.joining->members)
        if (member.end.by != &thread) others.push_back(&member.end);
}

void Engine::joined(Thread& thread) {
    if (const std::shared_ptr<Team> team = std::exchange(thread.teams.joining, nullptr)) teams_.erase({team->comm, team->ordinal});
}

}  // namespace polter::replay
