// SPDX-License-Identifier: BSD-3-Clause
// Processes that share memory: messages of any size arrive whole and in order, and who dies is missed.
#include "replay/parallel/forked.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <random>

#include "support/synthetic.hpp"
#include "support/trace_spec.hpp"

using namespace polter;
using replay::Transport;

namespace {

// Exit code of the first process; −1: a signal ended it. Each returns what `work` says.
int run(int processes, const std::function<int(Transport&)>& work) {
    const pid_t first = fork();
    if (first == 0) {
        alarm(60);
        const auto transport = replay::forked_together(processes);
        const bool leads = transport && transport->rank() == 0;
        const int code = transport ? work(*transport) : 90;
        if (leads && code == 0) transport->close();
        _exit(code);
    }
    int status = 0;
    waitpid(first, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::vector<uint8_t> message(int from, int to, int number) {
    constexpr size_t sizes[] = {0, 1, 7, 100, 65'536, 1'000'000, 300'000};  // some are larger than what lies between two processes
    std::mt19937 random(static_cast<unsigned>(from * 1'000'000 + to * 1000 + number));
    std::vector<uint8_t> bytes(sizes[static_cast<size_t>(number) % std::size(sizes)]);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    return bytes;
}

constexpr int messages = 60;

// All to all, each at once; 0: all came, whole and in order.
int exchange(Transport& transport) {
    const int size = transport.size(), me = transport.rank();
    for (int number = 0; number < messages; ++number)
        for (int to = 0; to < size; ++to)
            if (to != me) transport.send(to, message(me, to, number));
    std::vector<int> next(static_cast<size_t>(size), 0);
    for (int left = messages * (size - 1); left > 0;) {
        int from = -1;
        std::vector<uint8_t> got;
        if (!transport.receive(&from, &got)) continue;
        if (from < 0 || from >= size || from == me) return 1;
        if (got != message(from, me, next[static_cast<size_t>(from)]++)) return 2;
        --left;
    }
    if (me != 0) transport.close();
    return 0;
}

}  // namespace

TEST_CASE("messages of any size, between all at once") {
    for (const int processes : {2, 3, 5}) {
        CAPTURE(processes);
        CHECK(run(processes, exchange) == 0);
    }
}

TEST_CASE("who dies is missed, however; who waits for the first one does not outlive it") {
    const auto missed = [](const std::function<void()>& end) {
        return run(3, [&](Transport& transport) {
            if (transport.rank() == 2) end();
            int from = 0;
            std::vector<uint8_t> got;
            try {
                for (;;) transport.receive(&from, &got);
            } catch (const replay::ProcessLost&) {
                return transport.rank() == 0 ? 7 : 8;
            }
        });
    };
    CHECK(missed([] { raise(SIGKILL); }) == 7);
    CHECK(missed([] { _exit(1); }) == 7);
    int alive[2];
    REQUIRE(pipe(alive) == 0);
    CHECK(run(3, [&](Transport& transport) {
              if (transport.rank() == 0) {
                  usleep(100'000);
                  return 5;
              }
              for (;;) pause();
          }) == 5);
    close(alive[1]);
    char byte = 0;
    CHECK(read(alive[0], &byte, 1) == 0);  // nobody has the other end any more
    close(alive[0]);
}

TEST_CASE("a small trace is not worth more than one process") {
    const test::TemporaryDirectory directory;
    test::SyntheticOptions options;
    options.ranks = 8;
    options.events = 20'000;
    test::write_synthetic(options, directory.path("t"));
    const replay::Division division = replay::fastest_division(directory.path("t"));
    CHECK(division.processes == 1);
    CHECK_FALSE(division.decode_ahead);
}
