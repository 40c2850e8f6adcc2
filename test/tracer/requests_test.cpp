// SPDX-License-Identifier: BSD-3-Clause
// The table of open requests against a plain list, and its rules one by one.
#include "../../tracer/mpi/core/requests.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

using polter::mpi::Request;
using polter::mpi::Requests;

namespace {

Request numbered(uint64_t id) {
    Request request;
    request.id = id;
    return request;
}

// What the table promises, without the table: the one of this variable among the first 64 of the handle, else the handle's oldest.
struct PlainList {
    struct Entry {
        uint64_t handle;
        const void* variable;
        uint64_t id;
    };
    std::vector<Entry> entries;

    std::vector<Entry>::iterator find(uint64_t handle, const void* variable) {
        auto oldest = entries.end();
        int seen = 0;
        for (auto at = entries.begin(); at != entries.end(); ++at) {
            if (at->handle != handle) continue;
            if (oldest == entries.end()) oldest = at;
            if (seen++ < 64 && at->variable == variable) return at;
        }
        return oldest;
    }
};

}  // namespace

TEST_CASE("a handle leads to its request, and to nothing once that is gone") {
    Requests table;
    int variable;
    CHECK(table.find(7, &variable) == Requests::absent);
    table.add(7, &variable, numbered(1));
    REQUIRE(table.find(7, &variable) != Requests::absent);
    CHECK(table[table.find(7, nullptr)].id == 1);
    table.erase(table.find(7, &variable));
    CHECK(table.find(7, &variable) == Requests::absent);
}

TEST_CASE("several requests of one handle are told apart by the program's variable, else the oldest is meant") {
    Requests table;
    int variables[3];
    for (int i = 0; i < 3; i++) table.add(5, &variables[i], numbered(static_cast<uint64_t>(i)));
    CHECK(table[table.find(5, &variables[1])].id == 1);
    CHECK(table[table.find(5, nullptr)].id == 0);
    table.erase(table.find(5, &variables[0]));
    CHECK(table[table.find(5, nullptr)].id == 1);
}

TEST_CASE("what is taken is not found, and comes back") {
    Requests table;
    int variables[2];
    for (int i = 0; i < 2; i++) table.add(5, &variables[i], numbered(static_cast<uint64_t>(i)));
    const uint32_t first = table.take(5, &variables[0]);
    CHECK(table[first].id == 0);
    CHECK(table[table.find(5, &variables[0])].id == 1);
    const uint32_t second = table.take(5, &variables[0]);
    CHECK(table[second].id == 1);
    CHECK(table.find(5, nullptr) == Requests::absent);
    table.put_back(first);
    table.drop(second);
    CHECK(table[table.find(5, nullptr)].id == 0);
}

TEST_CASE("random operations agree with a plain list") {
    std::mt19937 random(20);
    Requests table;
    PlainList list;
    int variables[50];
    uint64_t id = 0;
    for (int step = 0; step < 200000; step++) {
        // Few handles are shared by many, most are alone; the number open rises and falls.
        const uint64_t handle = random() % 4 == 0 ? random() % 3 : random() % 5000;
        const void* variable = &variables[random() % 50];
        const bool grows = step % 40000 < 20000;
        if (random() % 10 < (grows ? 7 : 3)) {
            table.add(handle, variable, numbered(++id));
            list.entries.push_back({handle, variable, id});
            continue;
        }
        const auto expected = list.find(handle, variable);
        const uint32_t found = table.find(handle, variable);
        REQUIRE((found == Requests::absent) == (expected == list.entries.end()));
        if (found == Requests::absent) continue;
        REQUIRE(table[found].id == expected->id);
        table.erase(found);
        list.entries.erase(expected);
    }
}
