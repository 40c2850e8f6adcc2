// SPDX-License-Identifier: BSD-3-Clause
// The history of jobs under writers that die, full disks, damaged files and older schemas: what was acknowledged is there, and what is not
// usable is said.
#include "analyzers/quality/store.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "analyzers/quality/mutations.hpp"
#include "analyzers/quality/quality.hpp"
#include "generated_jobs.hpp"
#include "support/trace_spec.hpp"

namespace {

using namespace polter;
using namespace polter::quality;
using namespace polter::test;
namespace fs = std::filesystem;

std::string damaged_warning(const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings)
        if (warning.find("left out") != std::string::npos) return warning;
    return "";
}

void execute(const std::string& file, const char* sql) {
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
    char* error = nullptr;
    sqlite3_exec(database, sql, nullptr, nullptr, &error);
    CHECK_MESSAGE(!error, error);
    sqlite3_free(error);
    sqlite3_close(database);
}

// As earlier versions wrote them.
constexpr const char* schema_1 = R"(
CREATE TABLE job(application TEXT, size REAL, processes INTEGER, runtime_ns INTEGER, started_s INTEGER, noise_known INTEGER);
CREATE TABLE totals(name TEXT, value REAL);
CREATE TABLE features(name TEXT, interval INTEGER, mean REAL, deviation REAL);
CREATE TABLE stolen(source TEXT, culprit TEXT, ns INTEGER, rank INTEGER);
PRAGMA user_version=1;
INSERT INTO job VALUES('generated', 1000, 2, 1500000000, 5, 1);
INSERT INTO totals VALUES('calls', 12);
INSERT INTO features VALUES('mpi', 7, 0.25, 0.125))";
constexpr const char* schema_2 = R"(
CREATE TABLE job(application TEXT, size REAL, processes INTEGER, nodes INTEGER, runtime_ns INTEGER, started_s INTEGER, noise_known INTEGER);
CREATE TABLE totals(name TEXT, value REAL);
CREATE TABLE features(name TEXT, interval INTEGER, mean REAL, deviation REAL);
CREATE TABLE stolen(source TEXT, culprit TEXT, ns INTEGER, rank INTEGER);
PRAGMA user_version=2;
INSERT INTO job VALUES('generated', 2000, 4, 3, 1600000000, 6, 1);
INSERT INTO stolen VALUES('preempt', 'hog', 77, 1))";

// Killed in the middle of writing: by the signal that a file beyond the limit of its size sends.
void killed_while_writing(Store& store, std::mt19937_64& random) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit limit{8192, 8192}, none{0, 0};
        setrlimit(RLIMIT_CORE, &none);
        setrlimit(RLIMIT_FSIZE, &limit);
        signal(SIGXFSZ, SIG_DFL);
        store.add(generated(random, 1, false, true));
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
}

// What does not hold, or empty. The quick ones: each mutation of the store breaks one.
std::string promises() {
    const test::TemporaryDirectory directory;
    Store store(directory.path("history"), true);
    std::mt19937_64 random(9);
    Job named = generated(random, 1, false, true);
    named.id = "named";
    named.started_s = 1;
    store.add(named);
    std::vector<std::string> warnings;
    store.entries(warnings);
    killed_while_writing(store, random);
    store.jobs("", warnings);
    if (!warnings.empty()) return "a killed writer left " + warnings.front();
    Job same = named;
    same.started_s = 2;
    bool refused = false;
    try {
        store.add(same);
    } catch (const StoreError&) {
        refused = true;
    }
    if (!refused || read_job(directory.path("history") + "/jobs/named.job").started_s != 1) return "a job was replaced";
    store.add(generated(random));
    if (store.entries(warnings).size() != 2 || store.jobs("", warnings).size() != 2) return "a job that the index did not know is lost";
    execute(directory.path("history") + "/jobs/first.job", schema_1);
    if (store.jobs("", warnings).size() != 3) return "a job of an older schema is lost";
    return warnings.empty() ? "" : warnings.front();
}

}  // namespace

TEST_CASE("what was acknowledged stays") {
    CHECK(promises() == "");
}

