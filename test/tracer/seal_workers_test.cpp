// SPDX-License-Identifier: BSD-3-Clause
// Sealing by several workers: the archive of one worker, the error of the first item, nothing left running, few open files.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "../../tracer/conventions.hpp"
#include "../../tracer/seal/seal.hpp"
#include "../../tracer/seal/workers.hpp"
#include "seal_job.hpp"
#include "seal_ranks.hpp"

namespace fs = std::filesystem;
namespace property = polter::trace::property;
using namespace seal_test;
using namespace polter::seal;

namespace {

std::string text_of_file(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// Every file but the two that say when the archive was made.
std::map<std::string, std::string> files_of(const fs::path& experiment) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(experiment))
        if (entry.is_regular_file() && entry.path().parent_path() != experiment)
            files[fs::relative(entry.path(), experiment)] = text_of_file(entry.path());
    return files;
}

// What differs between two archives; empty: nothing.
std::string difference(const fs::path& a, const fs::path& b) {
    const auto of_a = files_of(a), of_b = files_of(b);
    if (of_a.size() != of_b.size()) return fmt::format("{} files and {}", of_a.size(), of_b.size());
    for (const auto& [name, bytes] : of_a)
        if (const auto at = of_b.find(name); at == of_b.end() || at->second != bytes) return name;
    const auto in_a = read_archive(a), in_b = read_archive(b);
    if (in_a.properties != in_b.properties) return "properties";
    if (in_a.defined_events != in_b.defined_events) return "locations";
    if (in_a.groups != in_b.groups || in_a.comm_groups != in_b.comm_groups || in_a.comm_names != in_b.comm_names) return "communicators";
    if (in_a.strings != in_b.strings) return "strings";
    if (in_a.offset != in_b.offset || in_a.length != in_b.length) return "clock";
    return {};
}

// What in_processes() or in_threads() throws.
template <typename Run>
std::string error_of(Run run) {
    try {
        run();
    } catch (const std::exception& error) {
        return error.what();
    }
    return {};
}

