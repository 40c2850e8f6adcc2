// SPDX-License-Identifier: BSD-3-Clause
// Readings of a thread's counters: which of them are a record.
#include "../../../tracer/write/counters.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

using namespace polter;

namespace {

trace::PerfEvent software(uint64_t config) {
    return {"event", PERF_TYPE_SOFTWARE, config, 0, 0, true};
}

write::CounterPlan plan(std::vector<uint64_t> configs) {
    write::CounterPlan plan;
    for (const uint64_t config : configs) plan.perf.push_back(software(config));
    return plan;
}

// NULL where this kernel lets nobody count.
std::unique_ptr<write::Counters> open_counters(const write::CounterPlan& plan) {
    std::string error;
    auto counters = write::Counters::open(plan, error);
    if (!counters) MESSAGE("no perf events here: not tested: " << error);
    return counters;
}

// Of this process, in the order of their numbers.
std::vector<int> perf_descriptors() {
    std::vector<int> found;
    for (int file = 0; file < 1024; file++) {
        std::error_code none;
        const auto name = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file), none);
        if (!none && name.string().find("perf_event") != std::string::npos) found.push_back(file);
    }
    return found;
}

// Not by a clock: kernels are known that read one of those late where it is the last of its group.
void fault() {
    const auto size = static_cast<size_t>(getpagesize());
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    *static_cast<volatile char*>(memory) = 1;
    munmap(memory, size);
}

}  // namespace

TEST_CASE("the first reading is a record, then only one that finds a counter moved") {
    const auto counters = open_counters(plan({PERF_COUNT_SW_DUMMY}));
    if (!counters) return;
    CHECK(counters->read());
    CHECK_FALSE(counters->read());
    CHECK(counters->values()[0] == 0);
}

TEST_CASE("a counter that moves is seen wherever it stands") {
    for (size_t size : {1, 4, 5, 8, 9})
        for (size_t at = 0; at < size; at++) {
            std::vector<uint64_t> configs(size, PERF_COUNT_SW_DUMMY);
            configs[at] = PERF_COUNT_SW_PAGE_FAULTS;
            const auto counters = open_counters(plan(configs));
            if (!counters) return;
            CAPTURE(size);
            CAPTURE(at);
            REQUIRE(counters->size() == size);
            counters->read();
            const uint64_t before = counters->values()[at];
            fault();
            CHECK(counters->read());
            CHECK(counters->values()[at] > before);
            for (size_t other = 0; other < size; other++)
                if (other != at) CHECK(counters->values()[other] == 0);
        }
}

TEST_CASE("reading leaves errno as it is, and what is no counter any more no longer moves") {
    const auto before = perf_descriptors();
    const auto counters = open_counters(plan({PERF_COUNT_SW_TASK_CLOCK}));
    if (!counters) return;
    const auto with = perf_descriptors();
    REQUIRE(with.size() == before.size() + 1);
    counters->read();
    const uint64_t last = counters->values()[0];
    errno = 0;
    // The program closes what it did not open, and opens something else there.
    for (const char* path : {"/proc/self/exe", "/dev/null"}) {
        const int other = open(path, O_RDONLY | O_CLOEXEC);
        for (const int file : with)
            if (std::find(before.begin(), before.end(), file) == before.end()) dup2(other, file);
        close(other);
        CHECK_FALSE(counters->read());
        CHECK(counters->values()[0] == last);
        CHECK_FALSE(counters->shared());
    }
    for (const int file : with)
        if (std::find(before.begin(), before.end(), file) == before.end()) close(file);
    CHECK_FALSE(counters->read());
    CHECK(errno == 0);
}
