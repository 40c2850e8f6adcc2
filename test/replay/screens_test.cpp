// SPDX-License-Identifier: BSD-3-Clause
// What is shown, as golden texts (screens/) and as properties of any result; and that the help page explains each warning.
// POLTER_UPDATE=1 writes the golden texts and the page's list anew.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "replay/base/flaws.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/replay.hpp"
#include "replay/result/first_screen.hpp"
#include "support/micro_parse.hpp"
#include "support/results.hpp"

namespace {

namespace fs = std::filesystem;
using namespace polter;

bool updates() {
    return std::getenv("POLTER_UPDATE") != nullptr;
}

std::string contents(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

replay::Result unmeasured() {
    replay::Result r = test::ring();
    r.local = r.removed_local = {};
    r.provenance["EXPORTER"] = "none";
    r.provenance["EXPORTER_WHY"] = "asked for none";
    r.provenance.erase("ACCOUNTS_SEEN");
    for (auto& rank : r.per_rank) rank.measured_by = "none";
    for (auto& source : r.sources) source.local = {};
    for (auto& service : r.services) service.local = {};
    r.culprits.clear();
    r.warnings = {replay::warning(replay::Flaw::no_exporter), replay::warning(replay::Flaw::exporter_reason, "none", "asked for none"),
                  replay::warning(replay::Flaw::no_noise)};
    return r;
}

replay::Result open() {
    replay::Result r = test::attributed_ring();
    r.bounds_low_ns = 100'000'000;
    r.bounds_high_ns = 5'000'000'000;
    return r;
}

// 64 ranks, one of which was not measured, and a result with uncertainties.
replay::Result wide() {
    replay::Result r = test::attributed_ring();
    r.ranks = 64;
    r.provenance["HOSTS"] = "n1,n2,n3,n4";
    const replay::RankResult model = r.per_rank.front();
    r.per_rank.clear();
    for (int64_t rank = 0; rank < 64; ++rank) {
        r.per_rank.push_back(model);
        r.per_rank.back().rank = rank;
        r.per_rank.back().local_noise_ns = rank * rank * 300'000;
        r.per_rank.back().sources["preempt"].local_ns = rank * rank * 290'000;
    }
    r.per_rank[7].measured_by = "none";
    for (auto& culprit : r.culprits) culprit.rank += 59;
    r.conditional = true;
    r.warnings = {
        replay::warning(replay::Flaw::other_locations, 3), replay::warning(replay::Flaw::any_source, 128, 0, "0 s"),
        replay::warning(replay::Flaw::ranks_not_measured, 1, 64, "7"),
        replay::warning(replay::Flaw::noise_beyond_interval, 60, 45'000'000, "45.0 ms"),
        replay::warning(replay::Flaw::recorder, "rank 12: the file system was full for 3 s, and 4711 events came too late to be kept")};
    return r;
}

replay::Result one_rank() {
    replay::Result r = test::attributed_ring();
    r.ranks = 1;
    r.per_rank.resize(1);
    r.attribution.paid_on = 0;
    return r;
}

replay::Result quiet() {
    replay::Result r = test::ring();
    r.accumulated_noise_ns = 0;
    r.approximated_ns = r.bounds_low_ns = r.bounds_high_ns = r.measured_ns;
    r.local = r.removed_local = {};
    r.amplification.reset();
    r.culprits.clear();
    for (auto& source : r.sources) source = test::source(source.name.c_str(), 0, 0);
    for (auto& rank : r.per_rank) rank.local_noise_ns = rank.accumulated_noise_ns = 0, rank.sources.clear();
    r.warnings = {replay::warning(replay::Flaw::no_noise)};
    return r;
}

const std::map<std::string, replay::Result>& results() {
    static const std::map<std::string, replay::Result> all = {
        {"ring", test::attributed_ring()}, {"local", test::ring()}, {"unmeasured", unmeasured()}, {"open", open()}, {"wide", wide()},
        {"one_rank", one_rank()},          {"quiet", quiet()}};
    return all;
}

struct Screen {
    const char *name, *result;
    replay::TextOptions options;
    bool is_short = false;
};
const Screen screens[] = {
    {"ring", "ring", {.unicode = true}},
    {"ring_60", "ring", {.columns = 60}},
    {"ring_120", "ring", {.columns = 120, .unicode = true}},
    {"ring_all", "ring", {.all = true}},
    {"ring_run", "ring", {}, true},
    {"local", "local", {}},
    {"unmeasured", "unmeasured", {}},
    {"open", "open", {}},
    {"wide", "wide", {}},
    {"wide_60", "wide", {.columns = 60}},
    {"wide_verbose", "wide", {.verbose = true}},
    {"wide_run_60", "wide", {.columns = 60}, true},
    {"one_rank", "one_rank", {}},
    {"quiet", "quiet", {}},
};

// Whatever is shown: no line is too long, nothing is a zero with a sign or with digits behind it.
void check_lines(const std::string& text, size_t columns) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        CHECK_MESSAGE(replay::columns_of(line) <= columns, line);
        for (const char* zero : {"-0 ", "-0.0 ", "-0.00 ", "-0.000 ", " 0.00 ", " 0.000 ", "nan", "inf "})
            CHECK_MESSAGE(line.find(zero) == line.npos, line);
        CHECK_MESSAGE((line.empty() || line.back() != ' '), line);
    }
}

