// SPDX-License-Identifier: BSD-3-Clause
#include "store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <tuple>

#include "mutations.hpp"

namespace polter::quality {

namespace fs = std::filesystem;

namespace {

constexpr const char* ending = ".job";

struct Closed {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

// A database file; every failure is a StoreError that names it.
class Database {
  public:
    Database(const std::string& file, int flags) : file_(file) {
        sqlite3* opened = nullptr;
        const int code = sqlite3_open_v2(file.c_str(), &opened, flags, nullptr);
        database_.reset(opened);
        if (code != SQLITE_OK) fail("cannot be opened");
        sqlite3_busy_timeout(opened, 5000);
    }
    void run(const char* sql) {
        if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail("cannot be written or read");
    }
    int version() {
        int found = 0;
        query("PRAGMA user_version", {}, [&](sqlite3_stmt* row) { found = sqlite3_column_int(row, 0); });
        return found;
    }
    // Parameters are text or numbers; `row` is called for each row of the answer.
    struct Value {
        Value(const std::string& value) : text(&value) {}
        Value(const std::vector<double>& value) : list(&value) {}
        Value(double value) : number(value) {}
        Value(int64_t value) : integer(value), whole(true) {}
        const std::string* text = nullptr;
        const std::vector<double>* list = nullptr;
        double number = 0;
        int64_t integer = 0;
        bool whole = false;
    };
    template <class Row>
    void query(const char* sql, const std::vector<Value>& values, const Row& row) {
        sqlite3_stmt* made = nullptr;
        if (sqlite3_prepare_v2(database_.get(), sql, -1, &made, nullptr) != SQLITE_OK) fail("is damaged, or no file of polter");
        const std::unique_ptr<sqlite3_stmt, Closed> statement(made);
        for (size_t i = 0; i < values.size(); ++i) {
            const int at = static_cast<int>(i) + 1;
            if (values[i].text)
                sqlite3_bind_text(made, at, values[i].text->c_str(), static_cast<int>(values[i].text->size()), SQLITE_TRANSIENT);
            else if (values[i].list)
                sqlite3_bind_blob(made, at, values[i].list->data(), static_cast<int>(sizeof(double) * values[i].list->size()),
                                  SQLITE_TRANSIENT);
            else if (values[i].whole)
                sqlite3_bind_int64(made, at, values[i].integer);
            else
                sqlite3_bind_double(made, at, values[i].number);
        }
        int code;
        while ((code = sqlite3_step(made)) == SQLITE_ROW) row(made);
        if (code != SQLITE_DONE) fail("is damaged, or cannot be written");
    }
    void query(const char* sql, const std::vector<Value>& values) {
        query(sql, values, [](sqlite3_stmt*) {});
    }
    [[noreturn]] void fail(const char* what) const {
        throw StoreError(fmt::format("{}: {} ({})", file_, what, database_ ? sqlite3_errmsg(database_.get()) : "no memory"));
    }

