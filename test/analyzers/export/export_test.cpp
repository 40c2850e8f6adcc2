// SPDX-License-Identifier: BSD-3-Clause
// What users write, and where an export goes.
#include "analyzers/export/export.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "analyzers/export/csv.hpp"
#include "analyzers/export/window.hpp"
#include "replay/base/error.hpp"
#include "test/replay/support/trace_spec.hpp"

namespace fs = std::filesystem;
using namespace polter;
using namespace polter::exports;

TEST_CASE("windows as results print times") {
    using Window = std::pair<int64_t, int64_t>;
    CHECK(parse_window("1.2s-1.3s") == Window{1'200'000'000, 1'300'000'000});
    CHECK(parse_window("800-950ms") == Window{800'000'000, 950'000'000});
    CHECK(parse_window("13.0 ms - 0.5 s") == Window{13'000'000, 500'000'000});
    CHECK(parse_window("0-2") == Window{0, 2'000'000'000});
    CHECK(parse_window("5us-700 us") == Window{5'000, 700'000});
    CHECK(parse_window("1ns-2ns") == Window{1, 2});
    for (const char* wrong :
         {"", "1", "1-", "-1", "2-1", "1-1", "1h-2h", "1e3-1e4", "1-2-3", "a-b", "99999999999999999999s-99999999999999999999999s"})
        CHECK_THROWS_AS(parse_window(wrong), std::invalid_argument);
}

TEST_CASE("lists of ranks") {
    CHECK(parse_ranks("0,3") == std::vector<bool>{true, false, false, true});
    CHECK(parse_ranks("1-2") == std::vector<bool>{false, true, true});
    for (const char* wrong : {"", ",", "1,", "-1", "3-1", "a", "1 2", "99999999"})
        CHECK_THROWS_AS(parse_ranks(wrong), std::invalid_argument);
}

TEST_CASE("fields of CSV") {
    CHECK(csv_field("plain") == "plain");
    CHECK(csv_field("a,b") == "\"a,b\"");
    CHECK(csv_field("say \"x\"\n") == "\"say \"\"x\"\"\n\"");
    CHECK(csv_field("bad \xff") == "bad \\xff");
}

namespace {

void write_file(const std::string& path, const char* text) {
    std::ofstream(path) << text;
}

std::string error_of(const ExportOptions& options) {
    try {
        export_trace(options);
    } catch (const replay::InputError& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("only what polter export wrote in that format is replaced") {
    test::TraceSpec spec(1);
    spec.accounts = {"os:timer"};
    spec.add(0, 0, test::Record::Kind::enter, "MPI_Init");
    spec.add(0, 10, test::Record::Kind::leave, "MPI_Init");
    const test::TemporaryDirectory folder;
    test::write_trace(spec, folder.path("t"));
    ExportOptions options;
    options.trace = folder.path("t");
    for (const Format format : {Format::perfetto, Format::chrome, Format::goal}) {
        CAPTURE(format_name(format));
        options.format = format;
        options.output = folder.path("thesis");
        write_file(options.output, "dear");
        CHECK(error_of(options).find("not overwritten") != std::string::npos);
        CHECK(fs::file_size(options.output) == 4);
        options.output = folder.path(format_name(format));
        CHECK(error_of(options) == "");
        CHECK(error_of(options) == "");  // again
    }
    options.output = folder.path("goal");  // of another format
    options.format = Format::chrome;
    CHECK(error_of(options).find("not overwritten") != std::string::npos);
    for (const Format format : {Format::csv, Format::loggopsim}) {
        options.format = format;
        options.output = folder.path(format_name(format));
        CHECK(error_of(options) == "");
        CHECK(error_of(options).find("exists already") != std::string::npos);
        options.output = folder.path("nowhere/out");
        CHECK(error_of(options).find("cannot be made") != std::string::npos);
    }
    size_t left = 0;
    for (const auto& entry : fs::directory_iterator(folder.path("."))) left += entry.path().string().find("partial") != std::string::npos;
    CHECK(left == 0);
}

TEST_CASE("default names") {
    CHECK(default_output("a/polter-lmp-1/", Format::perfetto) == "polter-lmp-1.perfetto-trace");
    CHECK(default_output("polter-lmp-1/traces.otf2", Format::csv) == "polter-lmp-1-csv");
    CHECK(default_output("x", Format::goal) == "x.goal");
}