// In a child process, whose limits are its own. Returns wait()'s status.
template <typename Work>
int in_own_process(Work work) {
    const pid_t pid = fork();
    if (pid == 0) {
        try {
            work();
        } catch (const std::exception& error) {
            fmt::print(stderr, "{}\n", error.what());
            _exit(1);
        }
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

void limit(__rlimit_resource_t what, rlim_t to) {
    const rlimit both{to, to};
    setrlimit(what, &both);
}

}  // namespace

TEST_CASE("each item is done once, by any number of workers") {
    for (const unsigned workers : {1u, 2u, 7u}) {
        constexpr size_t items = 500;
        SharedArray<unsigned> done(items);
        in_processes(workers, items, [&](unsigned, size_t item) { ++done[item]; });
        std::vector<std::atomic<unsigned>> by_threads(items);
        in_threads(workers, items, [&](size_t item) { ++by_threads[item]; });
        for (size_t item = 0; item < items; ++item) {
            CHECK(done[item] == 1);
            CHECK(by_threads[item] == 1);
        }
    }
}

TEST_CASE("the error is that of the first item that fails") {
    const auto fails = [](size_t item) {
        if (item == 400 || item == 401 || item > 450) throw std::runtime_error(fmt::format("item {}", item));
        if (item == 400 - 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    };
    for (const unsigned workers : {1u, 2u, 7u})
        for (int repetition = 0; repetition < 20; ++repetition) {
            CHECK(error_of([&] { in_processes(workers, 500, [&](unsigned, size_t item) { fails(item); }); }) == "item 400");
            CHECK(error_of([&] { in_threads(workers, 500, fails); }) == "item 400");
        }
}

TEST_CASE("a worker that dies is an error that says how") {
    const auto dies = [](unsigned, size_t item) {
        if (item == 40) raise(SIGKILL);
    };
    CHECK(error_of([&] { in_processes(3, 100, dies); }) == "a process of 3 that put the trace together was ended by signal 9 (Killed)");
    const auto leaves = [](unsigned, size_t item) {
        if (item == 40) _exit(5);
    };
    CHECK(error_of([&] { in_processes(2, 100, leaves); }) == "a process of 2 that put the trace together left with code 5");
}

TEST_CASE("small jobs are worth no further workers") {
    CHECK(workers_for(2, 8) == 1);
    CHECK(workers_for(100, 8) == 3);
    CHECK(workers_for(10'000, 8) == 8);
    CHECK(workers_for(10'000, 1) == 1);
    CHECK(workers_for(10'000, 0) >= 1);
}

TEST_CASE("the archive is the same for any number of workers") {
    const JobSpec job{.ranks = 200, .killed = {3, 77, 199}};
    Experiment one, other;
    write_job(one.path, job);
    const auto report = seal({.experiment = one.path, .command = "c", .workers = 1});
    CHECK(report.unfinished == std::vector<uint32_t>{3, 77, 199});
    const auto contents = read_archive(one.path);
    CHECK(contents.defined_events.at(5) == job_events(job, 5));
    CHECK(contents.defined_events.at(77) < job_events(job, 77));
    CHECK(contents.groups.size() == 3 + 4);  // rows of 64
    for (const unsigned workers : {2u, 5u}) {
        fs::remove_all(other.path);
        fs::create_directory(other.path);
        write_job(other.path, job);
        const auto again = seal({.experiment = other.path, .command = "c", .workers = workers});
        CHECK(again.events == report.events);
        CHECK(again.unfinished == report.unfinished);
        CHECK(again.warnings == report.warnings);
        CHECK(difference(one.path, other.path) == "");
    }
    // The comparison sees a single byte.
    auto bytes = text_of_file(other.path / "traces" / "77.def");
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    std::ofstream(other.path / "traces" / "77.def", std::ios::binary) << bytes;
    CHECK(difference(one.path, other.path) == "traces/77.def");
}

TEST_CASE("open files do not grow with the ranks") {
    for (const unsigned workers : {1u, 2u}) {
        Experiment experiment;
        write_job(experiment.path, {.ranks = 200, .rounds = 4, .killed = {9}});
        CHECK(in_own_process([&] {
                  limit(RLIMIT_NOFILE, 32);
                  seal({.experiment = experiment.path, .command = "c", .workers = workers});
              }) == 0);
    }
}

TEST_CASE("where files cannot be written whole, sealing fails with the reason, and can be done again") {
    const JobSpec job{.ranks = 100, .killed = {60}};
    Experiment plain;
    write_job(plain.path, job);
    seal({.experiment = plain.path, .command = "c", .workers = 1});
    // Bytes: of the files that the workers write; of global definitions alone.
    for (const rlim_t most : {rlim_t{24}, rlim_t{64}, rlim_t{20'000}})
        for (const unsigned workers : {1u, 3u}) {
            CAPTURE(most);
            CAPTURE(workers);
            Experiment experiment;
            write_job(experiment.path, job);
            SharedArray<char[400]> said(1);
            CHECK(in_own_process([&] {
                      limit(RLIMIT_FSIZE, most);
                      const auto error = error_of([&] { seal({.experiment = experiment.path, .command = "c", .workers = workers}); });
                      std::snprintf(said[0], sizeof said[0], "%s", error.c_str());
                  }) == 0);
            const std::string error = said[0];
            CAPTURE(error);
            CHECK(error.find("the trace cannot be put together: ") != std::string::npos);
            CHECK_FALSE(is_sealed(experiment.path));
            seal({.experiment = experiment.path, .command = "c", .workers = 2});
            CHECK(difference(plain.path, experiment.path) == "");
        }
}

TEST_CASE("a sealer that is killed takes its workers with it and leaves what the ranks wrote") {
    const JobSpec job{.ranks = 200, .rounds = 8, .killed = {60, 100}};
    Experiment experiment, plain;
    write_job(plain.path, job);
    seal({.experiment = plain.path, .command = "c", .workers = 1});
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans come to us
    for (const int milliseconds : {2, 10, 25, 50}) {
        CAPTURE(milliseconds);
        fs::remove_all(experiment.path);
        fs::create_directory(experiment.path);
        write_job(experiment.path, job);
        const pid_t pid = fork();
        if (pid == 0) {
            seal({.experiment = experiment.path, .command = "c", .workers = 3});
            _exit(0);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
        kill(pid, SIGKILL);
        while (waitpid(-1, nullptr, 0) > 0) {
        }  // all that it started has ended: the test's time limit says if not
        seal({.experiment = experiment.path, .command = "c", .workers = 2});
        CHECK(difference(plain.path, experiment.path) == "");
        CHECK_FALSE(fs::exists(experiment.path / "ranks"));
    }
}

// Of a process's children: the most memory that one of them had.
static long most_memory_mib() {
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    return used.ru_maxrss / 1024;
}

TEST_CASE("ten thousand ranks are sealed and replayed" * doctest::skip()) {  // some minutes; --no-skip
    const char* build = std::getenv("POLTER_BUILD");
    REQUIRE(build != nullptr);
    const JobSpec job{.ranks = 10'000, .ranks_a_host = 64, .killed = {5000}};
    Experiment experiment;
    write_job(experiment.path, job);
    uint64_t events = 0;
    for (uint32_t rank = 0; rank < job.ranks; ++rank) events += job.killed.contains(rank) ? 0 : job_events(job, rank);
    CHECK(in_own_process([&] {
              limit(RLIMIT_NOFILE, 256);
              const auto report = seal({.experiment = experiment.path, .command = "c"});
              if (report.unfinished != std::vector<uint32_t>{5000}) throw std::runtime_error("other ranks are unfinished");
              if (report.events < events) throw std::runtime_error(fmt::format("{} events of {}", report.events, events));
              if (!report.warnings.empty()) throw std::runtime_error(report.warnings.front());
          }) == 0);
    CHECK(most_memory_mib() < 2048);
    const auto result = experiment.path / "result.json";
    const auto command = fmt::format("{}/polter replay --json -q {} > {}", build, experiment.path.string(), result.string());
    REQUIRE(std::system(command.c_str()) == 0);
    const auto json = nlohmann::json::parse(text_of_file(result));
    CHECK(json["ranks"] == job.ranks);
    CHECK(json["events"] >= events);
    CHECK(json["local_noise_ns"]["max"] > 0);
}
