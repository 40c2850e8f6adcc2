// SPDX-License-Identifier: BSD-3-Clause
// Snapshots of a rank that goes on writing: each holds all that the rank had recorded before it, and its trace can be read.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "../../tracer/seal/snapshot.hpp"
#include "../../tracer/write/archive.hpp"
#include "seal_ranks.hpp"

namespace fs = std::filesystem;
using namespace polter;
using namespace seal_test;

namespace {

// In another process: writes as many events as it is told to, then waits for more. Its buffer is small, so chunks change all the time.
class Writer {
  public:
    explicit Writer(const fs::path& experiment)
        : shared_(static_cast<Shared*>(mmap(nullptr, sizeof *shared_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
        REQUIRE(shared_ != MAP_FAILED);
        pid_ = fork();
        REQUIRE(pid_ >= 0);
        if (pid_ == 0) write(experiment);
    }
    ~Writer() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    void write_up_to(uint64_t events) {
        shared_->wanted = events;
        while (shared_->written < events) {
            REQUIRE(waitpid(pid_, nullptr, WNOHANG) == 0);
            usleep(100);
        }
    }

  private:
    struct Shared {
        std::atomic<uint64_t> wanted, written;
    };
    [[noreturn]] void write(const fs::path& experiment) {
        std::string error;
        write::Archive::Options options;
        options.experiment = experiment;
        options.buffer_chunks = 2;
        char host[256] = "";
        gethostname(host, sizeof host - 1);
        write::Identity identity;
        identity.host = host;
        identity.pid = getpid();
        auto* archive = write::Archive::create(options, identity, {}, error);
        auto* location = archive ? archive->add_location(0, getpid(), nullptr, 1) : nullptr;
        for (uint64_t i = 1; location; ++i) {
            location->enter(2 * i, 0, nullptr);
            location->leave(2 * i + 1, 0);
            shared_->written.store(2 * i, std::memory_order_release);
            while (shared_->wanted <= 2 * i) usleep(100);
        }
        _exit(1);
    }
    Shared* shared_;
    pid_t pid_ = 0;
};

// Whether a snapshot holds all that was recorded before it, although as much again is recorded while it is taken.
bool complete(bool events_first) {
    constexpr uint64_t before = 700'000;  // OTF2 flushes a few MiB at once
    const Experiment running, copy;
    fs::create_directories(running.path / "ranks");
    Writer writer(running.path);
    writer.write_up_to(before);
    seal::SnapshotFaults faults;
    faults.events_first = events_first;
    faults.between = [&] { writer.write_up_to(2 * before); };
    const auto snapshot = seal::take_snapshot(running.path, copy.path / "copy", faults);
    REQUIRE(snapshot);
    CHECK(snapshot->taken_ns > 0);
    CHECK(snapshot->report.unfinished == std::vector<uint32_t>{0});
    const Contents contents = read_archive(copy.path / "copy");
    CHECK(contents.events.at(0) == snapshot->report.events);
    for (const auto& [location, depth] : contents.depth) CHECK(depth == 0);
    return snapshot->report.events >= before;
}

}  // namespace

TEST_CASE("a snapshot holds all that was recorded before it") {
    CHECK(complete(false));
}

TEST_CASE("event files before tails: chunks that change place meanwhile are lost") {
    CHECK(!complete(true));
}

TEST_CASE("nothing to look at") {
    const Experiment empty;
    CHECK_THROWS_AS(seal::take_snapshot(empty.path / "nothing", empty.path / "copy"), seal::Error);
    CHECK(!seal::take_snapshot(empty.path, empty.path / "copy"));
    if (geteuid() != 0) return;
    const Experiment foreign;
    REQUIRE(chown(foreign.path.c_str(), 65534, 65534) == 0);
    CHECK_THROWS_AS(seal::take_snapshot(foreign.path, empty.path / "other"), seal::Error);
}
