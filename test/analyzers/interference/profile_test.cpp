// SPDX-License-Identifier: BSD-3-Clause
// The interference of profiles, as polter run --profile leaves them.
#include "analyzers/interference/profile.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "analyzers/interference/interference.hpp"
#include "replay/base/error.hpp"
#include "support/trace_spec.hpp"

namespace {

using namespace polter;

interference::Result of_profiles(const std::vector<std::string>& profiles) {
    interference::Options options;
    options.traces = profiles;
    return interference::analyze(options);
}

}  // namespace

TEST_CASE("a profile's bins: the nearest become one until they are few enough") {
    using List = std::vector<double>;
    CHECK(interference::merged({1, 2, 3}, 3) == List({1, 2, 3}));
    CHECK(interference::merged({1, 2, 10, 20}, 3) == List({1.5, 1.5, 10, 20}));
    CHECK(interference::merged({1, 2, 10, 11.5, 20}, 3) == List({1.5, 1.5, 10.75, 10.75, 20}));
    CHECK(interference::merged({1, 5, 9}, 1) == List({5, 5, 5}));
    CHECK(interference::merged({}, 3).empty());
}

namespace {

// As profile.c writes it: a segment's time and how much it computed, which have a bin for each segment.
void write_profile(const std::string& folder, int rank, int ranks, const std::vector<int64_t>& times, const std::string& index = "",
                   const nlohmann::json& computing = nullptr) {
    std::filesystem::create_directories(folder);
    nlohmann::json metrics;
    for (const char* name :
         {"sends", "sends_begun", "receives", "receives_begun", "collectives_all", "collectives_from_one", "collectives_to_one",
          "collectives_other", "bytes_sent", "bytes_received", "files_opened", "file_reads", "file_writes", "functions", "computing"}) {
        std::string zeros;
        for (size_t i = 0; i < times.size(); ++i) zeros += "00";
        metrics[name] = {{"bins", {1}}, {"index", zeros}};
    }
    std::string all;
    for (size_t i = 0; i < times.size(); ++i) all += "0123456789abcdef"[i / 16], all += "0123456789abcdef"[i % 16];
    metrics["time_ns"] = {{"bins", times}, {"index", index.empty() ? all : index}};
    if (!computing.is_null()) metrics["computing"] = {{"bins", computing}, {"index", all}};
    std::ofstream(folder + "/profile." + std::to_string(rank) + ".json")
        << nlohmann::json{{"schema", "polter.profile.rank/1"},
                          {"rank", rank},
                          {"ranks", ranks},
                          {"counter", computing.is_null() ? "" : "INSTRUCTIONS"},
                          {"segments", times.size()},
                          {"lost", 0},
                          {"before_ns", 50},
                          {"after_ns", 70},
                          {"metrics", metrics}};
}

}  // namespace

TEST_CASE("a profile gives the same answer as a trace") {
    const test::TemporaryDirectory directory;
    // The first of the hand-computed cases: 24 %.
    for (int rank = 0; rank < 2; ++rank)
        write_profile(directory.path("profile"), rank, 2, {100, 110, 120, 100, 510, 110, 120, 100, 110, 120});
    const auto one = of_profiles({directory.path("profile")}).runs.front();
    CHECK(one.estimate.percent == doctest::Approx(24));
    CHECK(one.run.before == 50);
    CHECK(one.run.after == 70);
    CHECK(!one.noise_known);
    write_profile(directory.path("damaged"), 0, 2, {100, 110}, "00ff");
    CHECK_THROWS_WITH_AS(of_profiles({directory.path("damaged")}), doctest::Contains("bin that does not exist"), replay::InputError);
    write_profile(directory.path("short"), 0, 2, {100, 110}, "00");
    CHECK_THROWS_WITH_AS(of_profiles({directory.path("short")}), doctest::Contains("1 segments instead of 2"), replay::InputError);
    write_profile(directory.path("missing"), 0, 2, {100, 110});
    CHECK_THROWS_WITH_AS(of_profiles({directory.path("missing")}), doctest::Contains("profile.1.json"), replay::InputError);
}

TEST_CASE("a profile's counter tells kinds of segments apart, where all ranks have it") {
    const test::TemporaryDirectory directory;
    // As in the hand-computed case of two kinds, without the third.
    const std::vector<int64_t> times = {110, 310, 110, 310, 110, 410, 110, 310, 110, 310, 160, 310};
    nlohmann::json computing;
    for (int i = 0; i < 6; ++i) {
        computing.push_back(1'000 + 10 * i);
        computing.push_back(2'000 - 10 * i);
    }
    for (int rank = 0; rank < 2; ++rank) write_profile(directory.path("counted"), rank, 2, times, "", computing);
    const auto counted = of_profiles({directory.path("counted")}).runs.front();
    CHECK(counted.run.counter == "INSTRUCTIONS");
    CHECK(counted.estimate.groups.size() == 2);
    CHECK(counted.estimate.percent == doctest::Approx(100 * (46.0 + 96.0) / (5 * 110 + 160 + 5 * 310 + 410)));
    for (int rank = 0; rank < 2; ++rank)
        write_profile(directory.path("half"), rank, 2, times, "", rank == 0 ? computing : nlohmann::json(nullptr));
    const auto half = of_profiles({directory.path("half")}).runs.front();
    CHECK(half.run.counter.empty());
    CHECK(half.estimate.groups.size() == 1);
}

TEST_CASE("a profile that cannot be judged gets a reason") {
    const test::TemporaryDirectory directory;
    const auto message = [&](const std::string& name, int ranks, const std::vector<int64_t>& times,
                             const nlohmann::json& computing = nullptr) {
        for (int rank = 0; rank < ranks; ++rank) write_profile(directory.path(name), rank, ranks, times, "", computing);
        try {
            of_profiles({directory.path(name)});
        } catch (const replay::InputError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK(message("fine", 2, {100, 110, 100}) == "");
    CHECK(message("alone", 1, {100, 110, 100}).find("one rank") != std::string::npos);
    CHECK(message("none", 2, {}).find("fewer than two blocking collectives") != std::string::npos);
    CHECK(message("one", 2, {100}).find("only one segment") != std::string::npos);
    CHECK(message("still", 2, {0, 0, 0}).find("length 0") != std::string::npos);
    CHECK(message("nan", 2, {100, 110}, {1, std::nan("")}).find("damaged") != std::string::npos);  // null in JSON
    const auto file = std::filesystem::path(directory.path("fine")) / "profile.0.json";
    std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
    CHECK_THROWS_WITH_AS(of_profiles({directory.path("fine")}), doctest::Contains("profile.0.json"), replay::InputError);
}
