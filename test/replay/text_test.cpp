// SPDX-License-Identifier: BSD-3-Clause
// What people are shown: names from outside do nothing to a terminal, and a part of the noise that is removed is called a part.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/replay.hpp"
#include "replay/result/first_screen.hpp"
#include "support/results.hpp"
#include "support/trace_spec.hpp"

namespace {

using namespace polter;
using Kind = test::Record::Kind;

// 10 of timer, 40 of preempt, and 5 of a service, all of which is paid.
test::TraceSpec noisy_trace(const std::string& culprit = "rival") {
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
    test::TraceSpec spec = noisy_trace("\x1b]0;mine\x07\nrank 7");
    spec.accounts[0] = "os:tim\x1b[31mer";
    for (test::Record& record : spec.records[0]) {
        if (record.name == "os:timer") record.name = spec.accounts[0];
        if (record.name == "main") record.name = "ma\x1b[1min";
    }
    spec.properties["EXPORTER"] = "mo\x1b[5mdule";
    replay::Result result = replayed(spec, std::nullopt);
    result.warnings.push_back(replay::warning(replay::Flaw::recorder, "host \x1b[8m"));
    for (const std::string& text :
         {replay::to_text(result), replay::to_text(result, {.all = true, .costs = true, .verbose = true}), replay::to_short_text(result)}) {
        CHECK_FALSE(has(text, "\x1b"));
        CHECK_FALSE(has(text, "\nrank 7"));
        CHECK(has(text, "\\x1b]0;mine\\x07"));
        CHECK(has(text, "\\x1b[31mer"));
    }
    CHECK(has(replay::to_text(result, {.columns = 120}), "\\x1b]0;mine\\x07\\x0arank 7"));
    CHECK(replay::to_json(result)["culprits"][0]["culprit"] == "\x1b]0;mine\x07\nrank 7");
}

TEST_CASE("what was removed is said, and the amplification is of that") {
    using Names = std::vector<std::string>;
    const replay::Result all = replayed(noisy_trace(), std::nullopt), part = replayed(noisy_trace(), Names{"timer"}),
                         service = replayed(noisy_trace(), Names{"os-service:net", "preempt"}), nothing = replayed(noisy_trace(), Names{});
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

    CHECK(has(replay::to_text(all), "\nWithout noise "));
    CHECK_FALSE(has(replay::to_text(all, {.all = true}), "of what was removed"));
    CHECK(has(replay::to_text(nothing, {.all = true}), "with nothing removed"));
    CHECK(has(replay::to_short_text(nothing), "Nothing was removed"));
    CHECK_FALSE(has(replay::to_short_text(nothing), "Without"));
    CHECK(has(replay::to_text(service), "\nRemoved: preemption, network and block I/O\n"));
    const std::string text = replay::to_text(part, {.all = true});
    CHECK_FALSE(has(text, "without noise"));
    CHECK(has(text, "\nRemoved: timer interrupt\nRun time "));
    CHECK(has(text, "\nWithout these "));
    CHECK(has(text, "\nDelay caused "));
    CHECK(has(text, "of the removed sources"));
    const std::string by_source = text.substr(text.find("\nNoise by source"));
    CHECK(row(by_source, "timer") == std::vector<std::string>{"timer", "0.010", "us", "0.010", "us", "0.010", "us", "0.010", "us", "0.010",
                                                              "us", "100.0", "%", "1.00"});
    CHECK(row(by_source, "preempt") ==
          std::vector<std::string>{"preempt", "0.040", "us", "0.040", "us", "0.040", "us", "-", "-", "-", "1.00"});
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
        for (const std::string& text :
             {replay::to_text(result), replay::to_text(result, {.all = true, .costs = true}), replay::to_short_text(result)}) {
            CHECK(has(text, std::string("Noise: not measured (") + (why[0] == 'n' ? "the trace has " : "") + why));
            CHECK_FALSE(has(text, "0 s"));
            CHECK_FALSE(has(text, "OS noise"));
            CHECK(has(text, "Run time  5.00 ms\n"));
            CHECK(text.find("not measured") == text.rfind("not measured"));
        }
        CHECK(has(replay::to_json(result)["noise_not_measured"], why));
    }

    test::TraceSpec part = noisy_trace();
    part.accounts.push_back("os:steal");
    part.properties["EXPORTER"] = "perf";
    part.properties["ACCOUNTS_SEEN"] = "timer,preempt,net";
    const replay::Result result = replayed(part, std::nullopt);
    for (const std::string& text : {replay::to_text(result), replay::to_short_text(result)})
        CHECK(has(text, "\nNot measured: hypervisor steal\n"));
    CHECK_FALSE(has(replay::to_text(result, {.all = true}), "none from"));
    CHECK_FALSE(replay::to_json(result).contains("noise_not_measured"));
}

