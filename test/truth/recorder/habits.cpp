// SPDX-License-Identifier: BSD-3-Clause
#include "habits.hpp"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

namespace polter::truth {

namespace {

bool begins_request(Kind kind) {
    return kind == Kind::mpi_isend || kind == Kind::mpi_irecv_request || kind == Kind::nonblocking_collective_request;
}

bool of_blocking_collective(Kind kind) {
    return kind == Kind::collective_begin || kind == Kind::collective_end || kind == Kind::rma_collective_begin ||
           kind == Kind::rma_collective_end;
}

// Records are written by the processor: not while noise has it.
int64_t with_processor(const std::vector<NoiseEvent>& noise, int64_t time) {
    const auto next = std::upper_bound(noise.begin(), noise.end(), time, [](int64_t t, const NoiseEvent& event) { return t < event.end; });
    return next != noise.end() && next->start < time ? next->end : time;
}

// `call`: from Enter to Leave; `next`: when the rank enters the next one.
void move_inside(std::vector<Event>& call, int64_t next, const std::vector<NoiseEvent>& noise) {
    constexpr int64_t first = 40, each = 20;  // what a recorder's own work takes
    const int64_t enter = call.front().time, leave = call.back().time;
    if (enter == leave) return;
    int64_t begun = 0, completed = 0;
    for (auto event = call.begin() + 1; event != call.end() - 1; ++event) {
        if (event->time == enter)
            event->time = with_processor(noise, enter + std::min((leave - enter) / 3, first + each * begun++));
        else
            ++completed;
    }
    if (completed == 0) return;
    const int64_t later = leave + std::min((next - leave) / 3, first + each * completed);
    if (with_processor(noise, later) == later) call.back().time = later;
}

void move_requests(std::vector<Event>& call) {
    for (Event& event : call)
        if (begins_request(event.kind)) event.time = call.back().time;
}

void move_collective(std::vector<Event>& call, int64_t to) {
    for (Event& event : call)
        if (of_blocking_collective(event.kind)) event.time = to;
    std::stable_sort(call.begin() + 1, call.end() - 1, [](const Event& a, const Event& b) { return a.time < b.time; });
}

// Without the records of requests. A receive tells as before that it was posted with a wildcard.
void make_plain(std::vector<Event>& call, std::unordered_map<uint64_t, Event>& posted) {
    for (Event& event : call) {
        if (event.kind == Kind::mpi_irecv_request) posted[event.request] = event;
        if (event.kind == Kind::mpi_isend) event.kind = Kind::mpi_send;
        if (event.kind == Kind::mpi_irecv) {
            event.kind = Kind::mpi_recv;
            const Event& posting = posted[event.request];
            event.posted_peer = posting.peer;
            event.posted_tag = posting.tag;
            event.wildcard = posting.peer < 0 || posting.tag < 0;
        }
    }
    std::erase_if(call, [](const Event& event) {
        return event.kind == Kind::mpi_isend_complete || event.kind == Kind::mpi_irecv_request || event.kind == Kind::mpi_request_test;
    });
}

}  // namespace

Habit habit_of(const std::string& name) {
    const std::map<std::string, Habit> names{{"inside", Habit::inside},
                                             {"ticks", Habit::ticks},
                                             {"plain", Habit::plain},
                                             {"requests_at_leave", Habit::requests_at_leave},
                                             {"collective_at_enter", Habit::collective_at_enter},
                                             {"collective_at_leave", Habit::collective_at_leave}};
    const auto found = names.find(name);
    if (found == names.end()) throw std::invalid_argument("no habit of a recorder: " + name);
    return found->second;
}

int64_t tick_ns(Habit habit) {
    return habit == Habit::ticks ? 1000 : 1;
}

std::vector<Event> with_habit(const Recording::Rank& rank, Habit habit) {
    std::vector<Event> written, call;
    std::unordered_map<uint64_t, Event> posted;
    for (size_t i = 0; i < rank.events.size(); ++i) {  // calls do not nest
        call.push_back(rank.events[i]);
        if (rank.events[i].kind != Kind::leave) continue;
        switch (habit) {
            case Habit::none:
            case Habit::ticks:
                break;
            case Habit::inside:
                move_inside(call, i + 1 < rank.events.size() ? rank.events[i + 1].time : rank.events[i].time, rank.noise);
                break;
            case Habit::plain:
                make_plain(call, posted);
                break;
            case Habit::requests_at_leave:
                move_requests(call);
                break;
            case Habit::collective_at_enter:
                move_collective(call, call.front().time);
                break;
            case Habit::collective_at_leave:
                move_collective(call, call.back().time);
                break;
        }
        written.insert(written.end(), call.begin(), call.end());
        call.clear();
    }
    return written;
}

}  // namespace polter::truth
