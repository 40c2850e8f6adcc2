// SPDX-License-Identifier: BSD-3-Clause
#include "micro_parse.hpp"

#include <otf2/otf2.h>

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

namespace polter::test {

namespace {

const std::map<std::string, int> operations = {
    {"barrier", OTF2_COLLECTIVE_OP_BARRIER},
    {"bcast", OTF2_COLLECTIVE_OP_BCAST},
    {"gather", OTF2_COLLECTIVE_OP_GATHER},
    {"gatherv", OTF2_COLLECTIVE_OP_GATHERV},
    {"scatter", OTF2_COLLECTIVE_OP_SCATTER},
    {"scatterv", OTF2_COLLECTIVE_OP_SCATTERV},
    {"allgather", OTF2_COLLECTIVE_OP_ALLGATHER},
    {"alltoall", OTF2_COLLECTIVE_OP_ALLTOALL},
    {"alltoallv", OTF2_COLLECTIVE_OP_ALLTOALLV},
    {"allreduce", OTF2_COLLECTIVE_OP_ALLREDUCE},
    {"reduce", OTF2_COLLECTIVE_OP_REDUCE},
    {"reduce_scatter", OTF2_COLLECTIVE_OP_REDUCE_SCATTER},
    {"scan", OTF2_COLLECTIVE_OP_SCAN},
    {"exscan", OTF2_COLLECTIVE_OP_EXSCAN},
    {"create", OTF2_COLLECTIVE_OP_CREATE_HANDLE},
    {"destroy", OTF2_COLLECTIVE_OP_DESTROY_HANDLE},
    {"neighbours", 128},
    {"files", 129},  // tracer/README.md
};
const std::map<std::string, int> modes = {{"sync", 1}, {"ready", 2}, {"buffered", 3}};

struct Line {
    std::vector<std::string> words;
    size_t next = 0;