TEST_CASE("the headline has its bounds, and no single figure where they leave the answer open") {
    replay::Result result = replayed(noisy_trace(), std::nullopt);
    result.measured_ns = 14'100'000'000;
    result.provenance["OWN_COST_NS"] = "unknown";
    result.approximated_ns = 10'123'456'789;
    result.accumulated_noise_ns = result.measured_ns - result.approximated_ns;
    result.bounds_low_ns = 100'000'000;
    result.bounds_high_ns = 13'100'000'000;
    for (const std::string& text : {replay::to_text(result), replay::to_short_text(result)}) {
        CHECK(has(text, "Without noise      open    (100 ms to 13.1 s)\n"));
        CHECK(has(text, "OS noise delay     open    (1.00 s to 14.0 s)\n"));
        CHECK(has(text, "the trace leaves open how much"));
        CHECK_FALSE(has(text, "3.98 s"));
        CHECK_FALSE(has(text, "Where the time was lost"));
        CHECK_FALSE(has(text, "Delay over time,"));
    }
    result.bounds_low_ns = 10'000'000'000;
    result.bounds_high_ns = 10'200'000'000;
    CHECK(has(replay::to_short_text(result), "OS noise delay   3.98 s  28.2 %  (3.90 s to 4.10 s)\n"));
}

TEST_CASE("the line over time fits the terminal, and the table of calls says what it leaves out") {
    CHECK(has(replay::to_text(replayed(noisy_trace(), std::nullopt, 2)),
              "\nDelay over time (0 s to 1.00 us), 0.500 us a column, peak 0.050 us at 0.500 us\n  | @|\n"));
    const std::string many = replay::to_text(replayed(noisy_trace(), std::nullopt, 210));
    CHECK(has(many, "\nDelay over time, 0.014 us a column, peak 0.050 us at 0.985 us\n"));
    CHECK(has(many, "\n  0 s"));
    CHECK(has(replay::to_text(replayed(noisy_trace(), std::nullopt, 2), {.unicode = true}), "\n  | █|\n"));
    CHECK_FALSE(has(replay::to_text(replayed(noisy_trace(), std::nullopt, 1)), "over time"));

    test::TraceSpec spec(1);
    spec.accounts = {"os:timer"};
    for (int i = 0; i < 11; ++i) {
        const std::string region = "phase" + std::to_string(i);
        spec.add(0, i * 1'000'000, Kind::enter, region);
        spec.add(0, i * 1'000'000 + 500'000, Kind::noise, "os:timer").ns = 100'000;
        spec.add(0, (i + 1) * 1'000'000, Kind::leave, region);
    }
    CHECK(has(replay::to_text(replayed(spec, std::nullopt)), "\n  and 3 more places, 300 us: --all\n"));
    CHECK_FALSE(has(replay::to_text(replayed(spec, std::nullopt), {.all = true}), "more places"));
}

TEST_CASE("a source that the trace does not have: what it has, and which was meant") {
    const auto refused = [](const std::string& name, const char* what) {
        CHECK_THROWS_WITH_AS(replayed(noisy_trace(), std::vector<std::string>{name}), doctest::Contains(what), replay::InputError);
    };
    refused("net", "it has timer, preempt, os-service:net; did you mean os-service:net?");
    refused("timr", "did you mean timer?");
    refused("os-service:nte", "did you mean os-service:net?");
    CHECK_THROWS_WITH_AS(replayed(noisy_trace(), std::vector<std::string>{"gremlins"}),
                         "--remove gremlins: the trace has no such source; it has timer, preempt, os-service:net", replay::InputError);
}

namespace {

void check_width(const std::string& text, size_t columns = 80) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(replay::columns_of(line) <= columns, line);
}

}  // namespace

TEST_CASE("the first screen: what the run took, what the noise cost, and through whom") {
    const std::string head =
        "ring: 2 ranks on vm, Open MPI 4.1.4, measured by bpf\n\n"
        "Run time        5.72 s\n"
        "Without noise   3.84 s          (3.84 s to 3.86 s)\n"
        "OS noise delay  1.88 s  32.9 %  (1.86 s to 1.88 s)\n"
        "Tracing         120 ms   2.1 %  per rank\n\n"
        "  cause            stolen / rank    delay   share  top process\n"
        "  preemption              1.03 s   1.85 s  98.6 %  apt-get\n"
        "  timer interrupt        13.0 ms  12.1 ms   0.6 %  -\n"
        "  run-queue wait         9.80 ms  10.6 ms   0.6 %  unknown\n"
        "  gremlins               7.78 ms  3.00 ms   0.2 %  -\n";
    const std::string end = "\nNot measured: page-fault time\n";
    const replay::Result result = test::ring();
    CHECK(replay::to_short_text(result) == head + "  1 cause below 0.1 %: replay --all\n" + end);
    CHECK(replay::to_text(result).starts_with(replay::to_short_text(result)));
    std::string all = head;
    const size_t at = all.find("  cause");
    all = all.substr(0, at) +
          "  cause             stolen / rank    delay   share  top process\n"
          "  preemption               1.03 s   1.85 s  98.6 %  apt-get\n"
          "  timer interrupt         13.0 ms  12.1 ms   0.6 %  -\n"
          "  run-queue wait          9.80 ms  10.6 ms   0.6 %  unknown\n"
          "  gremlins                7.78 ms  3.00 ms   0.2 %  -\n"
          "  device interrupt        20.0 us  1.00 us  <0.1 %  virtio1\n" +
          end;
    CHECK(replay::to_text(result, {.all = true}).starts_with(all));
    const auto stolen = row(replay::to_text(result), "apt-get");
    CHECK(stolen == std::vector<std::string>{"apt-get", "preemption", "700", "ms", "57.9", "%", "7", "1", "(400", "ms)"});
    const auto delay = row(replay::to_text(test::attributed_ring()), "apt-get");
    CHECK(delay == std::vector<std::string>{"apt-get", "preemption", "665", "ms", "35.4", "%", "700", "ms", "1", "(665", "ms)"});
}

