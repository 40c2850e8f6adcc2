// SPDX-License-Identifier: BSD-3-Clause
// Jobs whose run time is known by a formula; and the history under writers that die, full disks and damaged files.
#include "analyzers/quality/quality.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "analyzers/quality/mutations.hpp"
#include "support/trace_spec.hpp"

namespace {

using namespace polter;
using namespace polter::quality;
namespace fs = std::filesystem;

double uniform(std::mt19937_64& random) {
    return (static_cast<double>(random() >> 11) + 0.5) * 0x1.0p-53;
}

double normal(std::mt19937_64& random) {
    const double a = uniform(random), b = uniform(random);
    return std::sqrt(-2 * std::log(a)) * std::cos(6.283185307179586 * b);
}

constexpr double of_size = 1.2, of_processes = -0.8, frequency = 2.5e9;

// t = instructions / (frequency * IPC * processes^0.8), with an error of 3 %; instructions = 10^5 * size^1.2.
Job generated(std::mt19937_64& random, double slower = 1, bool ipc_varies = false) {
    Job job;
    job.application = "generated";
    job.size = 1000 * std::pow(2.0, static_cast<double>(random() % 6));
    job.processes = int64_t{2} << (random() % 4);
    job.noise_known = true;
    const double ipc = ipc_varies ? std::exp(0.3 * normal(random)) : 1, instructions = 1e5 * std::pow(job.size, of_size);
    const double seconds = slower * instructions / (frequency * ipc) * std::pow(static_cast<double>(job.processes), of_processes) *
                           std::exp(0.03 * normal(random));
    job.runtime_ns = std::llround(1e9 * seconds);
    job.totals = {{"PAPI_TOT_INS", instructions}, {"calls", 1000}, {"bytes", job.size * 8}};
    for (size_t i = 0; i < intervals; ++i) {
        job.features["instructions per cycle"].mean[i] = ipc * (1 + 0.01 * normal(random));
        job.features["calls"].mean[i] = 1e6 * uniform(random);  // says nothing, in large numbers
        job.features["noise:preempt"].mean[i] = 0.001 * uniform(random);
    }
    job.stolen = {{"timer", "", job.runtime_ns / 100, 0}};
    return job;
}

std::vector<Job> history(std::mt19937_64& random, int count, bool ipc_varies = false) {
    std::vector<Job> jobs;
    for (int i = 0; i < count; ++i) jobs.push_back(generated(random, 1, ipc_varies));
    return jobs;
}

struct Expectations {
    std::string failed;
    void expect(bool holds, const std::string& what) {
        if (!holds && failed.empty()) failed = what;
    }
};

std::string all_expectations() {
    Expectations e;
    std::mt19937_64 random(1);
    // Coefficients, outliers, false alarms: 100 histories of 40 jobs, 20 further jobs each.
    int flagged = 0, alarms = 0, within = 0, judged = 0;
    double worst = 0;
    for (int repetition = 0; repetition < 100; ++repetition) {
        const std::vector<Job> jobs = history(random, 40);
        const Model model(jobs, Inputs::attributes);
        for (const auto& [name, value] : model.coefficients()) {
            if (name == "log size") worst = std::max(worst, std::abs(value / of_size - 1));
            if (name == "log processes") worst = std::max(worst, std::abs(value / of_processes - 1));
        }
        for (int i = 0; i < 20; ++i) {
            const Assessment ordinary = assess(generated(random), jobs), slow = assess(generated(random, 1.3), jobs);
            if (ordinary.verdict == Verdict::no_basis) continue;
            ++judged;
            alarms += ordinary.verdict != Verdict::as_expected;
            flagged += slow.verdict == Verdict::slower;
            const double took = static_cast<double>(ordinary.job.runtime_ns) * 1e-9;
            within += took >= ordinary.prediction->interval.low && took <= ordinary.prediction->interval.high;
            if (repetition > 4) break;
        }
    }
    e.expect(worst < 0.05, "a coefficient is off by " + std::to_string(100 * worst) + " %");
    e.expect(judged > 150, "only " + std::to_string(judged) + " jobs were judged");
    e.expect(flagged >= 0.95 * judged,
             std::to_string(flagged) + " of " + std::to_string(judged) + " jobs that took 30 % more were flagged");
    e.expect(alarms <= 0.05 * judged, std::to_string(alarms) + " of " + std::to_string(judged) + " ordinary jobs were flagged");
    const double covered = static_cast<double>(within) / judged;
    e.expect(covered > 0.90, "95 % intervals hold " + std::to_string(100 * covered) + " % of the jobs");
    if (!e.failed.empty()) return e.failed;
    // Rates tell what size and processes cannot: with them, the error falls to that of the formula.
    const std::vector<Job> varied = history(random, 40, true);
    const double plain = Model(varied, Inputs::attributes).left_out_error();
    const Model with_rates(varied, Inputs::rates);
    e.expect(plain > 0.12, "without rates the error is only " + std::to_string(plain));
    e.expect(with_rates.left_out_error() < 0.06, "with rates the error is " + std::to_string(with_rates.left_out_error()));
    e.expect(with_rates.components() >= 1 && with_rates.components() <= 8, "components: " + std::to_string(with_rates.components()));
    // An error that is small because the job itself was learned from is none.
    std::vector<Job> few(varied.begin(), varied.begin() + 8);
    const Model small(few, Inputs::attributes);
    double by_hand = 0;
    std::vector<double> errors;
    for (size_t i = 0; i < few.size(); ++i) {
        std::vector<Job> others = few;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        errors.push_back(
            std::abs(Model(others, Inputs::attributes).predict(few[i]).expected_s / (static_cast<double>(few[i].runtime_ns) * 1e-9) - 1));
    }
    by_hand = samples::median(errors);
    e.expect(std::abs(small.left_out_error() - by_hand) < 1e-6,
             "each job left out: " + std::to_string(small.left_out_error()) + ", by hand " + std::to_string(by_hand));
    // Far from all before it.
    const std::vector<Job> jobs = history(random, 40);
    Job far = generated(random);
    far.size = 1e9;
    e.expect(assess(far, jobs).verdict == Verdict::no_basis, "a job 30,000 times as large is judged");
    // Why: what took more than it usually does, and not what all jobs have.
    Job slow = generated(random, 1.5);
    slow.stolen.insert(slow.stolen.begin(), {"preempt", "hog", slow.runtime_ns / 4, 1});
    slow.stolen.push_back({"timer", "", slow.runtime_ns / 20, 0});
    std::vector<Job> ticking = jobs;
    for (Job& job : ticking) job.stolen = {{"timer", "", job.runtime_ns / 20, 0}};
    slow.stolen.erase(slow.stolen.begin() + 1);
    const Assessment why = assess(slow, ticking);
    e.expect(why.verdict == Verdict::slower, "a job that took 50 % more is " + name_of(why.verdict));
    e.expect(why.because.size() == 1 && why.because[0].culprit == "hog" && why.because[0].rank == 1,
             std::to_string(why.because.size()) + " causes");
    return e.failed;
}

std::string damaged_warning(const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings)
        if (warning.find("left out") != std::string::npos) return warning;
    return "";
}

}  // namespace

