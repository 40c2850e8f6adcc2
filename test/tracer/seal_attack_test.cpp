// SPDX-License-Identifier: BSD-3-Clause
// Sealing what a hostile user left: links, pipes and devices in place of files, and directories that change meanwhile. A victim's
// directory stands outside of the experiment and must never change; nothing may hang.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "../../tracer/seal/seal.hpp"
#include "../../tracer/write/loaded_object.hpp"
#include "seal_ranks.hpp"

namespace fs = std::filesystem;
using namespace seal_test;
using polter::seal::Foreign;
using polter::seal::seal;

namespace {

constexpr uid_t mallory = 65534;
constexpr unsigned limit_s = 60;

std::string content(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return (std::ostringstream() << in.rdbuf()).str();
}

// Directories and files, with what is in them.
std::map<std::string, std::string> listing(const fs::path& folder) {
    std::map<std::string, std::string> out;
    for (const auto& at : fs::recursive_directory_iterator(folder))
        out[fs::relative(at.path(), folder)] = at.is_regular_file() ? content(at.path()) : "-";
    return out;
}

// What somebody would not like to lose: files of the names that sealing writes.
struct Victim {
    Experiment folder;
    std::map<std::string, std::string> before;
    Victim() {
        for (const char* name : {"traces.otf2", "traces.def", "0.evt", "0.def", "archive/traces.otf2", "archive/traces/0.evt"}) {
            fs::create_directories((folder.path / name).parent_path());
            std::ofstream(folder.path / name) << "precious";
        }
        fs::create_directories(folder.path / "read/in");
        before = listing(folder.path);
    }
    bool unharmed() const { return listing(folder.path) == before; }
};

void give_away(const fs::path& folder) {
    REQUIRE(lchown(folder.c_str(), mallory, mallory) == 0);
    for (const auto& at : fs::recursive_directory_iterator(folder)) REQUIRE(lchown(at.path().c_str(), mallory, mallory) == 0);
}

// In a child with a time limit: 0 sealed, 1 refused, 2 nothing of a rank is there; else it hung or crashed.
int ends(const fs::path& experiment, Foreign foreign, std::string* said = nullptr) {
    int told[2];
    REQUIRE(pipe(told) == 0);
    const auto pid = fork();
    if (pid == 0) {
        alarm(limit_s);
        int code = 0;
        try {
            seal({.experiment = experiment, .command = "", .foreign = foreign});
        } catch (const polter::seal::NoRanks&) {
            code = 2;
        } catch (const polter::seal::Error& error) {
            code = write(told[1], error.what(), std::string(error.what()).size()) > 0 ? 1 : 3;
        }
        _exit(code);
    }
    close(told[1]);
    char bytes[4096];
    std::string text;
    for (ssize_t got; (got = read(told[0], bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(got));
    close(told[0]);
    if (said) *said = text;
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

bool root(const char* what) {
    if (geteuid() == 0) return true;
    MESSAGE("SKIP: " << what << " needs root");
    return false;
}

}  // namespace

TEST_CASE("what another user owns is sealed only where that is asked for, and then with the owner's rights") {
    if (!root("two users")) return;
    Experiment experiment;
    write_rank(experiment.path, {.rank = 0, .size = 1});
    give_away(experiment.path);
    std::string said;
    CHECK(ends(experiment.path, Foreign::refuse, &said) == 1);
    CHECK(said.find("--seal-foreign") != std::string::npos);
    CHECK(fs::exists(experiment.path / "ranks"));
    CHECK(ends(experiment.path, Foreign::as_owner, &said) == 0);
    CHECK(said == "");
    CHECK(read_archive(experiment.path).events[0] > 0);
    for (const char* name : {"traces.otf2", "traces.def", "traces", "traces/0.evt", "traces/0.def"}) {
        CAPTURE(name);
        struct stat about;
        REQUIRE(lstat((experiment.path / name).c_str(), &about) == 0);
        CHECK(about.st_uid == mallory);
    }
}

TEST_CASE("a link in place of a directory or of a file of the archive is not followed") {
    for (const char* link : {"traces", ".sealing", "ranks"}) {
        for (const bool foreign : {false, true}) {
            if (foreign && geteuid() != 0) continue;
            CAPTURE(link);
            CAPTURE(foreign);
            Experiment experiment;
            Victim victim;
            write_rank(experiment.path, {.rank = 0, .size = 1});
            fs::remove_all(experiment.path / link);
            fs::create_directory_symlink(victim.folder.path, experiment.path / link);
            if (foreign) give_away(experiment.path);
            const int end = ends(experiment.path, foreign ? Foreign::as_owner : Foreign::own_rights);
            CHECK(end <= 2);
            CHECK((end == 0) == (std::string(link) == ".sealing"));  // what is there is removed, never what it points to
            CHECK(victim.unharmed());
        }
    }
    for (const char* link : {"traces.otf2", "traces.def", "traces/0.evt", "traces/0.def"}) {
        CAPTURE(link);
        Experiment experiment;
        Victim victim;
        write_rank(experiment.path, {.rank = 0, .size = 1});
        fs::create_directories(experiment.path / "traces");
        fs::create_symlink(victim.folder.path / (fs::exists(victim.folder.path / link) ? link : "missing"), experiment.path / link);
        CHECK(ends(experiment.path, Foreign::own_rights) <= 1);
        CHECK(victim.unharmed());
    }
}

TEST_CASE("directories that another user swaps while root seals lead nowhere else") {
    if (!root("two users")) return;
    for (const char* swapped : {".sealing", "traces"}) {
        CAPTURE(swapped);
        Victim victim;
        Experiment experiment;
        const auto pid = fork();
        if (pid == 0) {  // until it is killed; every call may fail
            alarm(limit_s);
            if (setresgid(mallory, mallory, mallory) != 0 || setresuid(mallory, mallory, mallory) != 0) _exit(1);
            const auto at = experiment.path / swapped, aside = experiment.path / "aside";
            for (;;) {
                if (rename(at.c_str(), aside.c_str()) == 0 || errno == ENOENT) (void)!symlink(victim.folder.path.c_str(), at.c_str());
                struct stat about;
                if (lstat(at.c_str(), &about) == 0 && S_ISLNK(about.st_mode)) unlink(at.c_str());
                rename(aside.c_str(), at.c_str());
            }
        }
        int sealed = 0;
        for (int round = 0; round < 40; ++round) {
            Experiment made;
            write_rank(made.path, {.rank = 0, .size = 1, .calls = 10, .finishes = round % 2 == 0});
            for (const char* old : {"ranks", "traces", "traces.otf2", "traces.def", ".sealing", "aside"}) {
                std::error_code ignored;
                fs::remove_all(experiment.path / old, ignored);
            }
            std::error_code error;
            fs::copy(made.path / "ranks", experiment.path / "ranks", fs::copy_options::recursive, error);
            REQUIRE(!error);
            REQUIRE(lchown(experiment.path.c_str(), mallory, mallory) == 0);
            const int end = ends(experiment.path, Foreign::own_rights);
            CHECK(end <= 2);
            sealed += end == 0;
        }
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        CHECK(victim.unharmed());
        MESSAGE(swapped << ": " << sealed << " of 40 were sealed all the same");
    }
}

extern "C" __attribute__((noinline, visibility("default"))) void called_here() {
    __asm__ volatile("nop");
}

namespace {

// Two lines of a sidecar: a call site behind `address`, in a file that says what this one does.
std::vector<std::string> call_site_in(const std::string& path, uint64_t address) {
    struct stat about {};
    stat(path.c_str(), &about);
    return {
        fmt::format(R"({{"object":0,"path":"{}","build_id":"","bytes":{},"modified_seconds":{}}})", path, about.st_size, about.st_mtime),
        fmt::format(R"({{"call_site":0,"object":0,"address":{}}})", address)};
}

bool has_name(const fs::path& experiment, const std::string& part) {
    const auto names = read_archive(experiment).strings;
    return std::any_of(names.begin(), names.end(), [&](const auto& name) { return name.second.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("a program that another user names is opened with that user's rights, or not at all") {
    if (!root("two users")) return;
    // This program, readable for root alone, as the loader has it: the address in the file is the one in memory less where that lies.
    const auto here = polter::write::object_at(reinterpret_cast<const void*>(called_here));
    REQUIRE(here);
    const uint64_t address = reinterpret_cast<uintptr_t>(called_here) - here->base + 1;
    Experiment secret;
    const fs::path program = secret.path / "program";
    fs::copy_file(here->path, program);
    auto lines = call_site_in(program, address);
    lines[0].replace(lines[0].find("\"build_id\":\"\""), 13, "\"build_id\":\"" + here->build_id + "\"");
    for (const bool foreign : {false, true}) {
        for (const bool readable : {false, true}) {
            CAPTURE(foreign);
            CAPTURE(readable);
            Experiment experiment;
            write_rank(experiment.path, {.rank = 0, .size = 1, .extra_lines = lines});
            fs::permissions(secret.path, readable ? fs::perms(0755) : fs::perms(0700));
            if (foreign) give_away(experiment.path);
            CHECK(ends(experiment.path, Foreign::as_owner) == 0);
            CHECK(has_name(experiment.path, "called_here") == (readable || !foreign));
            CHECK(has_name(experiment.path, "program+0x") == (foreign && !readable));
        }
    }
    // With the caller's own rights, as after a job of its own in another user's directory: not opened.
    Experiment experiment;
    write_rank(experiment.path, {.rank = 0, .size = 1, .extra_lines = lines});
    give_away(experiment.path);
    CHECK(ends(experiment.path, Foreign::own_rights) == 0);
    CHECK(has_name(experiment.path, "program+0x"));
}

TEST_CASE("a program whose path leads to a pipe, a device or garbage is named by its address, and nothing waits") {
    Experiment files;
    const fs::path pipe = files.path / "pipe", garbage = files.path / "garbage";
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    std::ofstream(garbage) << "\x7f"
                              "ELF"
                           << std::string(5000, '\x02');
    for (const fs::path& path : {pipe, garbage, fs::path("/dev/zero"), files.path, files.path / "nothing"}) {
        CAPTURE(path);
        Experiment experiment;
        write_rank(experiment.path, {.rank = 0, .size = 1, .extra_lines = call_site_in(path, 4660)});
        CHECK(ends(experiment.path, Foreign::refuse) == 0);
        CHECK(has_name(experiment.path, path.filename().string() + "+0x1234"));
        CHECK(read_archive(experiment.path).properties["POLTER::WARNINGS"].find("were not all found") == std::string::npos);
    }
}

TEST_CASE("a pipe or a device in place of a file is not read, and nothing waits for it") {
    for (const char* file : {"rank.jsonl", "traces/0.evt", "0.tail"}) {
        for (const bool device : {false, true}) {
            if (device && !root("a device")) continue;
            CAPTURE(file);
            CAPTURE(device);
            Experiment experiment;
            const auto folder = write_rank(experiment.path, {.rank = 0, .size = 1, .finishes = false});
            fs::create_directories((folder / file).parent_path());
            fs::remove(folder / file);
            constexpr unsigned zero = 5;  // /dev/zero: as many bytes as anybody reads
            if (mknod((folder / file).c_str(), (device ? S_IFCHR : S_IFIFO) | 0666, device ? makedev(1, zero) : 0) != 0) {
                MESSAGE("SKIP: no device can be made here");
                continue;
            }
            CHECK(ends(experiment.path, Foreign::own_rights) <= 2);
        }
    }
}

TEST_CASE("a hard link to another user's file is not read") {
    if (!root("two users")) return;
    Experiment experiment, other;
    const auto folder = write_rank(experiment.path, {.rank = 0, .size = 1});
    give_away(experiment.path);
    fs::copy(folder / "rank.jsonl", other.path / "secret");
    REQUIRE(lchown((other.path / "secret").c_str(), mallory - 1, mallory - 1) == 0);
    fs::remove(folder / "rank.jsonl");
    std::error_code error;
    fs::create_hard_link(other.path / "secret", folder / "rank.jsonl", error);
    REQUIRE(!error);
    for (const auto foreign : {Foreign::as_owner, Foreign::own_rights}) CHECK(ends(experiment.path, foreign) >= 1);
    CHECK(content(other.path / "secret") != "");
}
