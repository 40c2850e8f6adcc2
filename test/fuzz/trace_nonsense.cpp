// SPDX-License-Identifier: BSD-3-Clause
#include "trace_nonsense.hpp"

#include <fmt/format.h>
#include <otf2/otf2.h>

#include <algorithm>

namespace polter::test {

namespace {

constexpr int64_t numbers[] = {
    0,         1,         2, 3, 7, -1, 1000, 1'000'000, 1'000'000'000, 2147483647, 4294967295, int64_t{1} << 40, int64_t{1} << 62,
    INT64_MAX, INT64_MIN, 12};

int64_t number(Random& random) {
    return numbers[below(random, std::size(numbers))];
}

// OTF2 writes no time below the last one.
void keep_order(std::vector<Record>& records) {
    for (size_t i = 1; i < records.size(); ++i)
        if (static_cast<uint64_t>(records[i].time) < static_cast<uint64_t>(records[i - 1].time)) records[i].time = records[i - 1].time;
}

std::string change(Record& record, const TraceSpec& spec, Random& random) {
    switch (below(random, 14)) {
        case 0:
            record.peer = random() % 2 ? static_cast<int64_t>(below(random, spec.ranks() + 1)) : number(random);
            return fmt::format("peer {}", record.peer);
        case 1:
            record.tag = number(random);
            return fmt::format("tag {}", record.tag);
        case 2:
            record.comm = static_cast<uint32_t>(random() % 2 ? below(random, spec.comms.size() + 2) : static_cast<size_t>(number(random)));
            return fmt::format("communicator {}", record.comm);
        case 3:
            record.bytes = static_cast<uint64_t>(number(random));
            return fmt::format("{} bytes", record.bytes);
        case 4:
            record.request = static_cast<uint64_t>(random() % 2 ? static_cast<int64_t>(below(random, 8)) : number(random));
            return fmt::format("request {}", record.request);
        case 5:
            record.operation = static_cast<int>(random() % 2 ? below(random, 30) : static_cast<size_t>(random() % 256));
            return fmt::format("operation {}", record.operation);
        case 6:
            record.mode = static_cast<int>(below(random, 6));
            return fmt::format("mode {}", record.mode);
        case 7:
            record.posted = !record.posted;
            return "posting told or not";
        case 8:
            record.wildcard = !record.wildcard;
            return "wildcard or not";
        case 9:
            record.ns = number(random);
            return fmt::format("{} ns", record.ns);
        case 10:
            record.ago = static_cast<uint64_t>(number(random));
            return fmt::format("{} ago", record.ago);
        case 11: {
            constexpr const char* names[] = {"MPI_Send",   "MPI_Recv",   "MPI_Wait",    "MPI_Test",    "MPI_Iprobe",    "MPI_Probe",
                                             "MPI_Mprobe", "MPI_Mrecv",  "MPI_Improbe", "MPI_Init",    "MPI_Finalize",  "MPI_Barrier",
                                             "MPI_Ssend",  "MPI_Issend", "MPI_Bcast",   "MPI_Waitall", "MPI_Allreduce", "main"};
            if (record.kind == Record::Kind::noise) return "nothing";
            record.name = names[below(random, std::size(names))];
            return "region " + record.name;
        }
        case 12:
            if (record.kind == Record::Kind::noise && spec.accounts.empty()) return "nothing";
            record.kind = static_cast<Record::Kind>(below(random, static_cast<size_t>(Record::Kind::collective_complete) + 1));
            if (record.kind == Record::Kind::noise) {
                if (spec.accounts.empty())
                    record.kind = Record::Kind::enter;
                else
                    record.name = spec.accounts[below(random, spec.accounts.size())];
            }
            return fmt::format("kind {}", static_cast<int>(record.kind));
        default:
            record.time = number(random);
            return fmt::format("time {}", record.time);
    }
}

std::string change_definitions(TraceSpec& spec, Random& random) {
    switch (below(random, 5)) {
        case 0: {
            constexpr uint64_t clocks[] = {1, 3, 1000, 1'000'000, 2'600'000'000, 1'000'000'000'000, uint64_t{1} << 63, UINT64_MAX};
            spec.ticks_per_second = clocks[below(random, std::size(clocks))];
            return fmt::format("{} ticks a second", spec.ticks_per_second);
        }
        case 1: {
            std::vector<uint64_t> members;
            for (size_t k = below(random, 2 * spec.ranks() + 1); k > 0; --k)
                members.push_back(random() % 8 ? below(random, spec.ranks() + 1) : static_cast<uint64_t>(number(random)));
            if (spec.comms.empty()) spec.comms.resize(1);
            if (spec.comms.size() < 2 || random() % 2)
                spec.comms.push_back(members);
            else
                spec.comms[1 + below(random, spec.comms.size() - 1)] = members;
            return fmt::format("a communicator of {} members", members.size());
        }
        case 2:
            spec.one_class = !spec.one_class;
            return "classes of metrics";
        case 3:
            spec.baseline = !spec.baseline;
            return "baselines";
        default:
            spec.hosts[below(random, spec.ranks())] = "elsewhere";
            return "a host";
    }
}

}  // namespace

void add_nonsense(TraceSpec& spec, Random& random, std::string& told) {
    const size_t rank = below(random, spec.ranks());
    auto& records = spec.records[rank];
    std::string what;
    if (records.empty() || random() % 16 == 0) {
        what = change_definitions(spec, random);
    } else {
        const size_t i = below(random, records.size()), j = below(random, records.size());
        switch (below(random, 8)) {
            case 0:
                records.erase(records.begin() + static_cast<std::ptrdiff_t>(i));
                what = fmt::format("record {} gone", i);
                break;
            case 1: {
                const Record copy = records[i];
                records.insert(records.begin() + static_cast<std::ptrdiff_t>(j), 1 + below(random, 3), copy);
                what = fmt::format("record {} again at {}", i, j);
                break;
            }
            case 2: {
                const int64_t time_i = records[i].time, time_j = records[j].time;
                std::swap(records[i], records[j]);
                records[i].time = time_i;
                records[j].time = time_j;
                what = fmt::format("records {} and {} exchanged", i, j);
                break;
            }
            case 3:
                records.resize(i);
                what = fmt::format("ends before record {}", i);
                break;
            case 4: {  // another rank's record
                const auto& others = spec.records[below(random, spec.ranks())];
                if (others.empty()) break;
                const Record copy = others[below(random, others.size())];
                records.insert(records.begin() + static_cast<std::ptrdiff_t>(i), copy);
                what = fmt::format("a record of another rank at {}", i);
                break;
            }
            default:
                what = fmt::format("record {}: {}", i, change(records[i], spec, random));
        }
    }
    for (auto& list : spec.records) keep_order(list);
    told += fmt::format("{}rank {}: {}", told.empty() ? "" : "; ", rank, what);
}

}  // namespace polter::test