TEST_CASE("generated jobs: coefficients, outliers, false alarms, causes") {
    CHECK(all_expectations() == "");
}

TEST_CASE("each mutation is caught") {
    for (int which = 1; which < mutations; ++which) {
        CAPTURE(which);
        mutation = static_cast<Mutation>(which);
        const std::string caught = all_expectations();
        mutation = Mutation::none;
        CHECK(caught != "");
    }
}

TEST_CASE("too few jobs, and jobs that are all alike") {
    std::mt19937_64 random(2);
    Job job = generated(random);
    CHECK(assess(job, {}).verdict == Verdict::no_basis);
    CHECK(assess(job, {job, job}).verdict == Verdict::no_basis);
    std::vector<Job> alike;
    for (int i = 0; i < 6; ++i) {
        alike.push_back(job);
        alike.back().runtime_ns = 1'000'000'000 + i * 10'000'000;
    }
    job.runtime_ns = 1'020'000'000;
    CHECK(assess(job, alike).verdict == Verdict::as_expected);
    job.runtime_ns = 2'000'000'000;
    const Assessment slow = assess(job, alike);
    CHECK(slow.verdict == Verdict::slower);
    CHECK(to_json(slow)["verdict"] == "slower");
    CHECK(to_text(slow, 80).find("slower") != std::string::npos);
}

TEST_CASE("a job comes back as it was written") {
    const test::TemporaryDirectory directory;
    Store store(directory.path("history"), true);
    std::mt19937_64 random(3);
    Job job = generated(random);
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
                    store.add(generated(random));
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
                const std::string id = store.add(generated(random)) + "\n";
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

TEST_CASE("damaged files, an older schema and a newer one") {
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
    // Other schemas, made by SQLite's own program where it is installed, else by changing the version in the header (bytes 60 to 63).
    std::string other = whole;
    other[63] = 9;
    std::ofstream(jobs + "newer.job", std::ios::binary) << other;
    warnings.clear();
    CHECK(store.jobs("", warnings).size() == 3);
    CHECK(damaged_warning(warnings).find("newer polter") != std::string::npos);
    fs::remove(jobs + "newer.job");
    // Schema 1 had no number of nodes; reading it does not ask for that column.
    other = whole;
    other[63] = 1;
    std::ofstream(jobs + "older.job", std::ios::binary) << other;
    warnings.clear();
    const auto read = store.jobs("", warnings);
    CHECK(damaged_warning(warnings) == "");
    REQUIRE(read.size() == 4);
    CHECK(read_job(jobs + "older.job").nodes == 1);
}