TEST_CASE("a job comes back as it was written") {
    const test::TemporaryDirectory directory;
    Store store(directory.path("history"), true);
    std::mt19937_64 random(3);
    Job job = generated(random, 1, false, true);
    job.started_s = 77;
    job.stolen.push_back({"preempt", "a 'name'; with all", 5, 1});
    const std::string id = store.add(job);
    std::vector<std::string> warnings;
    const auto jobs = store.jobs("generated", warnings);
    REQUIRE(jobs.size() == 1);
    CHECK(warnings.empty());
    CHECK(jobs[0].id == id);
    CHECK(jobs[0].size == job.size);
    CHECK(jobs[0].runtime_ns == job.runtime_ns);
    CHECK(jobs[0].started_s == 77);
    CHECK(jobs[0].totals == job.totals);
    CHECK(jobs[0].features.at("calls").mean == job.features.at("calls").mean);
    CHECK(jobs[0].series.step_ns == job.series.step_ns);
    CHECK(jobs[0].series.steps == job.series.steps);
    CHECK(jobs[0].stolen.size() == 2);
    CHECK(jobs[0].stolen[1].culprit == "a 'name'; with all");
    job.id = id;
    CHECK_THROWS_AS(store.add(job), StoreError);  // the first one stays
    CHECK(store.jobs("another", warnings).empty());
    CHECK_THROWS_AS(Store(directory.path("nothing"), false), StoreError);
}

TEST_CASE("several writers at once lose nothing") {
    const test::TemporaryDirectory directory;
    Store store(directory.path("history"), true);
    constexpr int writers = 4, each = 10;
    std::vector<pid_t> children;
    for (int w = 0; w < writers; ++w) {
        const pid_t child = fork();
        if (child == 0) {
            std::mt19937_64 random(static_cast<uint64_t>(w));
            int failed = 0;
            for (int i = 0; i < each; ++i) try {
                    store.add(generated(random, 1, false, true));
                    std::vector<std::string> warnings;
                    store.entries(warnings);  // and the index meanwhile
                } catch (const StoreError&) {
                    failed = 1;
                }
            _exit(failed);
        }
        children.push_back(child);
    }
    for (const pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(status == 0);
    }
    std::vector<std::string> warnings;
    CHECK(store.jobs("", warnings).size() == writers * each);
    CHECK(store.entries(warnings).size() == writers * each);
}

TEST_CASE("a writer that is killed leaves whole jobs only, and all that it was told of") {
    const test::TemporaryDirectory directory;
    Store store(directory.path("history"), true);
    for (int round = 0; round < 10; ++round) {
        int told[2];
        REQUIRE(pipe(told) == 0);
        const pid_t child = fork();
        if (child == 0) {
            std::mt19937_64 random(static_cast<uint64_t>(round));
            for (;;) {
                const std::string id = store.add(generated(random, 1, false, true)) + "\n";
                if (write(told[1], id.data(), id.size()) < 0) _exit(1);
            }
        }
        close(told[1]);
        std::string ids;
        char part[4096];
        ssize_t length = read(told[0], part, sizeof part);  // one at least
        if (length > 0) ids.append(part, static_cast<size_t>(length));
        usleep(static_cast<useconds_t>(1000 * round));
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        while ((length = read(told[0], part, sizeof part)) > 0) ids.append(part, static_cast<size_t>(length));
        close(told[0]);
        std::vector<std::string> warnings;
        std::string found;
        for (const Job& job : store.jobs("", warnings)) found += job.id + "\n";
        CHECK(damaged_warning(warnings) == "");
        for (size_t at = 0; at < ids.size();) {
            const size_t end = ids.find('\n', at);
            if (end == std::string::npos) break;
            CHECK(found.find(ids.substr(at, end + 1 - at)) != std::string::npos);
            at = end + 1;
        }
    }
}

TEST_CASE("a disk that is full") {
    const test::TemporaryDirectory directory;
    Store store(directory.path("history"), true);
    std::mt19937_64 random(4);
    store.add(generated(random));
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{8192, 8192};
        setrlimit(RLIMIT_FSIZE, &limit);
        int code = 1;
        try {
            store.add(generated(random));
        } catch (const StoreError& error) {
            code = std::string(error.what()).find("history/jobs") == std::string::npos ? 2 : 0;
        }
        _exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WEXITSTATUS(status) == 0);
    std::vector<std::string> warnings;
    CHECK(store.jobs("", warnings).size() == 1);
    for (const auto& file : fs::directory_iterator(directory.path("history") + "/jobs")) CHECK(file.path().extension() == ".job");
}

