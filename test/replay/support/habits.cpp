// SPDX-License-Identifier: BSD-3-Clause
#include "habits.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace polter::test {

namespace {

using Kind = Record::Kind;
using Records = std::vector<Record>;

constexpr int64_t step = 20;  // ns between two records of one call

bool begins_something(const Record& r) {
    return r.kind == Kind::send || r.kind == Kind::isend || r.kind == Kind::irecv_request || r.kind == Kind::collective_begin ||
           r.kind == Kind::collective_request;
}

bool of_blocking_collective(const Record& r) {
    return r.kind == Kind::collective_begin || r.kind == Kind::collective_end || r.kind == Kind::window_collective;
}

// Calls `change` with the positions of Enter and Leave of each MPI call.
void each_call(Records& records, const std::function<void(size_t, size_t)>& change) {
    for (size_t enter = 0; enter < records.size(); ++enter) {
        if (records[enter].kind != Kind::enter || !records[enter].name.starts_with("MPI_")) continue;
        size_t leave = enter + 1;
        while (leave < records.size() && records[leave].kind != Kind::leave) ++leave;
        if (leave < records.size()) change(enter, leave);
        enter = leave;
    }
}

void in_order_of_time(Records& records) {
    std::stable_sort(records.begin(), records.end(), [](const Record& a, const Record& b) { return a.time < b.time; });
}

// The processor writes records: not while noise has it.
bool stolen(const Records& records, int64_t time) {
    return std::any_of(records.begin(), records.end(), [&](const Record& r) {
        const int64_t end = r.time - static_cast<int64_t>(r.ago);
        return r.kind == Kind::noise && end - r.ns < time && time < end;
    });
}

void message_after_enter(TraceSpec& trace) {
    for (Records& records : trace.records) {
        each_call(records, [&](size_t enter, size_t leave) {
            int64_t time = records[enter].time;
            for (size_t i = enter + 1; i < leave; ++i) {
                if (!begins_something(records[i]) || records[i].time != records[enter].time) continue;
                time += step;
                if (time < records[leave].time && !stolen(records, time)) records[i].time = time;
            }
        });
        in_order_of_time(records);
    }
}

void leave_after_completion(TraceSpec& trace) {
    for (Records& records : trace.records) {
        each_call(records, [&](size_t enter, size_t leave) {
            const int64_t later = records[leave].time + 2 * step;
            const bool room = leave + 1 < records.size() && records[leave + 1].time > later;
            if (!room || stolen(records, later)) return;
            const int64_t before = std::exchange(records[leave].time, later);
            for (size_t i = enter + 1; i < leave; ++i)  // counters are read when the call is left
                if (records[i].kind == Kind::noise && records[i].time == before) records[i].time = later;
        });
        in_order_of_time(records);
    }
}

// Records of one call at one time in another order. Those of one channel keep theirs: it says which message is which.
void other_order(TraceSpec& trace) {
    for (Records& records : trace.records)
        each_call(records, [&](size_t enter, size_t leave) {
            const auto key = [](const Record& r) { return std::make_tuple(-static_cast<int>(r.kind), -r.peer, -r.tag); };
            for (size_t from = enter + 1; from < leave;) {
                size_t to = from;
                while (to < leave && records[to].time == records[from].time && records[to].kind != Kind::noise) ++to;
                const auto at = records.begin() + static_cast<int64_t>(from);
                std::stable_sort(at, records.begin() + static_cast<int64_t>(to),
                                 [&](const auto& a, const auto& b) { return key(a) < key(b); });
                from = std::max(to, from + 1);
            }
        });
}

void collective_at(TraceSpec& trace, bool at_leave) {
    for (Records& records : trace.records) {
        each_call(records, [&](size_t enter, size_t leave) {
            for (size_t i = enter + 1; i < leave; ++i)
                if (of_blocking_collective(records[i])) records[i].time = records[at_leave ? leave : enter].time;
        });
        in_order_of_time(records);
    }
}

void requests_at_leave(TraceSpec& trace) {
    for (Records& records : trace.records) {
        each_call(records, [&](size_t enter, size_t leave) {
            for (size_t i = enter + 1; i < leave; ++i)
                if (records[i].kind == Kind::isend || records[i].kind == Kind::irecv_request || records[i].kind == Kind::collective_request)
                    records[i].time = records[leave].time;
        });
        in_order_of_time(records);
    }
}

// Requests do not say what they were posted for, as Score-P's.
void postings_without_source(TraceSpec& trace) {
    for (Records& records : trace.records)
        for (Record& r : records)
            if (r.kind == Kind::irecv_request && r.peer >= 0 && r.partitioned == 0) r.posted = false;
}

// Non-blocking messages as blocking ones, without their requests.
void plain_messages(TraceSpec& trace) {
    for (Records& records : trace.records) {
        std::set<uint64_t> wildcards;
        for (Record& r : records) {
            if (r.partitioned != 0) continue;
            if (r.kind == Kind::irecv_request && r.posted && (r.peer < 0 || r.tag < 0)) wildcards.insert(r.request);
            if (r.kind == Kind::isend) r.kind = Kind::send;
            if (r.kind == Kind::irecv) {
                r.kind = Kind::recv;
                r.wildcard = wildcards.contains(r.request);
            }
        }
        std::erase_if(records, [](const Record& r) {
            return r.partitioned == 0 && (r.kind == Kind::isend_complete || r.kind == Kind::irecv_request || r.kind == Kind::request_test);
        });
    }
}

void whole_microseconds(TraceSpec& trace) {
    trace.ticks_per_second = 1'000'000;
    for (Records& records : trace.records)
        for (Record& r : records) {
            r.time /= 1000;
            r.ago /= 1000;
        }
}

// Only the names of regions tell of collectives, as in TAU's traces.
void collectives_by_name(TraceSpec& trace) {
    for (Records& records : trace.records)
        std::erase_if(records, [](const Record& r) {
            return r.kind == Kind::collective_begin || r.kind == Kind::collective_end || r.kind == Kind::collective_request ||
                   r.kind == Kind::collective_complete;
        });
}

}  // namespace

const std::vector<Habit>& habits() {
    static const std::vector<Habit> all{
        {"message_after_enter", 10 * step, message_after_enter},
        {"leave_after_completion", 10 * step, leave_after_completion},
        {"other_order", 0, other_order},
        {"collective_at_enter", 0, [](TraceSpec& trace) { collective_at(trace, false); }},
        {"collective_at_leave", 0, [](TraceSpec& trace) { collective_at(trace, true); }},
        {"requests_at_leave", 0, requests_at_leave},
        {"postings_without_source", 0, postings_without_source},
        {"plain_messages", 0, plain_messages},
        {"whole_microseconds", 4000, whole_microseconds},
        {"collectives_by_name", 0, collectives_by_name},
    };
    return all;
}

void stretch(TraceSpec& trace, int64_t factor) {
    for (Records& records : trace.records)
        for (Record& r : records) {
            r.time *= factor;
            r.ns *= factor;
            r.ago *= static_cast<uint64_t>(factor);
        }
}

}  // namespace polter::test
