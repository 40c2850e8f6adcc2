// SPDX-License-Identifier: BSD-3-Clause
// Both ends of a message get one number, in whatever order receives are posted and complete.
#include <doctest/doctest.h>

#include <map>

#include "analyzers/export/message_pairs.hpp"
#include "analyzers/export/noise_intervals.hpp"

using namespace polter::exports;

namespace {

struct Ends {
    std::vector<uint64_t> numbers;  // by `bytes`, which names the message
    MessagePairs pairs{[this](const Record& record, uint64_t number, bool) {
        if (numbers.size() <= record.bytes) numbers.resize(record.bytes + 1, UINT64_MAX);
        numbers[record.bytes] = number;
    }};
};

Record message(Record::Kind kind, int32_t peer, uint64_t name, uint64_t request = 0, bool known = true, uint32_t tag = 5) {
    return {.kind = kind, .known = known, .peer = peer, .tag = tag, .bytes = name, .request = request};
}

}  // namespace

TEST_CASE("a wildcard posted first takes the first message, whenever it completes") {
    Ends sender, receiver;
    sender.pairs.begin(0);
    for (uint64_t i = 0; i < 4; ++i) sender.pairs.record(message(Record::Kind::isend, 1, i));
    receiver.pairs.begin(1);
    receiver.pairs.record(message(Record::Kind::post, -1, 0, 10, false));  // any source
    receiver.pairs.record(message(Record::Kind::post, 0, 0, 11));
    receiver.pairs.record(message(Record::Kind::irecv, 0, 1, 11));
    receiver.pairs.record(message(Record::Kind::receive, 0, 2));
    receiver.pairs.record(message(Record::Kind::irecv, 0, 0, 10));
    receiver.pairs.record(message(Record::Kind::receive, 0, 3));
    receiver.pairs.end();
    CHECK(sender.numbers == receiver.numbers);
}

TEST_CASE("a rank that sends to itself") {
    Ends sent, got;
    for (Ends* side : {&sent, &got}) {
        side->pairs.begin(3);
        for (uint64_t i = 0; i < 3; ++i) {
            if (side == &sent) side->pairs.record(message(Record::Kind::isend, 3, i));
            side->pairs.record(message(Record::Kind::receive, 3, i));
            if (side == &got) side->pairs.record(message(Record::Kind::isend, 3, i));
        }
    }
    CHECK(sent.numbers == got.numbers);
    CHECK(sent.numbers[0] != sent.numbers[1]);
}

TEST_CASE("what was cancelled took no message") {
    Ends sender, receiver;
    sender.pairs.begin(0);
    for (uint64_t i = 0; i < 2; ++i) sender.pairs.record(message(Record::Kind::send, 1, i));
    receiver.pairs.begin(1);
    receiver.pairs.record(message(Record::Kind::post, 0, 0, 10));
    receiver.pairs.record({.kind = Record::Kind::cancelled, .request = 10});
    receiver.pairs.record(message(Record::Kind::post, -1, 0, 12, false));
    receiver.pairs.record(message(Record::Kind::receive, 0, 0));
    receiver.pairs.record({.kind = Record::Kind::cancelled, .request = 12});
    receiver.pairs.record(message(Record::Kind::receive, 0, 1));
    receiver.pairs.end();
    CHECK(sender.numbers == receiver.numbers);
}

TEST_CASE("a wildcard that never completes does not keep all others for ever") {
    Ends receiver;
    receiver.pairs.begin(1);
    receiver.pairs.record(message(Record::Kind::post, -1, 0, 7, false));
    for (uint64_t i = 0; i < MessagePairs::most + 10; ++i) receiver.pairs.record(message(Record::Kind::receive, 0, i));
    CHECK(receiver.numbers.size() == MessagePairs::most + 10);
    receiver.pairs.record(message(Record::Kind::irecv, 0, 0, 7));
    CHECK(receiver.numbers[0] == 0);  // its message has no other end
}

TEST_CASE("noise intervals are disjoint, and nested noise is split") {
    NoiseIntervals intervals;
    std::map<int64_t, int64_t> drawn;
    const auto place = [&](int64_t at, int64_t ns, int64_t floor, bool late = false) {
        return intervals.place(at, ns, floor, late, [&](int64_t begin, int64_t end) { drawn[begin] = end; });
    };
    CHECK(place(100, 20, 0) == 0);       // 80 to 100
    CHECK(place(110, 50, 0) == 0);       // around it: 100 to 110, 40 to 80
    CHECK(place(115, 30, 100) == 25);    // from 100 on, only 5 are free
    CHECK(place(50, 45, 0, true) == 6);  // late: 0 to 39, apart from what is told
    CHECK(drawn == std::map<int64_t, int64_t>{{0, 39}, {40, 80}, {80, 100}, {100, 110}, {110, 115}});
}
