// SPDX-License-Identifier: BSD-3-Clause
// A model that is saved and given: to its own trace it changes nothing, to another one no invariant, and a broken file is refused.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "support/invariants.hpp"
#include "replay/model/model_file.hpp"

using namespace polter;
using Json = nlohmann::json;

namespace {

test::Program program_of(uint64_t seed) {
    test::ProgramOptions options;
    options.seed = seed;
    options.ranks = 2 + seed % 5;
    options.structured = seed % 3 == 1;
    options.steps = options.structured ? 120 : 30;
    return test::random_program(options);
}

Json load(const std::string& file) {
    std::ifstream in(file);
    return Json::parse(in);
}

void store(const std::string& file, const std::string& text) {
    std::ofstream(file) << text;
}

// What refuses the file; empty: nobody did.
std::string refusal(const std::string& file) {
    try {
        replay::read_model(file);
        return {};
    } catch (const replay::InputError& error) {
        return error.what();
    }
}

bool warns(const replay::Result& result, const std::string& text) {
    return std::any_of(result.warnings.begin(), result.warnings.end(),
                       [&](const auto& w) { return w.text.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("a trace's own model, saved and given, changes nothing; another's does") {
    const test::TemporaryDirectory directory;
    const std::string file = directory.path("m.json"), trace = directory.path("t");
    int differ = 0;
    for (uint64_t seed = 1; seed <= 12; ++seed) {
        CAPTURE(seed);
        test::write_trace(program_of(seed).trace, trace);
        replay::Options options;
        options.trace = trace;
        const replay::Result plain = replay::replay(options);
        if (seed > 1) {
            options.use_model = file;
            differ += replay::to_json(replay::replay(options)) != replay::to_json(plain);
        }
        replay::write_model(plain.model, file);
        options.use_model = file;
        const replay::Result given = replay::replay(options);
        CHECK(replay::to_json(given) == replay::to_json(plain));
        CHECK(replay::model_to_json(given.model) == replay::model_to_json(plain.model));
    }
    CHECK(differ > 6);
}

TEST_CASE("no invariant depends on the model") {
    const test::TemporaryDirectory directory;
    const std::string file = directory.path("m.json"), trace = directory.path("t");
    std::mt19937_64 random(11);
    int64_t unclamped = 0;
    for (uint64_t seed = 1; seed <= 15; ++seed) {
        CAPTURE(seed);
        const test::Program other = program_of(seed + 2), program = program_of(seed);
        test::write_trace(other.trace, trace);
        replay::Options options;
        options.trace = trace;
        replay::Learned learned = replay::replay(options).model;
        for (replay::LearnedCost& cost : learned.costs) {  // not only another machine's but nobody's
            cost.cost.low = static_cast<int64_t>(random() % 3000);
            cost.cost.mid = cost.cost.low + static_cast<int64_t>(random() % 3000);
            cost.cost.high = cost.cost.mid + static_cast<int64_t>(random() % 3000);
            cost.cost.spread = (cost.cost.high - cost.cost.low) / 2;
        }
        for (replay::LearnedProtocol& protocol : learned.protocols)
            if (random() % 2) std::swap(protocol.eager, protocol.late);
        for (replay::LearnedStructure& collective : learned.structures)
            if (collective.structure) collective.structure->hop = static_cast<int64_t>(random() % 5000);
        replay::write_model(learned, file);
        test::write_trace(program.trace, trace);
        const test::Violations violations = test::observe(trace, program.orders, {}, std::nullopt, false, false, file).violations;
        CHECK(violations.identity == 0);
        CHECK(violations.causality == 0);
        CHECK(violations.monotonicity == 0);
        CHECK(violations.bounds == 0);
        CHECK(violations.additivity == 0);
        unclamped +=
            test::observe(trace, program.orders, {.unclamped_residual = true}, std::nullopt, false, false, file).violations.identity;
    }
    CHECK(unclamped > 0);
}

TEST_CASE("what the trace shows and the model does not know is told, and costs what it does in the trace") {
    const test::TemporaryDirectory directory;
    const std::string file = directory.path("m.json"), trace = directory.path("t");
    test::write_trace(program_of(4).trace, trace);
    replay::write_model({}, file);
    replay::Options options;
    options.trace = trace;
    const replay::Result plain = replay::replay(options);
    size_t classes = plain.model.costs.size() + plain.model.protocols.size() + plain.model.structures.size();
    options.use_model = file;
    const replay::Result with_nothing = replay::replay(options);
    CHECK(warns(with_nothing, std::to_string(classes) + " kinds of communication in the trace"));
    CHECK(with_nothing.accumulated_noise_ns == plain.accumulated_noise_ns);
    CHECK(with_nothing.bounds_low_ns == plain.bounds_low_ns);
    CHECK(with_nothing.bounds_high_ns == plain.bounds_high_ns);
    CHECK(!warns(plain, "kinds of communication in the trace"));
}

TEST_CASE("each field of a model file is checked, and the error names the file, the place and what to do") {
    const test::TemporaryDirectory directory;
    const std::string file = directory.path("m.json"), trace = directory.path("t");
    test::write_trace(program_of(7).trace, trace);
    replay::Options options;
    options.trace = trace;
    const replay::Learned learned = replay::replay(options).model;
    replay::write_model(learned, file);
    const Json good = load(file);
    REQUIRE(refusal(file).empty());
    REQUIRE(std::any_of(learned.structures.begin(), learned.structures.end(), [](const auto& s) { return s.structure.has_value(); }));
    constexpr const char* later[] = {"/partitioned", "_data_ns",      "/call_ns",        "/eager_ppm",
                                     "/noise_ppm",   "/data_by_link", "/link_elsewhere", "root_error_ns"};
    size_t leaves = 0;
    const Json flat = good.flatten();
    for (const auto& [path, value] : flat.items()) {
        CAPTURE(path);
        const Json::json_pointer place(path);
        ++leaves;
        for (const Json& wrong : {Json(), Json("x"), Json(-1), Json(1e300), Json(Json::array()), Json(3.5)}) {
            const bool allowed = path.ends_with("/structure") || path.ends_with("/likeliest") ||
                                 (path.ends_with("constant_error_ns") && wrong.is_number_float());
            if (allowed) continue;
            CAPTURE(wrong.dump());
            Json broken = good;
            broken[place] = wrong;
            store(file, broken.dump());
            const std::string said = refusal(file);
            CHECK(said.find(file) == 0);
            CHECK(said.find("--save-model") != std::string::npos);
        }
        Json lacking = good;
        Json& parent = lacking[place.parent_pointer()];
        if (!parent.is_object()) continue;
        parent.erase(place.back());
        store(file, lacking.dump());
        const bool newer = std::any_of(std::begin(later), std::end(later), [&](const char* end) { return path.ends_with(end); });
        if (newer)  // older files have none
            CHECK(refusal(file).empty());
        else
            CHECK(refusal(file).find("lacks") != std::string::npos);
    }
    CHECK(leaves > 50);
    for (const char* list : {"costs", "structures"}) {
        Json twice = good;
        twice[list].push_back(twice[list][0]);
        store(file, twice.dump());
        CHECK(refusal(file).find("twice") != std::string::npos);
    }
    Json next = good;
    next["schema"] = "polter.model/2";
    store(file, next.dump());
    CHECK(refusal(file).find("polter.model/2") != std::string::npos);
    CHECK(refusal(directory.path("none.json")).find("cannot be read") != std::string::npos);
}

TEST_CASE("bytes of a model file changed at random: refused, or a model with which every invariant holds") {
    const test::TemporaryDirectory directory;
    const std::string file = directory.path("m.json"), trace = directory.path("t");
    const test::Program program = program_of(7);
    test::write_trace(program.trace, trace);
    replay::Options options;
    options.trace = trace;
    replay::write_model(replay::replay(options).model, file);
    std::ifstream in(file);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    std::mt19937_64 random(3);
    int taken = 0;
    for (int round = 0; round < 400; ++round) {
        std::string broken = bytes;
        // Half of the rounds change a digit into another: what still is JSON.
        for (int k = 0; k <= round % 3; ++k) {
            size_t at = random() % broken.size();
            while (round % 2 && (broken[at] < '0' || broken[at] > '9')) at = (at + 1) % broken.size();
            broken[at] = round % 2 ? static_cast<char>('0' + random() % 10) : "0123456789{}[]\",:-e.tx\n\x80"[random() % 24];
        }
        if (round % 10 == 0) broken.resize(random() % broken.size());
        store(file, broken);
        if (!refusal(file).empty() || ++taken % 8 != 0) continue;
        const test::Violations violations = test::observe(trace, program.orders, {}, std::nullopt, false, false, file).violations;
        CHECK(violations.identity + violations.causality + violations.monotonicity + violations.bounds == 0);
    }
    MESSAGE(taken << " of 400 changed files are models still");
    CHECK(taken > 20);
    CHECK(taken < 390);
}

TEST_CASE("a model that cannot be written is an error before and after the work") {
    const test::TemporaryDirectory directory;
    CHECK_THROWS_AS(replay::check_writable(directory.path("none/m.json")), replay::InputError);
    CHECK_THROWS_AS(replay::check_writable(directory.path("")), replay::InputError);
    CHECK_THROWS_AS(replay::write_model({}, directory.path("none/m.json")), replay::InputError);
    CHECK_NOTHROW(replay::check_writable(directory.path("m.json")));
}

TEST_CASE("what is no model is not overwritten, a link leads to its file, and a pipe is written to") {
    const test::TemporaryDirectory directory;
    const std::string file = directory.path("m.json"), other = directory.path("thesis"), link = directory.path("link"),
                      pipe = directory.path("pipe");
    const auto refused = [](const std::string& path) {
        CHECK_THROWS_WITH_AS(replay::check_writable(path), doctest::Contains("is no model"), replay::InputError);
    };
    for (const char* text : {"dear", "{\"schema\": \"polter.model/2\"}", "{\"schema\": 1}", "[]", "{"}) {
        CAPTURE(text);
        store(other, text);
        refused(other);
    }
    std::filesystem::create_symlink("thesis", link);
    refused(link);
    store(other, "");
    CHECK_NOTHROW(replay::check_writable(other));

    std::filesystem::remove(other);  // the link leads to nothing yet
    for (int i = 0; i < 2; ++i) {
        CHECK_NOTHROW(replay::check_writable(link));
        replay::write_model({}, link);
        CHECK(std::filesystem::is_symlink(link));
        CHECK(refusal(other).empty());
        CHECK_FALSE(std::filesystem::is_symlink(other));
    }

    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
    CHECK_NOTHROW(replay::check_writable(pipe));
    replay::write_model({}, pipe);
    CHECK(std::filesystem::is_fifo(pipe));
    char bytes[4096];
    const ssize_t got = read(reader, bytes, sizeof bytes);
    close(reader);
    REQUIRE(got > 0);
    replay::write_model({}, file);
    CHECK(Json::parse(std::string(bytes, static_cast<size_t>(got))) == load(file));
}
