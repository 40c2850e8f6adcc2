// SPDX-License-Identifier: BSD-3-Clause
// Archives of any length for benchmarks, written straight into OTF2: larger than memory is no problem.
#pragma once

#include <cstdint>
#include <string>

namespace polter::test {

// User regions with noise records among them, and of the given share of the events
//   exchange: exchanges with the neighbours (Irecv, Send, Wait) and an allreduce now and then;
//   one_way:  messages from each even rank, which never waits, to the next one, which takes them three messages later.
struct SyntheticOptions {
    size_t ranks = 64, sources = 8;
    int64_t events = 10'000'000, messages = 5, noise = 2;  // events of all ranks; percent; percent
    bool one_way = false;
};

void write_synthetic(const SyntheticOptions&, const std::string& directory);

}  // namespace polter::test
