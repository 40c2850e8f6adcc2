// SPDX-License-Identifier: BSD-3-Clause
// A process that decodes ahead changes no answer: on random programs, where it dies on the way, and on damaged archives.
#include "replay/engine/reading/decoder.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "../support/random_program.hpp"
#include "../support/trace_spec.hpp"
#include "replay/base/error.hpp"
#include "replay/testing.hpp"
#include "replay/trace/child_process.hpp"

using namespace polter;

namespace {

struct Case {
    test::TemporaryDirectory directory;
    std::string trace = directory.path("t");
    explicit Case(const test::TraceSpec& spec) { test::write_trace(spec, trace); }
};

std::string answer(const std::string& trace, bool ahead, const replay::Hooks& hooks = {}) {
    replay::Options options;
    options.trace = trace;
    options.decode_ahead = ahead;
    options.keep_bytes = uint64_t{1} << 26;
    try {
        const replay::Result result = replay::replay_with(options, hooks);
        return replay::to_json(result).dump(1) + replay::model_to_json(result.model).dump(1);
    } catch (const replay::InputError& error) {
        return error.what();
    }
}

// As the command reads: also what OTF2 does not survive, or never ends.
std::string answer_apart(const test::TemporaryDirectory& directory, const std::string& trace, bool ahead) {
    const std::string file = directory.path(ahead ? "ahead" : "alone");
    const auto end = replay::go_apart(10);
    if (!end) {
        for (const int fatal : {SIGSEGV, SIGABRT}) signal(fatal, SIG_DFL);  // doctest has its own
        alarm(200);
        replay::Hooks hooks;
        hooks.decoding.records = 5;
        std::ofstream(file) << answer(trace, ahead, hooks);
        _exit(0);
    }
    if (!end->error.empty()) return end->error;
    if (end->exit_code != 0) return "ended with " + std::to_string(end->exit_code);
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("random programs: the same answer, however many records at once") {
    for (uint64_t seed = 1; seed <= test::programs_of(20); ++seed) {
        CAPTURE(seed);
        test::TraceSpec spec = test::mixed_program(seed).trace;
        if (seed % 4 == 0) spec.records[seed % spec.ranks()].resize(spec.records[seed % spec.ranks()].size() / 2);
        const Case one(spec);
        const std::string alone = answer(one.trace, false);
        for (const uint64_t records : {uint64_t{1}, uint64_t{7}, uint64_t{2048}}) {
            replay::Hooks hooks;
            hooks.decoding.records = records;
            CHECK(answer(one.trace, true, hooks) == alone);
        }
    }
}

TEST_CASE("where it dies on the way, the first pass goes on in the archive") {
    int believed = 0;
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        CAPTURE(seed);
        const Case one(test::mixed_program(seed).trace);
        const std::string alone = answer(one.trace, false);
        for (const uint64_t most : {uint64_t{0}, uint64_t{1}, uint64_t{20}}) {
            replay::Hooks hooks;
            hooks.decoding = {.records = 10, .most = most};
            CHECK(answer(one.trace, true, hooks) == alone);
            hooks.faults = {.lost_is_whole = true};
            believed += answer(one.trace, true, hooks) != alone;
        }
    }
    CHECK(believed > 0);
}

TEST_CASE("damaged archives: the same answer or the same error") {
    const Case one(test::mixed_program(5).trace);
    std::mt19937_64 random(3);
    const char* files[] = {"/traces/0.evt", "/traces/2.evt", "/traces/1.def"};
    for (int round = 0; round < 45; ++round) {
        CAPTURE(round);
        const std::string victim = one.trace + files[round % 3];
        std::ifstream in(victim, std::ios::binary);
        const std::string before((std::istreambuf_iterator<char>(in)), {});
        in.close();
        std::string bytes = before;
        if (round % 5 == 0)
            bytes.resize(bytes.size() * static_cast<size_t>(round + 1) / 46);
        else
            for (int k = 0; k < 1 + round % 3; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
        std::ofstream(victim, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        CHECK(answer_apart(one.directory, one.trace, true) == answer_apart(one.directory, one.trace, false));
        std::ofstream(victim, std::ios::binary).write(before.data(), static_cast<std::streamsize>(before.size()));
    }
}