TEST_CASE("the first screen: what is not known is said") {
    replay::Result result = test::ring();
    result.provenance["OWN_COST_NS"] = "unknown";
    result.provenance["HOSTS"] = "a,b,c";
    result.per_rank[1].measured_by = "none";
    result.warnings = {replay::warning(replay::Flaw::source_not_seen, "bpf", "fault"),
                       replay::warning(replay::Flaw::recorder, "a clock went backward")};
    const std::string text = replay::to_short_text(result);
    CHECK(text.starts_with("ring: 2 ranks on 3 nodes, Open MPI 4.1.4, measured by bpf (1 of 2 ranks)\n\n"));
    CHECK(has(text, "\nTracing         unknown          not all ranks finalised\n"));
    CHECK(has(text, "\nWarnings (polter replay -v explains them)\n  Reported by the tracer: a clock went backward\n"));
    CHECK_FALSE(has(text, "Sources not measured"));

    result = test::ring();
    result.provenance.clear();
    for (auto& rank : result.per_rank) rank.measured_by.clear();
    CHECK(replay::to_short_text(result).starts_with("polter-ring: 2 ranks\n\nRun time"));
}

TEST_CASE("the first screen has 80 columns, whatever the trace calls things") {
    replay::Result result = test::ring();
    const std::string wild = "\x1b]0;mine\x07" + std::string(300, 'x') + "\n計計計計計計計計計計計計計計計計計";
    for (const char* property : {"PROGRAM", "MPI", "HOSTS", "EXPORTER"}) result.provenance[property] = wild;
    for (auto& rank : result.per_rank) rank.measured_by = wild;
    for (auto& one : result.sources) one.local.mean = 1e17;
    result.sources.back().name = wild;
    for (auto& culprit : result.culprits) culprit.culprit = wild;
    result.culprits.push_back({wild, "計計計計計計計計計計計計計計計計計", 0, 1, 1});
    result.services.push_back({wild, {}, 0});
    result.measured_ns = INT64_MAX;
    result.warnings = {replay::warning(replay::Flaw::recorder, wild), replay::warning(replay::Flaw::recorder, "a\nb")};
    const std::string text = replay::to_short_text(result);
    CHECK_FALSE(has(text, "\x1b"));
    CHECK(has(text, "\n  Reported by the tracer: a\\x0ab\n"));
    for (const size_t columns : {80, 120})
        for (const bool all : {false, true}) {
            check_width(replay::to_text(result, {.all = all, .verbose = true, .columns = columns}), columns);
            check_width(replay::to_short_text(result, {.columns = columns}), columns);
        }
    result.sources.clear();
    result.local = {};
    result.provenance["EXPORTER"] = "none";
    result.provenance["EXPORTER_WHY"] = wild;
    check_width(replay::to_short_text(result));
}

TEST_CASE("times have three digits and a unit, rounded") {
    const std::vector<std::pair<int64_t, const char*>> cases = {{0, "0 s"},
                                                                {7, "0.007 us"},
                                                                {999, "0.999 us"},
                                                                {1000, "1.00 us"},
                                                                {9'994, "9.99 us"},
                                                                {9'995, "10.0 us"},
                                                                {999'499, "999 us"},
                                                                {999'500, "1.00 ms"},
                                                                {999'500'000, "1.00 s"},
                                                                {12'345'678'901, "12.3 s"},
                                                                {1'234'567'890'123, "1230 s"},
                                                                {-1'234'567, "-1.23 ms"},
                                                                {INT64_MAX, "9220000000 s"},
                                                                {INT64_MIN, "-9220000000 s"}};
    for (const auto& [ns, text] : cases) CHECK(replay::short_time(ns) == text);
    CHECK(replay::short_percent(0, 5) == "0 %");
    CHECK(replay::short_percent(1, 5000) == "<0.1 %");
    CHECK(replay::short_percent(-1, 5000) == ">-0.1 %");
    CHECK(replay::short_percent(329, 1000) == "32.9 %");
    CHECK(replay::short_percent(5, 0) == "-");
    CHECK(replay::short_percent(INT64_MAX, 1) == ">999 %");
}