    bool more() const { return next < words.size(); }
    std::string word() {
        if (!more()) throw std::runtime_error("a word is missing");
        return words[next++];
    }
    std::string rest() {
        std::string text;
        while (more()) text += (text.empty() ? "" : " ") + word();
        return text;
    }
    int64_t number() { return std::stoll(word()); }
    bool numeric() const { return more() && (std::isdigit(static_cast<unsigned char>(words[next][0])) || words[next][0] == '-'); }
};

Record parse_record(Line& line, int64_t time, const std::string& kind) {
    using Kind = Record::Kind;
    Record r;
    r.time = time;
    const auto unsigned_number = [&] { return static_cast<uint64_t>(line.number()); };
    const auto message = [&](Kind of) {
        r.kind = of;
        r.peer = line.number();
        r.tag = line.number();
        r.bytes = unsigned_number();
    };
    const auto collective = [&](Kind of) {
        r.kind = of;
        r.operation = operations.at(line.word());
        r.peer = line.number();
        r.bytes = unsigned_number();
    };
    if (kind == "enter" || kind == "leave") {
        r.kind = kind == "enter" ? Kind::enter : Kind::leave;
        r.name = line.word();
    } else if (kind == "noise") {
        r.kind = Kind::noise;
        r.name = line.word();
        r.ns = line.number();
        if (line.more()) r.culprit = line.word();
        if (line.more()) r.ago = static_cast<uint64_t>(line.number());
    } else if (kind == "send") {
        message(Kind::send);
    } else if (kind == "isend") {
        message(Kind::isend);
        r.request = unsigned_number();
    } else if (kind == "recv") {
        message(Kind::recv);
    } else if (kind == "irecv") {
        message(Kind::irecv);
        r.request = unsigned_number();
    } else if (kind == "irecv-request") {
        r.kind = Kind::irecv_request;
        r.request = unsigned_number();
        if (line.numeric()) {
            r.peer = line.number();
            r.tag = line.number();
            r.posted = true;
        }
    } else if (kind == "isend-complete" || kind == "test" || kind == "cancelled") {
        r.kind = kind == "test" ? Kind::request_test : kind == "cancelled" ? Kind::cancelled : Kind::isend_complete;
        r.request = unsigned_number();
    } else if (kind == "begin") {
        r.kind = Kind::collective_begin;
    } else if (kind == "collective") {
        collective(Kind::collective_end);
    } else if (kind == "request") {
        r.kind = Kind::collective_request;
        r.request = unsigned_number();
    } else if (kind == "complete") {
        collective(Kind::collective_complete);
        r.request = unsigned_number();
    } else if (kind == "window") {
        r.kind = Kind::window_collective;
        r.operation = operations.at(line.word());
        r.comm = static_cast<uint32_t>(line.number());
    } else if (kind == "notify-out" || kind == "notify-in" || kind == "group-sync" || kind == "unlock" || kind == "lock" || kind == "put") {
        r.kind = kind == "notify-out"   ? Kind::notify_out
                 : kind == "notify-in"  ? Kind::notify_in
                 : kind == "group-sync" ? Kind::group_sync
                 : kind == "put"        ? Kind::put
                 : kind == "lock"       ? Kind::lock
                                        : Kind::unlock;
        r.peer = line.number();
        r.comm = static_cast<uint32_t>(line.number());
        if (kind == "put") r.bytes = unsigned_number();
        if (kind == "lock") r.mode = line.word() == "exclusive" ? OTF2_LOCK_EXCLUSIVE : OTF2_LOCK_SHARED;
    } else if (kind == "fork" || kind == "join") {
        r.kind = kind == "fork" ? Kind::fork : Kind::join;
    } else if (kind == "team-begin" || kind == "team-end") {
        r.kind = kind == "team-begin" ? Kind::team_begin : Kind::team_end;
        r.comm = static_cast<uint32_t>(line.number());
    } else if (kind == "create" || kind == "thread-begin" || kind == "thread-end" || kind == "thread-wait" || kind == "acquire" ||
               kind == "release") {
        r.kind = kind == "create"         ? Kind::create
                 : kind == "thread-begin" ? Kind::thread_begin
                 : kind == "thread-end"   ? Kind::thread_end
                 : kind == "thread-wait"  ? Kind::thread_wait
                 : kind == "acquire"      ? Kind::acquire
                                          : Kind::release;
        r.comm = static_cast<uint32_t>(line.number());
        r.request = unsigned_number();
    } else if (kind == "rma-complete" || kind == "rma-request-complete") {
        r.kind = kind == "rma-complete" ? Kind::rma_complete : Kind::rma_request_complete;
        r.comm = static_cast<uint32_t>(line.number());
    } else {
        throw std::runtime_error("no such record: " + kind);
    }
    while (line.more()) {
        const std::string word = line.word();
        if (word == "comm") {
            r.comm = static_cast<uint32_t>(line.number());
            if (r.kind == Kind::collective_request) r.posted = true;
            if (r.kind == Kind::leave) r.file_comm = true;
        } else if (word == "found") {
            r.peer = line.number();
            r.tag = line.number();
            r.comm = static_cast<uint32_t>(line.number());
            r.posted = true;
        } else if (word == "polls") {
            r.polls = static_cast<uint32_t>(line.number());
            r.last_poll = unsigned_number();
            r.poll_gap = unsigned_number();
        } else if (word == "of") {
            r.unlisted = static_cast<uint8_t>(operations.at(line.word()));
        } else if (word == "part") {
            r.partitioned = static_cast<uint32_t>(line.number());
        } else if (word == "id") {
            r.request = unsigned_number();
        } else if (word == "apart") {
            r.apart = true;
        } else if (word == "any") {
            r.wildcard = true;
        } else {
            r.mode = modes.at(word);
        }
    }
    return r;
}

void parse_line(Micro& micro, Line& line) {
    const bool record = line.numeric();
    const std::string first = line.word();
    if (record) {
        const auto rank = static_cast<size_t>(std::stoll(first));
        const int64_t time = line.number();
        const std::string kind = line.word();
        Record r = parse_record(line, time, kind);
        micro.trace.records.at(rank).push_back(r);
    } else if (first == "ranks") {
        micro.trace = TraceSpec(static_cast<size_t>(line.number()));
    } else if (first == "thread") {
        const size_t thread = micro.trace.ranks();
        micro.trace.hosts.emplace_back("node0");
        micro.trace.records.emplace_back();
        micro.trace.threads[thread] = static_cast<size_t>(line.number());
    } else if (first == "team") {
        std::vector<uint64_t>& members = micro.trace.teams[static_cast<uint32_t>(line.number())];
        while (line.more()) members.push_back(static_cast<uint64_t>(line.number()));
    } else if (first == "hosts") {
        for (auto& host : micro.trace.hosts) host = line.word();
    } else if (first == "accounts") {
        while (line.more()) micro.trace.accounts.push_back(line.word());
    } else if (first == "property") {
        const std::string name = line.word();
        micro.trace.properties[name] = line.word();
    } else if (first == "comm") {
        const auto id = static_cast<size_t>(line.number());
        micro.trace.comms.resize(std::max(micro.trace.comms.size(), id + 1));
        while (line.more()) micro.trace.comms[id].push_back(static_cast<uint64_t>(line.number()));
    } else if (first == "neighbours") {
        const auto rank = static_cast<size_t>(line.number());
        std::string& value = micro.trace.neighbours[{rank, static_cast<uint32_t>(line.number())}];
        while (line.more()) value += line.word() + " ";
    } else if (first == "window") {
        micro.trace.windows.push_back(static_cast<uint32_t>(line.number()));
    } else if (first == "at") {
        MicroExpectation expectation;
        expectation.scenario = line.word();
        expectation.rank = line.number();
        expectation.time = line.number();
        expectation.approximated = line.number();
        micro.events.push_back(expectation);
    } else if (first == "total") {
        const std::string scenario = line.word();
        micro.totals.emplace_back(scenario, line.number());
    } else if (first == "paid") {
        MicroPayment payment;
        payment.source = line.word();
        payment.ns = line.number();
        payment.where = line.rest();
        micro.paid.push_back(payment);
    } else if (first == "windows") {
        micro.windows = static_cast<uint32_t>(line.number());
    } else if (first == "origin") {
        MicroOrigin origin;
        origin.source = line.word();
        origin.culprit = line.word();
        origin.rank = line.number();
        origin.ns = line.number();
        micro.origins.push_back(origin);
    } else if (first == "cost") {
        MicroCost cost;
        cost.rank = line.number();
        cost.time = line.number();
        cost.ns = line.number();
        micro.costs.push_back(cost);
    } else if (first == "path") {
        MicroPath path;
        path.when = line.word();
        path.length = line.number();
        path.hops = line.number();
        micro.paths.push_back(path);
    } else if (first == "fate") {
        MicroFate fate;
        fate.waiting = line.number();
        fate.absorbed_downstream = line.number();
        fate.reached = line.number();
        micro.fate = fate;
    } else if (first == "bounds") {
        const int64_t low = line.number();
        micro.bounds = {low, line.number()};
    } else if (first == "inside") {
        micro.inside.push_back(line.number());
    } else if (first == "conditional") {
        micro.conditional = line.word() == "yes";
    } else if (first == "warning") {
        micro.warnings.push_back(line.rest());
    } else {
        throw std::runtime_error("no such line: " + first);
    }
}

}  // namespace

Micro parse_micro(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    Micro micro;
    std::string text;
    for (int number = 1; std::getline(file, text); ++number) {
        std::istringstream stream(text.substr(0, text.find('#')));
        Line line;
        for (std::string word; stream >> word;) line.words.push_back(word);
        if (line.words.empty()) continue;
        try {
            parse_line(micro, line);
            if (line.more()) throw std::runtime_error("too many words");
        } catch (const std::exception& error) {
            throw std::runtime_error(path + ":" + std::to_string(number) + ": " + error.what());
        }
    }
    return micro;
}

}  // namespace polter::test
