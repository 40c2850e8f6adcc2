// SPDX-License-Identifier: BSD-3-Clause
// The writer under several threads at once: each has its location, all share names, warnings and the sidecar. For ThreadSanitizer above
// all.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../tracer/write/archive.hpp"

using namespace polter;

namespace {

constexpr unsigned threads = 4, names = 20'000;
constexpr uint64_t calls = 40'000;  // several flushes each, for two chunks of memory

struct Folder {
    std::filesystem::path path;
    Folder() {
        char name[] = "/tmp/polter-threads-XXXXXX";
        path = mkdtemp(name);
    }
    ~Folder() { std::filesystem::remove_all(path); }
};

std::vector<nlohmann::json> lines_of(const std::filesystem::path& path) {
    std::vector<nlohmann::json> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
}

// What each thread does: all of them at once, `stops` in the middle where it is not 0.
void write_all(write::Archive& archive, std::atomic<unsigned>& ready, unsigned thread, uint64_t stops) {
    ++ready;
    while (ready < threads) std::this_thread::yield();
    write::Location* location = archive.add_location(thread, static_cast<int>(100 + thread), nullptr, 1);
    if (!location) return;
    for (uint64_t i = 0; i < calls; ++i) {
        if (i < names) archive.string_id(("name " + std::to_string(i)).c_str());
        if (i % 1000 == 0) {
            archive.warn("each thread says this");
            archive.add_own_cost(1);
        }
        if (i == stops && stops > 0) archive.stop("the test ends it", i);
        location->enter(2 * i + 1, 0, nullptr);
        location->leave(2 * i + 2, 0);
    }
}

// An archive lives as long as its process, whose other threads may still be inside. So it is no leak, and neither is what tells so.
auto& archives = *new std::vector<write::Archive*>;

write::Archive* new_archive(const Folder& folder) {
    std::string error;
    write::Identity self;
    self.host = "host";
    self.pid = 1;
    write::Archive* archive = write::Archive::create({folder.path.string(), {}, 2}, self, {}, error);
    REQUIRE_MESSAGE(archive, error);
    archives.push_back(archive);
    return archive;
}

std::vector<nlohmann::json> written(const Folder& folder, uint64_t stops) {
    write::Archive* archive = new_archive(folder);
    std::atomic<unsigned> ready{0};
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t) all.emplace_back([&, t] { write_all(*archive, ready, t, t == 0 ? stops : 0); });
    for (auto& thread : all) thread.join();
    archive->finish();
    return lines_of(folder.path / "ranks/host.1/rank.jsonl");
}

}  // namespace

TEST_CASE("threads that write at once: every call of each, each name once, no line torn") {
    const Folder folder;
    const auto lines = written(folder, 0);
    const nlohmann::json& final = lines.back();
    std::set<uint64_t> ids, locations;
    size_t strings = 0;
    for (const auto& line : lines) {
        if (line.contains("location")) locations.insert(line["location"].get<uint64_t>());
        if (!line.contains("string")) continue;
        ids.insert(line["string"].get<uint64_t>());
        ++strings;
    }
    CHECK(locations.size() == threads);
    CHECK(strings == names);
    CHECK(ids.size() == names);
    REQUIRE(final["events"].size() == threads);
    for (const auto& [location, count] : final["events"].items()) CHECK(count == 2 * calls);
    CHECK(final["warnings"] == nlohmann::json{"each thread says this"});
    CHECK(final["own_cost_ns"].get<uint64_t>() >= threads * calls / 1000);
    CHECK(final["tracing_ended_ns"] == 0);
}

TEST_CASE("one thread ends the tracing while the others write") {
    const Folder folder;
    const auto lines = written(folder, calls / 2);
    const nlohmann::json& final = lines.back();
    CHECK(final["tracing_ended_ns"] == calls / 2);
    for (const auto& [location, count] : final["events"].items()) CHECK(count <= 2 * calls);
    CHECK(final["events"].value("0", uint64_t{0}) == calls);  // its own thread's calls until then
}

TEST_CASE("threads that write at any time, while one ends the trace") {
    const Folder folder;
    write::Archive* archive = new_archive(folder);
    std::atomic<bool> on{true};
    std::atomic<unsigned> writing{0};
    std::atomic<uint64_t> records{0};
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t)
        all.emplace_back([&, t] {
            write::Location* location = archive->add_location(t, static_cast<int>(100 + t), nullptr, 1);
            uint64_t time = 1;
            for (; location && location->begin_use(on); location->end_use()) {
                location->enter(++time, 0, nullptr);
                location->leave(++time, 0);
                if (time == 2001) ++writing;
            }
            records += time - 1;
        });
    while (writing < threads) std::this_thread::yield();
    on = false;
    CHECK(archive->wait_for_users(10'000'000'000));
    std::atomic<bool> still_on = true;
    write::Location* held = archive->add_location(threads, 100 + threads, nullptr, 1);
    REQUIRE(held->begin_use(still_on));
    CHECK(!archive->wait_for_users(1'000'000));
    held->end_use();
    archive->finish();
    for (auto& thread : all) thread.join();
    const auto lines = lines_of(folder.path / "ranks/host.1/rank.jsonl");
    uint64_t kept = 0;
    for (const auto& [location, count] : lines.back()["events"].items()) kept += count.get<uint64_t>();
    CHECK(kept == records);
    CHECK(lines.back()["warnings"].empty());
}