  private:
    std::string file_;
    std::unique_ptr<sqlite3, Closed> database_;
};

std::string text_of(sqlite3_stmt* row, int column) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
    return text ? std::string(text, static_cast<size_t>(sqlite3_column_bytes(row, column))) : "";
}

constexpr const char* tables =
    "CREATE TABLE job(application TEXT, size REAL, processes INTEGER, nodes INTEGER, runtime_ns INTEGER, started_s INTEGER, noise_known "
    "INTEGER);"
    "CREATE TABLE totals(name TEXT, value REAL);"
    "CREATE TABLE features(name TEXT, interval INTEGER, mean REAL, deviation REAL);"
    "CREATE TABLE stolen(source TEXT, culprit TEXT, ns INTEGER, rank INTEGER);"
    "CREATE TABLE series(name TEXT, step_ns INTEGER, steps BLOB);";  // doubles of the machine; a job file does not move between byte orders

constexpr size_t most_steps_kept = 1 << 20;

void write_job(const std::string& file, const Job& job) {
    Database database(file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    database.run("PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL; BEGIN");
    database.run(tables);
    database.run(fmt::format("PRAGMA user_version={}", schema_version).c_str());
    database.query("INSERT INTO job VALUES(?,?,?,?,?,?,?)",
                   {job.application, job.size, job.processes, job.nodes, job.runtime_ns, job.started_s, int64_t{job.noise_known}});
    for (const auto& [name, value] : job.totals) database.query("INSERT INTO totals VALUES(?,?)", {name, value});
    for (const auto& [name, feature] : job.features)
        for (size_t i = 0; i < intervals; ++i)
            database.query("INSERT INTO features VALUES(?,?,?,?)", {name, static_cast<int64_t>(i), feature.mean[i], feature.deviation[i]});
    for (const Stolen& one : job.stolen)
        database.query("INSERT INTO stolen VALUES(?,?,?,?)", {one.source, one.culprit, one.ns, int64_t{one.rank}});
    for (const auto& [name, steps] : job.series.steps)
        database.query("INSERT INTO series VALUES(?,?,?)", {name, job.series.step_ns, steps});
    database.run("COMMIT");
}

void synchronise(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const bool done = fd >= 0 && fsync(fd) == 0;
    const int why = errno;
    if (fd >= 0) close(fd);
    if (!done) throw StoreError(fmt::format("{}: cannot be written to disk ({})", path, std::strerror(why)));
}

std::string new_id() {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    std::string name = fmt::format("{:016x}-{}-{}", std::chrono::duration_cast<std::chrono::microseconds>(now).count(), host, getpid());
    std::replace(name.begin(), name.end(), '/', '_');
    return name;
}

void check_version(int found, const std::string& file) {
    if (found < 1) throw StoreError(fmt::format("{}: is no job file of polter, or was never finished", file));
    if (found > schema_version)
        throw StoreError(
            fmt::format("{}: was written by a newer polter (schema {}, this one knows {}); use that one", file, found, schema_version));
}

}  // namespace

Job read_job(const std::string& file) {
    Database database(file, SQLITE_OPEN_READONLY);
    const int version = mutated(Mutation::versions_unchecked) ? schema_version : database.version();
    check_version(version, file);
    Job job;
    job.id = fs::path(file).stem();
    bool found = false;
    const char* sql = version == 1 ? "SELECT application, size, processes, 1, runtime_ns, started_s, noise_known FROM job"
                                   : "SELECT application, size, processes, nodes, runtime_ns, started_s, noise_known FROM job";
    database.query(sql, {}, [&](sqlite3_stmt* row) {
        found = true;
        job.application = text_of(row, 0);
        job.size = sqlite3_column_double(row, 1);
        job.processes = sqlite3_column_int64(row, 2);
        job.nodes = sqlite3_column_int64(row, 3);
        job.runtime_ns = sqlite3_column_int64(row, 4);
        job.started_s = sqlite3_column_int64(row, 5);
        job.noise_known = sqlite3_column_int(row, 6) != 0;
    });
    if (!found || job.runtime_ns <= 0 || job.processes <= 0 || job.nodes <= 0)
        throw StoreError(file + ": is damaged: its job has no run time, processes or nodes");
    database.query("SELECT name, value FROM totals", {},
                   [&](sqlite3_stmt* row) { job.totals[text_of(row, 0)] = sqlite3_column_double(row, 1); });
    database.query("SELECT name, interval, mean, deviation FROM features", {}, [&](sqlite3_stmt* row) {
        const auto i = static_cast<size_t>(sqlite3_column_int64(row, 1));
        if (i >= intervals) throw StoreError(file + ": is damaged: an interval beyond the last");
        Feature& feature = job.features[text_of(row, 0)];
        feature.mean[i] = sqlite3_column_double(row, 2);
        feature.deviation[i] = sqlite3_column_double(row, 3);
    });
    database.query("SELECT source, culprit, ns, rank FROM stolen ORDER BY ns DESC", {}, [&](sqlite3_stmt* row) {
        job.stolen.push_back({text_of(row, 0), text_of(row, 1), sqlite3_column_int64(row, 2), sqlite3_column_int(row, 3)});
    });
    if (version >= 3)
        database.query("SELECT name, step_ns, steps FROM series", {}, [&](sqlite3_stmt* row) {
            const auto bytes = static_cast<size_t>(sqlite3_column_bytes(row, 2));
            job.series.step_ns = sqlite3_column_int64(row, 1);
            std::vector<double>& steps = job.series.steps[text_of(row, 0)];
            steps.resize(bytes / sizeof(double));
            if (bytes > 0) std::memcpy(steps.data(), sqlite3_column_blob(row, 2), steps.size() * sizeof(double));
            const bool numbers = std::all_of(steps.begin(), steps.end(), [](double x) { return std::isfinite(x) && x >= 0; });
            if (job.series.step_ns <= 0 || steps.empty() || steps.size() > most_steps_kept || bytes % sizeof(double) || !numbers)
                throw StoreError(file + ": is damaged: a series that is none");
        });
    return job;
}

Store::Store(std::string folder, bool create) : folder_(std::move(folder)) {
    std::error_code error;
    const fs::path jobs = fs::path(folder_) / "jobs";
    if (create) fs::create_directories(jobs, error);
    if (error) throw StoreError(fmt::format("{}: the history cannot be made there ({})", folder_, error.message()));
    if (!fs::is_directory(jobs, error)) throw StoreError(fmt::format("{}: is no history of jobs; polter run --record makes one", folder_));
}

std::string Store::add(Job job) {
    if (job.id.empty()) job.id = new_id();
    const fs::path jobs = fs::path(folder_) / "jobs", file = jobs / (job.id + ending);
    const fs::path partial = mutated(Mutation::written_in_place) ? file : jobs / fmt::format(".{}.{}.partial", job.id, getpid());
    try {
        if (fs::exists(file) && !mutated(Mutation::replaces)) throw StoreError(file.string() + ": there is a job of this name already");
        write_job(partial, job);
        synchronise(partial);
        // A link and not a rename: two writers of one name must not replace each other's job.
        if (mutated(Mutation::replaces)) fs::remove(file);
        if (!mutated(Mutation::written_in_place) && link(partial.c_str(), file.c_str()) != 0 &&
            ((errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) || rename(partial.c_str(), file.c_str()) != 0))
            throw StoreError(fmt::format("{}: cannot be written ({})", file.string(), std::strerror(errno)));
        synchronise(jobs);
    } catch (...) {
        std::error_code ignored;
        fs::remove(partial, ignored);
        fs::remove(partial.string() + "-journal", ignored);
        throw;
    }
    std::error_code ignored;
    if (partial != file) fs::remove(partial, ignored);
    return job.id;
}

namespace {

using Entries = std::vector<Store::Entry>;

// Brings the index up to date with the folder, and gives what is in it.
Entries by_index(const std::string& index, const fs::path& jobs, const std::set<std::string>& there, std::set<std::string>& unreadable) {
    Database database(index, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    database.run("BEGIN IMMEDIATE");
    if (database.version() != schema_version) {
        database.run("DROP TABLE IF EXISTS jobs; CREATE TABLE jobs(id TEXT PRIMARY KEY, application TEXT, started_s INTEGER)");
        database.run(fmt::format("PRAGMA user_version={}", schema_version).c_str());
    }
    std::set<std::string> indexed;
    database.query("SELECT id FROM jobs", {}, [&](sqlite3_stmt* row) { indexed.insert(text_of(row, 0)); });
    for (const std::string& id : indexed)
        if (!there.contains(id)) database.query("DELETE FROM jobs WHERE id=?", {id});
    for (const std::string& id : there) {
        if (indexed.contains(id) || (mutated(Mutation::index_decides) && !indexed.empty())) continue;
        try {
            const Job job = read_job(jobs / (id + ending));
            database.query("INSERT INTO jobs VALUES(?,?,?)", {id, job.application, job.started_s});
        } catch (const StoreError&) {
            unreadable.insert(id);
        }
    }
    Entries entries;
    database.query("SELECT id, application, started_s FROM jobs ORDER BY started_s, id", {}, [&](sqlite3_stmt* row) {
        entries.push_back({text_of(row, 0), text_of(row, 1), sqlite3_column_int64(row, 2)});
    });
    database.run("COMMIT");
    return entries;
}

Entries by_files(const fs::path& jobs, const std::set<std::string>& there) {
    Entries entries;
    for (const std::string& id : there) try {
            const Job job = read_job(jobs / (id + ending));
            entries.push_back({id, job.application, job.started_s});
        } catch (const StoreError&) {  // told when all are read
        }
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return std::tie(a.started_s, a.id) < std::tie(b.started_s, b.id); });
    return entries;
}

}  // namespace

std::vector<Store::Entry> Store::entries(std::vector<std::string>& warnings) const {
    const fs::path jobs = fs::path(folder_) / "jobs";
    std::set<std::string> there, unreadable;
    for (const auto& file : fs::directory_iterator(jobs))
        if (file.path().extension() == ending && !file.path().filename().string().starts_with(".")) there.insert(file.path().stem());
    const std::string index = (fs::path(folder_) / "index.sqlite").string();
    for (int attempt = 0; attempt < 2; ++attempt) try {
            return by_index(index, jobs, there, unreadable);
        } catch (const StoreError& error) {
            if (attempt > 0) break;
            std::error_code ignored;  // it only saves time: whatever is wrong with it, a new one will do
            fs::remove(index, ignored);
            warnings.push_back(fmt::format("the index of the history was made anew: {}", error.what()));
        }
    return by_files(jobs, there);
}

std::vector<Job> Store::jobs(const std::string& application, std::vector<std::string>& warnings) const {
    const fs::path folder = fs::path(folder_) / "jobs";
    std::set<std::string> known;
    std::vector<Job> list;
    const auto read = [&](const std::string& id) {
        try {
            Job job = read_job(folder / (id + ending));
            if (application.empty() || job.application == application) list.push_back(std::move(job));
        } catch (const StoreError& error) {
            warnings.push_back(fmt::format("a job is left out: {}", error.what()));
        }
    };
    for (const Entry& entry : entries(warnings)) {
        known.insert(entry.id);
        if (application.empty() || entry.application == application) read(entry.id);
    }
    for (const auto& file : fs::directory_iterator(folder))  // what the index could not read: it is told
        if (!mutated(Mutation::index_decides) && file.path().extension() == ending && !file.path().filename().string().starts_with(".") &&
            !known.contains(file.path().stem()))
            read(file.path().stem());
    return list;
}

}  // namespace polter::quality