void check_all_ways(const replay::Result& result) {
    for (const size_t columns : {60, 80, 120})
        for (const bool all : {false, true}) {
            const replay::TextOptions options{.all = all, .costs = true, .verbose = all, .columns = columns, .unicode = !all};
            const std::string text = replay::to_text(result, options), brief = replay::to_short_text(result, options);
            check_lines(text, columns);
            check_lines(brief, columns);
            if (replay::not_measured(result).empty()) continue;
            for (const char* table : {"delay", "stolen", "Delay", "share"}) {
                CHECK_MESSAGE(brief.find(table) == brief.npos, brief);
                CHECK_MESSAGE(text.substr(0, text.find("\nWarnings")).find(table) == text.npos, text);
            }
        }
}

std::string listed(const replay::FlawKind& kind) {
    const char* severity = kind.severity == replay::Severity::severe    ? "Severe"
                           : kind.severity == replay::Severity::caution ? "Caution"
                                                                        : "Note";
    const char* effect = kind.effect == replay::Effect::conditional  ? "; makes the result conditional"
                         : kind.effect == replay::Effect::prediction ? "; makes a prediction of --inject conditional"
                                                                     : "";
    return "### " + std::string(kind.name) + "\n\n*" + severity + effect + ".*\n" + replay::fold(kind.help, 0, 120) + "\n\n";
}

}  // namespace

TEST_CASE("screens are as they were") {
    for (const Screen& screen : screens) {
        CAPTURE(std::string(screen.name));
        const replay::Result& result = results().at(screen.result);
        const std::string text = screen.is_short ? replay::to_short_text(result, screen.options) : replay::to_text(result, screen.options);
        const fs::path path = fs::path(POLTER_SCREENS) / (std::string(screen.name) + ".txt");
        if (updates()) std::ofstream(path) << text;
        CHECK(text == contents(path));
    }
}

TEST_CASE("whatever the result: lines fit, zero has no sign, and what was not measured is not zero") {
    for (const auto& [name, result] : results()) {
        CAPTURE(name);
        check_all_ways(result);
    }
    for (const auto& file : fs::directory_iterator(POLTER_MICRO_TRACES)) {
        const std::string name = file.path().filename().string();
        CAPTURE(name);
        const test::TemporaryDirectory directory;
        test::write_trace(test::parse_micro(file.path().string()).trace, directory.path("t"));
        replay::Options options;
        options.trace = directory.path("t");
        options.attribution = true;
        options.windows = 60;
        check_all_ways(replay::replay(options));
    }
}

TEST_CASE("each kind of warning has its words, and fits a line") {
    std::map<std::string, int> names;
    for (const replay::FlawKind& kind : replay::flaw_kinds()) {
        CAPTURE(std::string(kind.name));
        CHECK(++names[kind.name] == 1);
        CHECK(std::string(kind.help).ends_with("."));
        CHECK(std::string(kind.message).starts_with("conditional: ") == (kind.effect != replay::Effect::none));
        CHECK((kind.effect == replay::Effect::none || kind.severity == replay::Severity::severe));
        const bool texts = std::string(kind.brief).find("{2}") == std::string::npos;  // usual figures, where they are figures
        if (kind.flaw < replay::Flaw::counted_) {
            const replay::Warning warning = replay::warning(kind.flaw, 123'456, 123'456'789, "123 ms");
            CHECK(replay::columns_of(std::string("  ") + kind.name + ": " + warning.brief) <= 80);
        } else if (texts) {
            CHECK(replay::columns_of(std::string("  ") + kind.name + ": " + kind.brief) <= 80);
        }
    }
}

TEST_CASE("the help page lists each warning under its name") {
    const fs::path path = fs::path(POLTER_DOCUMENTS) / "reading-the-result.md";
    constexpr std::string_view begin = "<!-- warnings: begin -->\n\n", end = "<!-- warnings: end -->";
    std::string page = contents(path), list;
    for (const auto severity : {replay::Severity::severe, replay::Severity::caution, replay::Severity::note})
        for (const replay::FlawKind& kind : replay::flaw_kinds())
            if (kind.severity == severity) list += listed(kind);
    const size_t from = page.find(begin), to = page.find(end);
    REQUIRE(from != page.npos);
    REQUIRE(to != page.npos);
    if (updates()) {
        page.replace(from + begin.size(), to - from - begin.size(), list);
        std::ofstream(path) << page;
    }
    CHECK_MESSAGE(page.find(list) == from + begin.size(), "POLTER_UPDATE=1 test/replay_screens_test writes it from replay/flaws.cpp");
}
