// SPDX-License-Identifier: BSD-3-Clause
// What people are shown: names from outside do nothing to a terminal, and a part of the noise that is removed is called a part.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "replay/printable.hpp"
#include "replay/replay.hpp"
#include "trace_spec.hpp"

namespace {

using namespace polter;
using Kind = test::Record::Kind;

// 10 of timer, 40 of preempt, and 5 of a service, all of which is paid.
test::TraceSpec struck(const std::string& culprit = "rival") {
    test::TraceSpec spec(1);
    spec.accounts = {"os:timer", "os:preempt", "os-service:net"};
    spec.add(0, 0, Kind::enter, "main");
    const auto noise = [&](int64_t time, const char* account, int64_t ns) {
        test::Record& record = spec.add(0, time, Kind::noise, account);
        record.ns = ns;
        record.culprit = culprit;
    };
    noise(100, "os:timer", 10);
    noise(200, "os:preempt", 40);
    noise(300, "os-service:net", 5);
    spec.add(0, 1000, Kind::leave, "main");
    return spec;
}

replay::Result replayed(const test::TraceSpec& spec, std::optional<std::vector<std::string>> remove, uint32_t windows = 10) {
    const test::TemporaryDirectory directory;
    test::write_trace(spec, directory.path("t"));
    replay::Options options;
    options.trace = directory.path("t");
    options.remove = std::move(remove);
    options.attribution = true;
    options.windows = windows;
    return replay::replay(options);
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// The words of the line that begins with `name`.
std::vector<std::string> row(const std::string& text, const std::string& name) {
    const size_t at = text.find("\n  " + name + " ");
    REQUIRE(at != std::string::npos);
    std::vector<std::string> words;
    std::string word;
    for (const char c : text.substr(at + 1, text.find('\n', at + 1) - at)) {
        if (c != ' ' && c != '\n') {
            word += c;
        } else if (!word.empty()) {
            words.push_back(word);
            word.clear();
        }
    }
    return words;
}

}  // namespace

TEST_CASE("control characters and broken UTF-8 are shown, not sent") {
    CHECK(replay::printable("kworker/0:1-events \\ ~") == "kworker/0:1-events \\ ~");
    CHECK(replay::printable("Zählwerk 計 🜁") == "Zählwerk 計 🜁");
    CHECK(replay::printable("\x1b[2J\n\r\t\x7f") == "\\x1b[2J\\x0a\\x0d\\x09\\x7f");
    CHECK(replay::printable(std::string("a\0b", 3)) == "a\\x00b");
    CHECK(replay::printable("\xc2\x9b"
                            "31m") == "\\xc2\\x9b31m");                               // C1: a control sequence in one character
    CHECK(replay::printable("\xff\xc3(") == "\\xff\\xc3(");                           // no beginning; no continuation
    CHECK(replay::printable("\xc0\x8a\xe0\x80\x8a") == "\\xc0\\x8a\\xe0\\x80\\x8a");  // overlong ends of lines
    CHECK(replay::printable("\xed\xa0\x80\xf4\x90\x80\x80") == "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");  // surrogates; beyond the end
    CHECK(replay::printable("\xe8\xa8") == "\\xe8\\xa8");                                               // cut
    CHECK(replay::printable("a\nb\x1b\r", true) == "a\nb\\x1b\\x0d");
}

TEST_CASE("names in a trace do not reach the terminal as they are") {
    test::TraceSpec spec = struck("\x1b]0;mine\x07\nrank 7");
    spec.accounts[0] = "os:tim\x1b[31mer";
    for (test::Record& record : spec.records[0]) {
        if (record.name == "os:timer") record.name = spec.accounts[0];
        if (record.name == "main") record.name = "ma\x1b[1min";
    }
    spec.properties["EXPORTER"] = "mo\x1b[5mdule";
    replay::Result result = replayed(spec, std::nullopt);
    result.warnings.push_back("host \x1b[8m");
    for (const std::string& text : {replay::to_text(result), replay::to_short_text(result)}) {
        CHECK_FALSE(has(text, "\x1b"));
        CHECK_FALSE(has(text, "\nrank 7"));
        CHECK(has(text, "\\x1b]0;mine\\x07\\x0arank 7"));
        CHECK(has(text, "\\x1b[31mer"));
    }
    CHECK(replay::to_json(result)["culprits"][0]["culprit"] == "\x1b]0;mine\x07\nrank 7");
}

TEST_CASE("what was removed is said, and the amplification is of that") {
    using Names = std::vector<std::string>;
    const replay::Result all = replayed(struck(), std::nullopt), part = replayed(struck(), Names{"timer"}),
                         service = replayed(struck(), Names{"os-service:net", "preempt"}), nothing = replayed(struck(), Names{});
    CHECK(replay::to_json(all)["removed"] == Names{"timer", "preempt"});
    CHECK(replay::to_json(part)["removed"] == Names{"timer"});
    CHECK(replay::to_json(service)["removed"] == Names{"preempt", "os-service:net"});
    CHECK(replay::to_json(nothing)["removed"] == nlohmann::json::array());

    CHECK(all.accumulated_noise_ns == 50);
    CHECK(part.accumulated_noise_ns == 10);
    CHECK(*all.amplification == 1);
    CHECK(*part.amplification == 1);  // not a fifth: preempt is still in the run
    CHECK(*service.amplification == 1);
    CHECK_FALSE(nothing.amplification);

    CHECK(has(replay::to_text(all), "without the noise"));
    CHECK_FALSE(has(replay::to_text(all), "of what was removed"));
    CHECK(has(replay::to_text(nothing), "with nothing removed"));
    CHECK(has(replay::to_text(service), "without preempt, os-service:net"));
    const std::string text = replay::to_text(part);
    CHECK_FALSE(has(text, "without the noise"));
    CHECK_FALSE(has(text, "without noise"));
    CHECK(has(text, "\n  without timer "));
    CHECK(has(text, "of what was removed"));
    CHECK(row(text, "timer") == std::vector<std::string>{"timer", "0.000", "0.000", "0.000", "0.000", "0.000", "100.00", "%", "1.00"});
    CHECK(row(text, "preempt") == std::vector<std::string>{"preempt", "0.000", "0.000", "0.000", "-", "-", "-", "1.00"});
}

TEST_CASE("what was not measured is no table of zeros") {
    test::TraceSpec bare(1);
    bare.add(0, 0, Kind::enter, "main");
    bare.add(0, 5'000'000, Kind::leave, "main");
    test::TraceSpec none = bare;
    none.accounts = {"os:timer", "os:preempt"};
    none.properties["EXPORTER"] = "none";
    none.properties["EXPORTER_WHY"] = "asked for none";
    for (const auto& [spec, why] : {std::pair{bare, "no noise metrics"}, {none, "recorded without an exporter: asked for none"}}) {
        const replay::Result result = replayed(spec, std::nullopt);
        for (const std::string& text : {replay::to_text(result), replay::to_short_text(result)}) {
            CHECK(has(text, std::string("Noise: not measured (") + (why[0] == 'n' ? "the trace has " : "") + why));
            CHECK_FALSE(has(text, "0.000"));
            CHECK_FALSE(has(text, "The noise cost"));
        }
        CHECK(has(replay::to_short_text(result), "The run took 5.00 ms."));
        CHECK(has(replay::to_json(result)["noise_not_measured"], why));
    }

    test::TraceSpec part = struck();
    part.accounts.push_back("os:steal");
    part.properties["EXPORTER"] = "perf";
    part.properties["ACCOUNTS_SEEN"] = "timer,preempt,net";
    const replay::Result result = replayed(part, std::nullopt);
    CHECK(has(replay::to_text(result), "  not measured: steal\n"));
    CHECK_FALSE(has(replay::to_text(result), "nothing from"));
    CHECK_FALSE(replay::to_json(result).contains("noise_not_measured"));
}

TEST_CASE("the headline has its bounds, and no single figure where they leave the answer open") {
    replay::Result result = replayed(struck(), std::nullopt);
    result.measured_ns = 14'100'000'000;
    result.approximated_ns = 10'123'456'789;
    result.accumulated_noise_ns = result.measured_ns - result.approximated_ns;
    result.bounds_low_ns = 100'000'000;
    result.bounds_high_ns = 13'100'000'000;
    CHECK(has(replay::to_short_text(result), "The noise cost between 1.00 s and 14.0 s of 14.1 s: the trace leaves open how much."));
    CHECK(has(replay::to_text(result), "1.00 s to 14.0 s"));
    for (const std::string& text : {replay::to_text(result), replay::to_short_text(result)}) CHECK_FALSE(has(text, "3976.543"));
    result.bounds_low_ns = 10'000'000'000;
    result.bounds_high_ns = 10'200'000'000;
    CHECK(has(replay::to_short_text(result), "The noise cost 3.98 s of 14.1 s (28.20 %, between 3.90 s and 4.10 s)"));
    CHECK(has(replay::to_text(result), "3900.000 / 4100.000"));
}

TEST_CASE("what is too much for a table is told") {
    const std::string text = replay::to_text(replayed(struck(), std::nullopt, 21));
    CHECK(has(text, "in 21 equal parts of the run"));
    CHECK(has(text, "--json"));
    CHECK(has(replay::to_text(replayed(struck(), std::nullopt, 2)), "in 2 equal parts of the run: 0.000 0.000\n"));

    test::TraceSpec spec(1);
    spec.accounts = {"os:timer"};
    for (int i = 0; i < 9; ++i) {
        const std::string region = "phase" + std::to_string(i);
        spec.add(0, i * 1'000'000, Kind::enter, region);
        spec.add(0, i * 1'000'000 + 500'000, Kind::noise, "os:timer").ns = 100'000;
        spec.add(0, (i + 1) * 1'000'000, Kind::leave, region);
    }
    const std::string long_path = replay::to_text(replayed(spec, std::nullopt));
    CHECK(row(long_path, "and 3 other places") == std::vector<std::string>{"and", "3", "other", "places", "3.000", "2.700"});
}

TEST_CASE("a source that the trace does not have: what it has, and which was meant") {
    const auto refused = [](const std::string& name, const char* what) {
        CHECK_THROWS_WITH_AS(replayed(struck(), std::vector<std::string>{name}), doctest::Contains(what), replay::InputError);
    };
    refused("net", "it has timer, preempt, os-service:net; did you mean os-service:net?");
    refused("timr", "did you mean timer?");
    refused("os-service:nte", "did you mean os-service:net?");
    CHECK_THROWS_WITH_AS(replayed(struck(), std::vector<std::string>{"gremlins"}),
                         "--remove gremlins: the trace has no such source; it has timer, preempt, os-service:net", replay::InputError);
}
