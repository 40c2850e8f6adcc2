// SPDX-License-Identifier: BSD-3-Clause
// Messages that share links: computed by hand, what holds for any, and whether the network is found by which messages were made.
#include "replay/rules/links/shared_links.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <barrier>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "replay/rules/links/chosen_transfers.hpp"
#include "replay/rules/links/network.hpp"

namespace {

using namespace polter::replay;

struct Case {
    std::string what;
    std::vector<Flow> flows;
    double reverse;
    std::vector<int64_t> later;
};

TEST_CASE("computed by hand") {
    const Case cases[] = {
        {"nothing", {}, 0, {}},
        {"alone", {{0, 1, 5, 100}}, 0, {0}},
        {"nothing to send", {{0, 1, 5, 0}, {0, 1, 5, 100}}, 0, {0, 0}},
        {"one after the other", {{0, 1, 0, 100}, {0, 1, 100, 100}}, 0, {0, 0}},
        {"one sender", {{0, 1, 0, 100}, {0, 2, 0, 100}}, 0, {100, 100}},
        {"one receiver", {{1, 0, 0, 100}, {2, 0, 0, 100}}, 0, {100, 100}},
        {"other directions", {{0, 1, 0, 100}, {1, 0, 0, 100}}, 0, {0, 0}},
        {"... which what goes back shares", {{0, 1, 0, 100}, {1, 0, 0, 100}}, 0.05, {5, 5}},
        // The first is alone up to 50, then both have half: it ends at 150. The second has 50 left then.
        {"overlap", {{0, 1, 0, 100}, {0, 2, 50, 100}}, 0, {50, 50}},
        {"in any order", {{0, 2, 50, 100}, {0, 1, 0, 100}}, 0, {50, 50}},
        // Three leave host 0, a third of the link each. So host 1 has two thirds for what comes from host 4.
        {"what others leave", {{0, 1, 0, 300}, {0, 2, 0, 300}, {0, 3, 0, 300}, {4, 1, 0, 200}}, 0, {600, 600, 600, 100}},
    };
    for (const Case& one : cases) {
        CAPTURE(one.what);
        CHECK(later_by_sharing(one.flows, one.reverse) == one.later);
    }
}

std::vector<Flow> random_flows(std::mt19937_64& random, uint32_t hosts, size_t count, int64_t span, int64_t longest) {
    std::vector<Flow> flows;
    while (flows.size() < count) {
        const auto from = static_cast<uint32_t>(random() % hosts), to = static_cast<uint32_t>(random() % hosts);
        if (from != to)
            flows.push_back({from, to, static_cast<int64_t>(random() % static_cast<uint64_t>(span)),
                             1 + static_cast<int64_t>(random() % static_cast<uint64_t>(longest))});
    }
    return flows;
}

// A link carries no more than it can, and nothing is there sooner than alone. A link is idle only if all that it carried is through.
TEST_CASE("random ones: no link carries more than it can") {
    std::mt19937_64 random(7);
    for (int round = 0; round < 200; ++round) {
        const std::vector<Flow> flows = random_flows(random, 2 + round % 6, 1 + random() % 60, 5000, 1 + round * 10);
        const auto later = later_by_sharing(flows, 0);
        REQUIRE(later);
        std::map<uint32_t, std::vector<size_t>> links;
        for (size_t i = 0; i < flows.size(); ++i) {
            CHECK((*later)[i] >= 0);
            links[2 * flows[i].from].push_back(i);
            links[2 * flows[i].to + 1].push_back(i);
        }
        for (const auto& [link, on_it] : links)
            for (const size_t first : on_it)
                for (const size_t last : on_it) {  // what begins and ends between these
                    const int64_t begin = flows[first].begin, end = flows[last].begin + flows[last].alone + (*later)[last];
                    int64_t carried = 0;
                    for (const size_t i : on_it)
                        if (flows[i].begin >= begin && flows[i].begin + flows[i].alone + (*later)[i] <= end) carried += flows[i].alone;
                    CHECK(carried <= std::max<int64_t>(0, end - begin) + static_cast<int64_t>(on_it.size()));  // ends are rounded
                }
    }
}

TEST_CASE("the link that is shared most is never idle") {
    std::mt19937_64 random(8);
    for (int round = 0; round < 50; ++round) {
        std::vector<Flow> flows;
        int64_t sum = 0;
        for (uint32_t to = 1; to <= 1 + random() % 20; ++to) flows.push_back({0, to, 0, 1 + static_cast<int64_t>(random() % 1000)});
        for (const Flow& flow : flows) sum += flow.alone;
        const auto later = later_by_sharing(flows, 0);
        REQUIRE(later);
        int64_t end = 0;
        for (size_t i = 0; i < flows.size(); ++i) end = std::max(end, flows[i].alone + (*later)[i]);
        CHECK(std::abs(end - sum) <= 1);
    }
}

// Messages of some sizes between hosts, as a network with this latency, bandwidth and share of what goes back would carry them.
// Each is waited for by one call.
Seen carried(double latency, double ns_per_byte, double reverse, bool shared, uint64_t seed, size_t count = 600) {
    std::mt19937_64 random(seed);
    std::vector<Flow> flows = random_flows(random, 6, count, 5'000 * static_cast<int64_t>(count), 4);
    std::sort(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) { return a.begin < b.begin; });
    Seen seen;
    for (Flow& flow : flows) {
        const uint64_t bytes = 16384 * static_cast<uint64_t>(flow.alone);
        flow.alone = static_cast<int64_t>(ns_per_byte * static_cast<double>(bytes));
        seen.transfers.push_back({flow.from, flow.to, bytes, flow.begin});
    }
    const auto later = later_by_sharing(flows, reverse);
    for (size_t i = 0; i < flows.size(); ++i) {
        const auto by_others = shared ? (*later)[i] : static_cast<int64_t>(random() % 20'000);
        const int64_t took = static_cast<int64_t>(latency) + flows[i].alone + by_others;
        seen.calls.push_back({flows[i].begin, flows[i].begin + took, {static_cast<uint32_t>(i)}});
    }
    return seen;
}

TEST_CASE("the network is found") {
    for (const double latency : {500.0, 5000.0, 40'000.0})
        for (const double reverse : {0.0, 0.05}) {
            CAPTURE(latency);
            CAPTURE(reverse);
            const auto network = Network::found(carried(latency, 0.3, reverse, true, 1));
            REQUIRE(network);
            CHECK(network->reverse() == reverse);
            for (const uint64_t bytes : {16384, 32768, 49152, 65536})
                CHECK(std::abs(static_cast<double>(network->alone(bytes)) - 0.3 * static_cast<double>(bytes)) <= 600);  // 3 % of the longest
        }
}

// Some tell where to start, unless they tell nothing: then all do.
TEST_CASE("the network is found from many, whether those that are looked at first tell or not") {
    Seen many = carried(5000, 0.3, 0.05, true, 4, 3000);
    const auto from_some = Network::found(many);
    std::vector<uint64_t> bytes;
    for (const SeenTransfer& one : many.transfers) bytes.push_back(one.bytes);
    std::set<size_t> first;
    for (const size_t place : some_of_each_size(bytes, 1500)) first.insert(place);
    std::erase_if(many.calls, [&](const SeenCall& call) { return first.contains(call.messages.front()); });
    const auto from_all = Network::found(many);
    for (const auto& network : {from_some, from_all}) {
        REQUIRE(network);
        CHECK(network->reverse() == 0.05);
        CHECK(std::abs(static_cast<double>(network->alone(65536)) - 0.3 * 65536) <= 600);
    }
}

// Each rank sends to its neighbours and waits for all at once, as programs that exchange the rims of their domains do: of each message only
// the last one's end is seen.
TEST_CASE("the network is found from calls that wait for several messages") {
    std::mt19937_64 random(7);
    constexpr uint32_t hosts = 8;
    constexpr int64_t latency = 3000;
    std::vector<Flow> flows;
    for (int64_t step = 0; step < 60; ++step)
        for (uint32_t from = 0; from < hosts; ++from)
            for (const uint32_t by : {1u, 2u, hosts - 1}) {
                const int64_t begin = step * 200'000 + static_cast<int64_t>(random() % 30'000);
                flows.push_back({from, (from + by) % hosts, begin, 9'830});
            }
    std::stable_sort(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) { return a.begin < b.begin; });
    const auto later = later_by_sharing(flows, 0);
    Seen seen;
    std::map<std::pair<int64_t, uint32_t>, SeenCall> calls;  // by step and rank: what it sends, and what it receives
    for (size_t i = 0; i < flows.size(); ++i) {
        seen.transfers.push_back({flows[i].from, flows[i].to, 32'768, flows[i].begin});
        for (const uint32_t rank : {flows[i].from, flows[i].to}) {
            SeenCall& call = calls[{flows[i].begin / 200'000, rank}];
            call.enter = flows[i].begin / 200'000 * 200'000;
            call.leave = std::max(call.leave, flows[i].begin + flows[i].alone + (*later)[i] + latency);
            call.messages.push_back(static_cast<uint32_t>(i));
        }
    }
    for (const auto& [key, call] : calls) seen.calls.push_back(call);
    const auto network = Network::found(seen);
    REQUIRE(network);
    CHECK(std::abs(network->alone(32'768) - 9'830) <= 300);
}

TEST_CASE("those that are looked at are of all sizes, from all over the run, and follow each other") {
    std::vector<uint64_t> bytes(100'000, 4096);
    for (size_t i = 90'000; i < 90'400; ++i) bytes[i] = i % 2 ? 65'536 : 300'000;
    const auto places = some_of_each_size(bytes, 4'000);
    CHECK(std::is_sorted(places.begin(), places.end()));
    CHECK(places.size() <= 4'500);
    std::map<uint64_t, size_t> of_size;
    size_t together = 0;
    for (size_t i = 0; i < places.size(); ++i) {
        ++of_size[bytes[places[i]]];
        together += i > 0 && places[i] == places[i - 1] + 1;
    }
    CHECK(of_size[65'536] == 200);
    CHECK(of_size[300'000] == 200);
    CHECK(of_size[4'096] >= 1'000);
    CHECK(together >= places.size() - 16);
    CHECK(some_of_each_size({1024, 2048}, 4'000) == std::vector<size_t>{0, 1});
}

// Threads in place of processes: what `work` gives in each of them.
template <class Work>
auto together(size_t parts, Work work) {
    std::vector<decltype(work(LinkSearch()))> results(parts);
    std::vector<Bytes> said(parts);
    std::barrier all(static_cast<std::ptrdiff_t>(parts));
    std::vector<std::thread> threads;
    for (size_t part = 0; part < parts; ++part)
        threads.emplace_back([&, part] {
            results[part] = work({part, parts, [&, part](const Bytes& mine) {
                                      said[part] = mine;
                                      all.arrive_and_wait();
                                      const std::vector<Bytes> heard = said;
                                      all.arrive_and_wait();
                                      return heard;
                                  }});
        });
    for (std::thread& thread : threads) thread.join();
    return results;
}

TEST_CASE("processes that each know some transfers choose those that are chosen of all in order") {
    std::mt19937_64 random(11);
    for (const size_t count : {0, 100, 4'001, 30'000})
        for (const int64_t span : {int64_t{1}, int64_t{50}, int64_t{1'000'000}, int64_t{1} << 61})  // 1: all begin at once
            for (const uint64_t sizes : {1, 3, 40}) {
                CAPTURE(count);
                CAPTURE(span);
                CAPTURE(sizes);
                std::vector<TransferKey> transfers;
                for (size_t i = 0; i < count; ++i) {
                    int64_t at = static_cast<int64_t>(random() % static_cast<uint64_t>(span)) - span / 2;
                    if (i % 3 == 0) at /= 1000;  // many near each other
                    transfers.push_back({at, static_cast<uint32_t>(random() % 16), static_cast<uint32_t>(i), 1024u << random() % sizes});
                }
                const auto key = [](const TransferKey& one) { return std::tuple(one.at, one.thread, one.number); };
                std::vector<TransferKey> in_order = transfers;
                std::sort(in_order.begin(), in_order.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
                std::vector<uint64_t> bytes;
                for (const TransferKey& one : in_order) bytes.push_back(one.bytes);
                std::set<uint32_t> expected;
                for (const size_t place : some_of_each_size(bytes, 4'000)) expected.insert(in_order[place].number);
                for (const size_t parts : {1, 2, 3}) {
                    std::set<uint32_t> chosen;
                    for (const std::set<uint32_t>& some : together(parts, [&](const LinkSearch& search) {
                             std::vector<TransferKey> mine;
                             for (const TransferKey& one : transfers)
                                 if (one.thread % parts == search.part) mine.push_back(one);
                             std::set<uint32_t> numbers;
                             for (const size_t place : chosen_transfers(mine, 4'000, search)) numbers.insert(mine[place].number);
                             return numbers;
                         }))
                        chosen.insert(some.begin(), some.end());
                    CHECK(chosen == expected);
                }
            }
}

TEST_CASE("processes that share the search find the network that one finds") {
    const Seen seen = carried(5000, 0.3, 0.05, true, 4, 3000);
    const auto alone = Network::found(seen);
    REQUIRE(alone);
    for (const auto& network : together(3, [&](const LinkSearch& search) { return Network::found(seen, search); })) {
        REQUIRE(network);
        CHECK(network->reverse() == alone->reverse());
        for (const uint64_t bytes : {1024, 16384, 65536, 300'000}) CHECK(network->alone(bytes) == alone->alone(bytes));
    }
}

TEST_CASE("none is found where messages take longer for other reasons, all equally long, or few tell") {
    CHECK(!Network::found(carried(5000, 0.3, 0, false, 2)));
    CHECK(!Network::found({}));
    Seen equal = carried(5000, 0.3, 0, true, 5);
    for (SeenCall& call : equal.calls)
        call.leave = call.enter + 5000 + static_cast<int64_t>(0.3 * static_cast<double>(equal.transfers[call.messages.front()].bytes));
    CHECK(!Network::found(equal));
    Seen few = carried(5000, 0.3, 0, true, 3);
    few.calls.resize(10);
    CHECK(!Network::found(few));
}

}  // namespace