// Needs a mount of its own; where that is not allowed only the limit of a file's size above stands for a full disk.
TEST_CASE("a file system that is full") {
    const test::TemporaryDirectory directory;
    fs::create_directories(directory.path("small"));
    const pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("small", directory.path("small").c_str(), "tmpfs", 0, "size=512k") != 0)
            _exit(77);
        std::mt19937_64 random(6);
        const std::string folder = directory.path("small") + "/history";
        Store store(folder, true);
        std::vector<std::string> told, warnings;
        std::string why;
        for (int i = 0; i < 1000 && why.empty(); ++i) try {
                told.push_back(store.add(generated(random, 1, false, true)));
            } catch (const StoreError& error) {
                why = error.what();
            }
        const bool all_there = store.jobs("", warnings).size() == told.size() && told.size() > 3;
        const bool clear = why.find(folder) != std::string::npos && why.find("full") != std::string::npos;
        fs::remove(folder + "/jobs/" + told.front() + ".job");  // room again
        fs::remove(folder + "/jobs/" + told[1] + ".job");
        bool again = true;
        try {
            store.add(generated(random, 1, false, true));
        } catch (const StoreError&) {
            again = false;
        }
        if (!clear) std::fprintf(stderr, "%s\n", why.c_str());
        _exit((all_there ? 0 : 1) + (clear ? 0 : 2) + (again ? 0 : 4));
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        MESSAGE("not run: a file system of its own cannot be mounted here (root may)");
    else
        CHECK(status == 0);
}

TEST_CASE("histories of older schemas, and of a newer one") {
    const test::TemporaryDirectory directory;
    Store store(directory.path("history"), true);
    std::mt19937_64 random(5);
    store.add(generated(random, 1, false, true));
    const std::string jobs = directory.path("history") + "/jobs/", index = directory.path("history") + "/index.sqlite";
    execute(jobs + "first.job", schema_1);
    execute(jobs + "second.job", schema_2);
    execute(index,
            "CREATE TABLE jobs(id TEXT PRIMARY KEY, application TEXT); INSERT INTO jobs VALUES('long gone', 'generated'); PRAGMA "
            "user_version=1");
    execute(jobs + "newer.job", "CREATE TABLE job(everything BLOB); PRAGMA user_version=4");
    std::vector<std::string> warnings;
    const auto read = store.jobs("generated", warnings);
    CHECK(damaged_warning(warnings).find("newer polter") != std::string::npos);
    CHECK(warnings.size() == 1);
    REQUIRE(read.size() == 3);
    const Job first = read_job(jobs + "first.job"), second = read_job(jobs + "second.job");
    CHECK(first.nodes == 1);
    CHECK(first.runtime_ns == 1'500'000'000);
    CHECK(first.totals.at("calls") == 12);
    CHECK(first.features.at("mpi").mean[7] == 0.25);
    CHECK(second.nodes == 3);
    REQUIRE(second.stolen.size() == 1);
    CHECK(second.stolen[0].culprit == "hog");
    CHECK(second.series.steps.empty());
    // Judged together with those of today.
    std::vector<Job> mixed = history(random, 10, false, true);
    mixed.push_back(first);
    mixed.push_back(second);
    CHECK(assess(generated(random, 1, false, true), mixed).prediction.has_value());
}

TEST_CASE("damaged files") {
    const test::TemporaryDirectory directory;
    Store store(directory.path("history"), true);
    std::mt19937_64 random(5);
    for (int i = 0; i < 3; ++i) store.add(generated(random));
    std::vector<std::string> warnings;
    CHECK(store.entries(warnings).size() == 3);
    const std::string jobs = directory.path("history") + "/jobs/", index = directory.path("history") + "/index.sqlite";
    // The index.
    std::ofstream(index) << "this is no database, whatever its name says, and it is longer than a header of one";
    CHECK(store.entries(warnings).size() == 3);
    CHECK(warnings.size() == 1);
    warnings.clear();
    CHECK(store.entries(warnings).size() == 3);
    CHECK(warnings.empty());
    // A job: no database, half of one, an empty file.
    const std::string whole = [&] {
        std::ostringstream text;
        text << std::ifstream(fs::directory_iterator(jobs)->path(), std::ios::binary).rdbuf();
        return text.str();
    }();
    for (const std::string& content : {std::string("no database"), whole.substr(0, whole.size() / 2), std::string()}) {
        warnings.clear();
        std::ofstream(jobs + "damaged.job", std::ios::binary) << content;
        CHECK(store.jobs("", warnings).size() == 3);
        CHECK(damaged_warning(warnings).find("damaged.job") != std::string::npos);
    }
    fs::remove(jobs + "damaged.job");
    // A series that is none.
    warnings.clear();
    const std::string id = store.add(generated(random, 1, false, true));
    execute(jobs + id + ".job", "UPDATE series SET steps = x'0102'");
    CHECK(store.jobs("", warnings).size() == 3);
    CHECK(damaged_warning(warnings).find("series") != std::string::npos);
}

TEST_CASE("each promise has a mutation that breaks it") {
    for (int which = static_cast<int>(Mutation::written_in_place); which < mutations; ++which) {
        CAPTURE(which);
        mutation = static_cast<Mutation>(which);
        const std::string caught = promises();
        mutation = Mutation::none;
        CHECK(caught != "");
    }
}
